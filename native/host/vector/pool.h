// Pooling in blocked layout, and the spatial mean that ends most image networks.
#pragma once
#include "core/parallel.h"
#include "host/vector/epilogue.h"
#include "host/vector/layout.h"

namespace aneforge::vec {

struct PoolParams {
  bool average = false;
  bool count_padding = false;  // an average divides by the whole window; else by the positions inside the input
  int kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  int pad_top = 0, pad_left = 0;
};

// Windows are cut at the border: padding never takes part in a maximum, whatever the halo holds. Every window must hold
// at least one position of the input.
void pool(const PoolParams& params, const ImageLayout& in_layout, const float* in, const ImageLayout& out_layout,
          float* out, Rounding rounding, Parallel& parallel);

struct PoolAllParams {
  Reduce op = Reduce::kMean;
  bool narrow = false;  // a rounding after every addition (quirk Q06)
  float scale =
      1;  // the result is multiplied by it before it is stored: a mean that is written as a product with a constant
  bool saturate = false;  // … is bounded as a sum of products (quirk Q04)
};
// out[n][block][16] = op over all pixels (a layout of height = width = 1).
void pool_all(const PoolAllParams& params, const ImageLayout& in_layout, const float* in, const ImageLayout& out_layout,
              float* out, Rounding rounding, Parallel& parallel);

}  // namespace aneforge::vec
