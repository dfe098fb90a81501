// 3×3 convolution, stride 1, by Winograd's minimal filtering: 2×2 or 4×4 results share their products (2.25 or 4 times
// fewer multiplications than directly).
//
// F(2×2) is another order of summation, as good as the direct one for values of like size; a value that is huge beside
// its neighbours (some 10^4 times) leaves its own rounding error in results up to two pixels away. F(4×4) amplifies
// rounding errors about tenfold: its results still are sums in fp32, but rounded to half they differ more often from
// the correctly rounded value (some 0.5 % instead of 0.1 %). Infinities and NaN would spread over a whole tile: tiles
// with a sum that is not finite are computed again, directly, so special values come out as they do there.
#pragma once
#include <cstdint>

#include "core/parallel.h"
#include "host/vector/aligned.h"
#include "host/vector/conv.h"

namespace aneforge::vec {

class WinogradPlan {
 public:
  static bool supports(const ConvParams& params, const ImageLayout& in);
  // The tile that is likely to be fastest among 2 and, with `large`, 4; 0 where ConvPlan is.
  static int best_tile(const ConvParams& params, const ImageLayout& in, const ImageLayout& out, bool large);

  // tile: 2 or 4. weights as ConvPlan's; halves: they all are halves (the direct plan then keeps them so).
  WinogradPlan(const ConvParams& params, const ImageLayout& in, const ImageLayout& out, const float* weights,
               const Epilogue& epilogue, int tile, bool halves);
  // scratch: scratch_floats(), aligned to 64 bytes.
  void run(const float* in, float* out, const float* const* operands, float* scratch, Parallel& parallel) const;
  size_t scratch_floats() const;

 private:
  struct Range {
    int first, count;  // tiles, in row-major order over all images
  };
  struct Position {
    int n, y, x;  // of a tile's first result
  };
  Position position(int tile) const;
  // Transformed inputs of the tiles, [(tile + 2)²][blocks of input][count][16], blocks [b0, b1).
  void transform(const float* in, Range tiles, int b0, int b1, float* to) const;
  // Products and results for groups [g0, g1). Marks tiles whose sums are not finite.
  void multiply(const float* transformed, Range tiles, int g0, int g1, float* out, const float* const* operands,
                float* sums, uint8_t* spoiled) const;
  void redo(const float* in, float* out, const float* const* operands, Range tiles, const uint8_t* spoiled) const;
  size_t transformed_floats(int tiles) const { return static_cast<size_t>(points_) * in_.blocks() * tiles * kLanes; }
  size_t sums_floats(int tiles) const { return static_cast<size_t>(points_) * kernels_.tile_blocks * tiles * kLanes; }

  ConvParams params_;
  ImageLayout in_, out_;
  Epilogue epilogue_;
  const Kernels& kernels_;
  ConvPlan direct_;
  int tile_ = 2, size_ = 4, points_ = 16;
  int tiles_h_ = 0, tiles_w_ = 0, tiles_ = 0, chunk_ = 0;
  int groups_ = 0, last_channels_ = kLanes;
  Aligned<float> weights_;  // [group of output blocks][(tile + 2)²][input channel][blocks in group][16]
};

}  // namespace aneforge::vec
