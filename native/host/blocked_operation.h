// What the blocked-layout pass (host/blocked.h) knows of an image operation before it has a kernel.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/program.h"
#include "host/vector/conv.h"
#include "host/vector/epilogue.h"
#include "host/vector/layout.h"
#include "host/vector/pool.h"

namespace aneforge::host {

// One elementwise operation that follows in the same pass over memory.
struct Fused {
  vec::EpilogueStep step;
  int32_t operand = -1;  // the value, for kTensor and kGate
};

struct ImageOperation {
  enum class Kind { kConv, kDepthwise, kGroupedConv, kConvTranspose, kPool, kMean, kMap, kConcat, kRepeat, kPad };
  Kind kind = Kind::kMap;
  size_t step = 0;             // where it runs: the position of the last operation fused into it
  std::vector<size_t> covers;  // positions of other steps that it stands for
  std::vector<int32_t> in;     // images
  int32_t out = -1;
  std::string word;          // for reports: "conv+add+relu"
  std::vector<Fused> chain;  // kMap: the operation itself (none: a mere change of shape); else what follows
  bool plain_out = false;    // the result is plain: it has so few channels that blocks of 16 would be mostly padding
  bool merged = false;       // into another operation

  vec::ConvParams conv;
  bool is_sum = false;  // Q04 applies
  int32_t weights = -1, bias = -1;
  int halo_h = 0, halo_w = 0;  // that in[0] must have
  vec::PoolParams pool;
  vec::PoolAllParams mean;
  int repeat_h = 1, repeat_w = 1;
  int pad_top = 0, pad_left = 0;
  float pad_value = 0;
};

// Images of so few channels stay planar (or plain).
constexpr int kPlanarChannels = 4;

// Images of one column lie as images of one row: pixels of a row are neighbours.
inline bool lies_down(const Shape& shape) { return shape.size() == 4 && shape[3] == 1 && shape[2] > 1; }

// Rank 4 [N, C, H, W], or rank 3 [N, C, W] as images of one row.
inline std::optional<vec::ImageLayout> image_of(const Shape& shape) {
  if (shape.size() != 4 && shape.size() != 3) return std::nullopt;
  constexpr int64_t kMost = int64_t{1} << 28;
  if (count_of(shape) > kMost) return std::nullopt;
  vec::ImageLayout l;
  l.batch = static_cast<int>(shape[0]);
  l.channels = static_cast<int>(shape[1]);
  l.height = shape.size() == 4 ? static_cast<int>(shape[2]) : 1;
  l.width = static_cast<int>(shape.back());
  if (lies_down(shape)) std::swap(l.height, l.width);
  return l;
}

inline bool same_extent(const vec::ImageLayout& a, const vec::ImageLayout& b) {
  return a.batch == b.batch && a.channels == b.channels && a.height == b.height && a.width == b.width;
}

}  // namespace aneforge::host
