// Convolution and matrix-product tiles.
#pragma once
#include "host/vector/kernels.h"
#include "host/vector/v16.h"

namespace aneforge::vec::ANEFORGE_V16_NS {

V16_INLINE V nan_to_zero(V x) { return select(is_nan(x), splat(0.0f), x); }

V16_INLINE V settle(V x, Rounding rounding) {
  if (rounding != Rounding::kNone) {
    x = to_half_and_back(x);
    if (rounding == Rounding::kHalfNoNan) x = nan_to_zero(x);
  }
  return x;
}

// Quirk Q04. From 32760 up a float rounds to the half 32768 (the tie is even), beyond 32752, the largest that passes. A
// NaN passes too.
V16_INLINE V saturate_sum(V x) {
  const float largest_that_passes = 32759.998046875f;
  return select(less(splat(largest_that_passes), absolute(x)), copy_sign(splat(INFINITY), x), x);
}

// Applies `f` to every accumulator. The passes of finish_tile are loops around this, so that each optional step costs
// one branch a tile and the accumulators never leave their registers.
template <int Pixels, int Blocks, class F>
V16_INLINE void each(V (&acc)[Pixels][Blocks], F f) {
  V16_UNROLL(16)
  for (int p = 0; p < Pixels; ++p) {
    V16_UNROLL(4)
    for (int b = 0; b < Blocks; ++b) acc[p][b] = f(acc[p][b], p, b);
  }
}

template <int Pixels, int Blocks>
V16_INLINE void round_all(V (&acc)[Pixels][Blocks], Rounding rounding) {
  if (rounding == Rounding::kNone) return;
  each(acc, [](V x, int, int) V16_LAMBDA { return to_half_and_back(x); });
  if (rounding == Rounding::kHalfNoNan) each(acc, [](V x, int, int) V16_LAMBDA { return nan_to_zero(x); });
}

// Whether some sum is NaN or infinite, or (quirk Q04) so large that it must become infinite; now and then true for
// others.
template <int Pixels, int Blocks>
V16_INLINE bool any_special(const V (&acc)[Pixels][Blocks], bool saturate) {
  // x * scale overflows from 32757 up; times zero that is NaN, which stays in the sum. Four sums hide its latency.
  const V scale = splat(saturate ? 1.0388e34f : 1.0f), zero = splat(0.0f);
  V check[4] = {zero, zero, zero, zero};
  V16_UNROLL(16)
  for (int p = 0; p < Pixels; ++p) {
    V16_UNROLL(4)
    for (int b = 0; b < Blocks; ++b)
      check[(p * Blocks + b) % 4] = fma(mul(acc[p][b], scale), zero, check[(p * Blocks + b) % 4]);
  }
  return any(is_nan(add(add(check[0], check[1]), add(check[2], check[3]))));
}

template <int Pixels, int Blocks>
V16_INLINE void finish_tile(V (&acc)[Pixels][Blocks], const Finish& f) {
  // Rare values cost nothing where there are none: finite sums stay finite, or become infinite by rounding, but never
  // NaN, until a tensor is added.
  Rounding rounding = f.rounding;
  bool special = true;
  if (f.saturate || rounding == Rounding::kHalfNoNan) special = any_special(acc, f.saturate);
  if (!special && rounding == Rounding::kHalfNoNan) rounding = Rounding::kHalf;
  if (f.saturate && special) each(acc, [](V x, int, int) V16_LAMBDA { return saturate_sum(x); });
  if (f.bias) each(acc, [&](V x, int, int b) V16_LAMBDA { return add(x, load(f.bias + b * kLanes)); });
  round_all(acc, rounding);
  if (f.mul_channel) {
    each(acc, [&](V x, int, int b) V16_LAMBDA { return mul(x, load(f.mul_channel + b * kLanes)); });
    rounding = f.rounding;  // infinity times zero
    round_all(acc, rounding);
  }
  if (f.add_channel) {
    each(acc, [&](V x, int, int b) V16_LAMBDA { return add(x, load(f.add_channel + b * kLanes)); });
    round_all(acc, rounding);
  }
  if (f.add_tensor) {
    each(acc, [&](V x, int p, int b)
                  V16_LAMBDA { return add(x, load(f.add_tensor + b * f.tensor_block + p * f.tensor_pixel)); });
    round_all(acc, f.rounding);
  }
  if (f.clamp) {
    const V low = splat(f.low), high = splat(f.high);
    // x is the second operand on purpose: a NaN passes.
    each(acc, [&](V x, int, int) V16_LAMBDA { return min(high, max(low, x)); });
  }
}

inline void finish_blocks(const Finish& f, float* sums, int blocks) {
  Finish here = f;
  for (int b = 0; b < blocks; ++b, sums += kLanes) {
    V acc[1][1] = {{load(sums)}};
    finish_tile(acc, here);
    store(sums, acc[0][0]);
    if (here.bias) here.bias += kLanes;
    if (here.mul_channel) here.mul_channel += kLanes;
    if (here.add_channel) here.add_channel += kLanes;
    if (here.add_tensor) here.add_tensor += here.tensor_block;
  }
}

// acc += input c of every pixel × the weights at w.
template <int Pixels, int Blocks>
V16_INLINE void multiply_add(V (&acc)[Pixels][Blocks], const float* x, ptrdiff_t step, const float* w) {
  V weight[Blocks];
  V16_UNROLL(4)
  for (int b = 0; b < Blocks; ++b) weight[b] = load(w + b * kLanes);
  V16_UNROLL(16)
  for (int p = 0; p < Pixels; ++p) {
    const V s = splat(x[p * step]);
    V16_UNROLL(4)
    for (int b = 0; b < Blocks; ++b) acc[p][b] = fma(s, weight[b], acc[p][b]);
  }
}

// Step: distance of neighbouring pixels, 0 = read it from the tile. ChannelStep: distance of neighbouring channels, 0 =
// by the table of offsets.
template <int Pixels, int Blocks, int Step, int ChannelStep>
void tile(const Tile& t) {
  V acc[Pixels][Blocks];
  V16_UNROLL(16)
  for (int p = 0; p < Pixels; ++p) {
    V16_UNROLL(4)
    for (int b = 0; b < Blocks; ++b) acc[p][b] = splat(0.0f);
  }
  const ptrdiff_t step = Step ? Step : t.in_pixel;
  const float* w = t.weights;
  if constexpr (ChannelStep == 0) {
    const float* const in = t.in;
    const int32_t* const offsets = t.offsets;
    for (int c = 0; c < t.channels; ++c, w += Blocks * kLanes) multiply_add(acc, in + offsets[c], step, w);
  } else {
    for (int block = 0; block < t.blocks; ++block) {
      const int channels = block + 1 == t.blocks ? t.last_channels : t.channels;
      for (int ky = 0; ky < t.kernel_h; ++ky) {
        const float* in = t.in + block * t.in_block + ky * t.in_row;
        for (int kx = 0; kx < t.kernel_w; ++kx, in += t.in_tap) {
          const float* x = in;
          for (int c = 0; c < channels; ++c, w += Blocks * kLanes, x += ChannelStep) multiply_add(acc, x, step, w);
        }
      }
    }
  }
  float* const out = t.out;
  const ptrdiff_t out_block = t.out_block, out_pixel = t.out_pixel;
  if (t.accumulate)
    each(acc, [&](V x, int p, int b) V16_LAMBDA { return add(x, load(out + b * out_block + p * out_pixel)); });
  if (t.finish) finish_tile(acc, *t.finish);
  each(acc, [&](V x, int p, int b) V16_LAMBDA {
    store(out + b * out_block + p * out_pixel, x);
    return x;
  });
}

template <int Blocks, int Pixels>
void fill_tiles(Kernels& k) {
  k.tile[kStep16][Blocks][Pixels] = tile<Pixels, Blocks, 16, 1>;
  k.tile[kStep32][Blocks][Pixels] = tile<Pixels, Blocks, 32, 1>;
  k.tile[kAnyStep][Blocks][Pixels] = tile<Pixels, Blocks, 0, 1>;
  k.tile[kScattered1][Blocks][Pixels] = tile<Pixels, Blocks, 1, 0>;
  k.tile[kScattered2][Blocks][Pixels] = tile<Pixels, Blocks, 2, 0>;
  if constexpr (Blocks == 1) k.tile[kScatteredAny][Blocks][Pixels] = tile<Pixels, Blocks, 0, 0>;
  k.tile[kPanel][Blocks][Pixels] = tile<Pixels, Blocks, 1, 16>;
  if constexpr (Pixels > 1) fill_tiles<Blocks, Pixels - 1>(k);
}

}  // namespace aneforge::vec::ANEFORGE_V16_NS
