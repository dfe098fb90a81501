// Moves: 16×16 transposes, conversions, rounding in place, scans.
#pragma once
#include "host/vector/tile.inl"

namespace aneforge::vec::ANEFORGE_V16_NS {

#if defined(ANEFORGE_V16_AVX512) || defined(ANEFORGE_V16_AVX2)
V16_INLINE void transpose8(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(from + i * from_row);
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    r[4 * i + 0] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
    r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * to_row, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * to_row, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
inline void transpose16(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row) {
  transpose8(from, from_row, to, to_row);
  transpose8(from + 8, from_row, to + 8 * to_row, to_row);
  transpose8(from + 8 * from_row, from_row, to + 8, to_row);
  transpose8(from + 8 * from_row + 8, from_row, to + 8 * to_row + 8, to_row);
}
#elif defined(ANEFORGE_V16_NEON)
inline void transpose16(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row) {
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 16; j += 4) {
      const float* f = from + i * from_row + j;
      const float32x4x2_t a = vtrnq_f32(vld1q_f32(f), vld1q_f32(f + from_row));
      const float32x4x2_t b = vtrnq_f32(vld1q_f32(f + 2 * from_row), vld1q_f32(f + 3 * from_row));
      float* t = to + j * to_row + i;
      for (int k = 0; k < 2; ++k) {
        vst1q_f32(t + k * to_row, vcombine_f32(vget_low_f32(a.val[k]), vget_low_f32(b.val[k])));
        vst1q_f32(t + (k + 2) * to_row, vcombine_f32(vget_high_f32(a.val[k]), vget_high_f32(b.val[k])));
      }
    }
}
#else
inline void transpose16(const float* from, ptrdiff_t from_row, float* to, ptrdiff_t to_row) {
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) to[j * to_row + i] = from[i * from_row + j];
}
#endif

inline void halves_to_floats(const uint16_t* from, float* to, size_t n) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, load_half(from + i));
  for (; i < n; ++i) to[i] = aneforge::half_to_float(from[i]);
}

inline void floats_to_halves(const float* from, uint16_t* to, size_t n) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_half(to + i, load(from + i));
  for (; i < n; ++i) to[i] = aneforge::float_to_half(from[i]);
}

inline float settle_one(float x, Rounding rounding) {
  if (rounding == Rounding::kNone) return x;
  x = aneforge::round_to_half(x);
  return rounding == Rounding::kHalfNoNan && x != x ? 0.0f : x;
}

inline void round_floats(const float* from, float* to, size_t n, Rounding rounding) {
  if (rounding == Rounding::kNone) {
    if (from != to) std::memcpy(to, from, n * sizeof(float));
    return;
  }
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, settle(load(from + i), rounding));
  for (; i < n; ++i) to[i] = settle_one(from[i], rounding);
}

inline Scan scan_floats(const float* x, size_t n) {
  V low = splat(INFINITY), high = splat(-INFINITY), spoiled = splat(0.0f);
  const V zero = splat(0.0f);
  const auto look = [&](V v) V16_LAMBDA {
    const V check = mul(v, zero);  // 0, or NaN for what is not finite
    const Mask finite = equal(check, zero);
    spoiled = add(spoiled, check);
    low = min(select(finite, v, splat(INFINITY)), low);
    high = max(select(finite, v, splat(-INFINITY)), high);
  };
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) look(load(x + i));
  if (i < n) {
    float tail[kLanes];
    for (size_t j = 0; j < kLanes; ++j) tail[j] = x[i + j < n ? i + j : n - 1];
    look(load(tail));
  }
  return {min_lanes(low), max_lanes(high), !any(is_nan(spoiled))};
}

}  // namespace aneforge::vec::ANEFORGE_V16_NS
