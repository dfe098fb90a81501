// Convolution in blocked layout: a plan made once (weights packed, tasks laid out), then run any number of times from
// any threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/parallel.h"
#include "host/vector/aligned.h"
#include "host/vector/epilogue.h"
#include "host/vector/layout.h"

namespace aneforge::vec {

struct ConvParams {
  int out_channels = 0, groups = 1;
  int kernel_h = 1, kernel_w = 1;
  int stride_h = 1, stride_w = 1;
  int dilation_h = 1, dilation_w = 1;
  int pad_top = 0, pad_left = 0;  // the other two follow from the output's size
};

class ConvPlan {
 public:
  // Whether this form exists here: channels of each group a multiple of 16 (or one group), a planar input only with one
  // group. Callers use their plain kernel otherwise.
  static bool supports(const ConvParams& params, const ImageLayout& in);
  // weights: [out][in / groups][kernel_h][kernel_w], finite (an infinity times a padding zero would be NaN). Kept as
  // halves (all must be halves), they take half the memory and are widened at each use: for plans that seldom run.
  enum class Keep { kFloats, kHalves };
  ConvPlan(const ConvParams& params, const ImageLayout& in, const ImageLayout& out, const float* weights,
           Epilogue epilogue, Keep keep = Keep::kFloats);

  // operands: the run-time slots of the epilogue. The halo of `out` is not written.
  void run(const float* in, float* out, const float* const* operands, Parallel& parallel) const;
  // Only these runs of neighbouring pixels, all channels, on the calling thread.
  struct Run {
    int n, y, x, pixels;
  };
  void run_some(const float* in, float* out, const float* const* operands, const std::vector<Run>& runs) const;

 private:
  struct Group {  // up to tile_blocks blocks of output channels that share one pass over the input
    int first_block, blocks, in_block;
    size_t weights;
  };
  void run_task(const float* in, float* out, const float* const* operands, int g0, int g1, int unit0, int unit1) const;
  // The packed weights of a slab; widened into this thread's scratch where they are kept as halves.
  const float* weights_of(const Group& group, int slab) const;
  void run_pixels(const Group& group, int slab, const float* weights, const float* in, float* out,
                  const float* const* operands, const Run& run) const;

  ConvParams params_;
  ImageLayout in_, out_;
  Epilogue epilogue_;
  const Kernels& kernels_;
  TileKind kind_ = kAnyStep;
  bool flat_ = false;  // 1×1, stride 1, no halo: an image is one long row
  int in_blocks_ = 0;  // blocks of one group's input
  int slab_blocks_ = 0, slabs_ = 0;
  size_t floats_per_in_block_ = 0;  // weights of one input block for one output block
  int last_channels_ = kLanes;
  int units_ = 0, unit_pixels_ = 0, units_per_image_ = 0, unit_chunk_ = 0;
  Tile tile_;
  std::vector<Group> groups_;
  std::vector<int32_t> offsets_;  // planar input: of every tap of every channel
  size_t weight_count_ = 0;
  Aligned<float> weights_;
  Aligned<uint16_t> half_weights_;
};

}  // namespace aneforge::vec
