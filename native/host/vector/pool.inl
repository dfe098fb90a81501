// Pooling windows of one block of 16 channels. The caller cuts windows at the border, so every tap is a valid value.
#pragma once
#include "host/vector/tile.inl"

namespace aneforge::vec::ANEFORGE_V16_NS {

inline void max_pool(const PoolRow& r) {
  for (int p = 0; p < r.pixels; ++p) {
    const float* in = r.in + p * r.in_pixel;
    V acc = load(in);
    for (int ky = 0; ky < r.kernel_h; ++ky)
      for (int kx = 0; kx < r.kernel_w; ++kx) acc = max_keeping_nan(acc, load(in + ky * r.in_row + kx * r.in_tap));
    store(r.out + static_cast<ptrdiff_t>(p) * kLanes, r.rounding == Rounding::kHalfNoNan ? nan_to_zero(acc) : acc);
  }
}

inline void average_pool(const PoolRow& r) {
  const V divisor = splat(r.divisor);
  for (int p = 0; p < r.pixels; ++p) {
    const float* in = r.in + p * r.in_pixel;
    V acc = splat(0.0f);
    for (int ky = 0; ky < r.kernel_h; ++ky)
      for (int kx = 0; kx < r.kernel_w; ++kx) acc = add(acc, load(in + ky * r.in_row + kx * r.in_tap));
    store(r.out + static_cast<ptrdiff_t>(p) * kLanes, settle(div(acc, divisor), r.rounding));
  }
}

}  // namespace aneforge::vec::ANEFORGE_V16_NS
