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

// Results at the pixels (y + i * step_y, x + j * step_x) of an image, i < height, j < width.
struct ConvGrid {
  int y = 0, x = 0, step_y = 1, step_x = 1, height = 0, width = 0;
  // Planar images: where each output channel goes, from the first pixel's place; its own plane when left out.
  std::vector<ptrdiff_t> channels;
};

class ConvPlan {
 public:
  // Whether this form exists here: channels of each group a multiple of 16 (or one group), a planar input only with one
  // group. Callers use their plain kernel otherwise.
  static bool supports(const ConvParams& params, const ImageLayout& in);
  // weights: [out][in / groups][kernel_h][kernel_w], finite (an infinity times a padding zero would be NaN). Kept as
  // halves (all must be halves), they take half the memory and are widened at each use: for plans that seldom run.
  enum class Keep { kFloats, kHalves };
  // out: blocked, or planar (then channels up to 16, one group, and no run-time operands of the epilogue).
  // grid: which pixels of `out` the results are; the whole image when left out.
  ConvPlan(const ConvParams& params, const ImageLayout& in, const ImageLayout& out, const float* weights,
           Epilogue epilogue, Keep keep = Keep::kFloats, const ConvGrid& grid = {});

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
  void run_planar(int slab, Tile t, float* out, int pixels) const;
  void run_rest(const Group& group, const float* const* operands, const Run& pixels, float* out) const;

  ConvParams params_;
  ImageLayout in_, out_;
  ConvGrid grid_;
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
