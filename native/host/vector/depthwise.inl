// Depthwise convolution of one block of 16 channels.
#pragma once
#include "host/vector/tile.inl"

namespace aneforge::vec::ANEFORGE_V16_NS {

V16_INLINE Finish one_row_down(const Finish& f, ptrdiff_t tensor_next) {
  Finish g = f;
  if (g.add_tensor) g.add_tensor += tensor_next;
  return g;
}

template <int Pixels>
V16_INLINE void finish_pixels(V (&acc)[Pixels][1], const Finish& f, int first, float* out) {
  Finish here = f;
  if (here.add_tensor) here.add_tensor += first * f.tensor_pixel;
  finish_tile(acc, here);
  V16_UNROLL(16)
  for (int p = 0; p < Pixels; ++p) store(out + static_cast<ptrdiff_t>(first + p) * kLanes, acc[p][0]);
}

// Any kernel, any stride: a weight is loaded once for `Pixels` outputs.
template <int Pixels, int KernelH, int KernelW>
V16_INLINE void depthwise_pixels(const DepthwiseRow& d, const float* in, int first, float* out, const Finish& f) {
  const int kernel_h = KernelH ? KernelH : d.kernel_h, kernel_w = KernelW ? KernelW : d.kernel_w;
  V acc[Pixels][1];
  V16_UNROLL(16)
  for (int p = 0; p < Pixels; ++p) acc[p][0] = splat(0.0f);
  const float* w = d.weights;
  for (int ky = 0; ky < kernel_h; ++ky) {
    const float* x = in + ky * d.in_row + first * d.in_pixel;
    for (int kx = 0; kx < kernel_w; ++kx, w += kLanes, x += d.in_tap) {
      const V weight = load(w);
      V16_UNROLL(16)
      for (int p = 0; p < Pixels; ++p) acc[p][0] = fma(load(x + p * d.in_pixel), weight, acc[p][0]);
    }
  }
  finish_pixels(acc, f, first, out);
}

#if defined(ANEFORGE_V16_AVX512)
// 3×3, stride 1, two output rows at once: each input is loaded once for up to six products (2.6 loads an output instead
// of 9). Nine weights and 2 × Pixels sums stay in registers. The sums run in the same order as above.
template <int Pixels>
V16_INLINE void depthwise_two_rows(const DepthwiseRow& d, const V (&w)[9], int first, const Finish& f0,
                                   const Finish& f1) {
  V top[Pixels][1], bottom[Pixels][1];
  V16_UNROLL(16)
  for (int p = 0; p < Pixels; ++p) top[p][0] = bottom[p][0] = splat(0.0f);
  const float* in = d.in + first * kLanes;
  V16_UNROLL(4)
  for (int y = 0; y < 4; ++y) {
    V16_UNROLL(16)
    for (int x = 0; x < Pixels + 2; ++x) {
      const V v = load(in + y * d.in_row + x * kLanes);
      V16_UNROLL(4)
      for (int kx = 2; kx >= 0; --kx) {
        const int p = x - kx;
        if (p < 0 || p >= Pixels) continue;
        if (y < 3) top[p][0] = fma(v, w[y * 3 + kx], top[p][0]);
        if (y > 0) bottom[p][0] = fma(v, w[(y - 1) * 3 + kx], bottom[p][0]);
      }
    }
  }
  finish_pixels(top, f0, first, d.out);
  finish_pixels(bottom, f1, first, d.out + d.out_next);
}

inline void depthwise_3x3_pairs(const DepthwiseRow& d, const Finish& f0, const Finish& f1) {
  V w[9];
  V16_UNROLL(9)
  for (int i = 0; i < 9; ++i) w[i] = load(d.weights + i * kLanes);
  int p = 0;
  for (; p + 7 <= d.pixels; p += 7) depthwise_two_rows<7>(d, w, p, f0, f1);
  for (; p + 2 <= d.pixels; p += 2) depthwise_two_rows<2>(d, w, p, f0, f1);
  for (; p < d.pixels; ++p) depthwise_two_rows<1>(d, w, p, f0, f1);
}
#endif

template <int KernelH, int KernelW>
V16_INLINE void depthwise_one_row(const DepthwiseRow& d, const float* in, float* out, const Finish& f) {
  int p = 0;
#if defined(ANEFORGE_V16_AVX512)
  for (; p + 14 <= d.pixels; p += 14) depthwise_pixels<14, KernelH, KernelW>(d, in, p, out, f);
  for (; p + 7 <= d.pixels; p += 7) depthwise_pixels<7, KernelH, KernelW>(d, in, p, out, f);
#elif defined(ANEFORGE_V16_NEON)
  for (; p + 6 <= d.pixels; p += 6) depthwise_pixels<6, KernelH, KernelW>(d, in, p, out, f);
#endif
  for (; p + 4 <= d.pixels; p += 4) depthwise_pixels<4, KernelH, KernelW>(d, in, p, out, f);
  for (; p < d.pixels; ++p) depthwise_pixels<1, KernelH, KernelW>(d, in, p, out, f);
}

inline void depthwise(const DepthwiseRow& row) {
  DepthwiseRow d = row;
  Finish f = *row.finish;
  const bool three = d.kernel_h == 3 && d.kernel_w == 3;
  int y = 0;
#if defined(ANEFORGE_V16_AVX512)
  if (three && d.in_pixel == kLanes && d.in_tap == kLanes && d.in_next == d.in_row)
    for (; y + 2 <= d.rows; y += 2) {
      const Finish below = one_row_down(f, d.tensor_next);
      depthwise_3x3_pairs(d, f, below);
      d.in += 2 * d.in_next;
      d.out += 2 * d.out_next;
      f = one_row_down(below, d.tensor_next);
    }
#endif
  for (; y < d.rows; ++y) {
    if (three)
      depthwise_one_row<3, 3>(d, d.in, d.out, f);
    else
      depthwise_one_row<0, 0>(d, d.in, d.out, f);
    d.in += d.in_next;
    d.out += d.out_next;
    f = one_row_down(f, d.tensor_next);
  }
}

}  // namespace aneforge::vec::ANEFORGE_V16_NS
