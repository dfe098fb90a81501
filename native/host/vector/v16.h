// The virtual vector: 16 floats on every machine. One AVX-512 register, two AVX2 registers, four NEON registers, or an
// array. All kernels are written against it, and every operation below is defined to the last bit (fused multiply-add
// with one rounding, max/min by comparison), so a kernel gives the same bits everywhere.
//
// Included once by each of avx512.cc, avx2.cc, neon.cc, portable.cc, which define ANEFORGE_V16_<ISA> and
// ANEFORGE_V16_NS and have switched the compiler's target before. (Standard headers must come before that switch: no
// inline library function may be built for an instruction set that the machine may lack.)
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/fp16.h"

#if defined(__SANITIZE_ADDRESS__)
// Instrumented code that is inlined and unrolled takes minutes to compile; calls and loops give the same results.
#define V16_INLINE inline
#define V16_LAMBDA
#define V16_UNROLL(n)
#else
#define V16_INLINE inline __attribute__((always_inline))
#define V16_LAMBDA __attribute__((always_inline))
#if defined(__clang__)
#define V16_UNROLL(n) _Pragma("clang loop unroll(full)")
#else
#define V16_UNROLL(n) V16_PRAGMA(GCC unroll n)
#define V16_PRAGMA(x) _Pragma(#x)
#endif
#endif

namespace aneforge::vec::ANEFORGE_V16_NS {

// Rules that hold for all four forms:
//   max(a, b) = a > b ? a : b   and   min(a, b) = a < b ? a : b: the second operand on NaN and on equal zeros.
//   to_half_and_back rounds to the nearest even half; beyond 65504 it gives infinity; subnormal halves stay.
//   Mask selects whole lanes; comparisons with NaN are false.

#if defined(ANEFORGE_V16_AVX512)

struct V {
  __m512 v;
};
struct Mask {
  __mmask16 m;
};
V16_INLINE V load(const float* p) { return {_mm512_loadu_ps(p)}; }
V16_INLINE void store(float* p, V a) { _mm512_storeu_ps(p, a.v); }
V16_INLINE V splat(float x) { return {_mm512_set1_ps(x)}; }
V16_INLINE V fma(V a, V b, V c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
V16_INLINE V add(V a, V b) { return {_mm512_add_ps(a.v, b.v)}; }
V16_INLINE V sub(V a, V b) { return {_mm512_sub_ps(a.v, b.v)}; }
V16_INLINE V mul(V a, V b) { return {_mm512_mul_ps(a.v, b.v)}; }
V16_INLINE V div(V a, V b) { return {_mm512_div_ps(a.v, b.v)}; }
V16_INLINE V max(V a, V b) { return {_mm512_max_ps(a.v, b.v)}; }
V16_INLINE V min(V a, V b) { return {_mm512_min_ps(a.v, b.v)}; }
V16_INLINE V sqrt(V a) { return {_mm512_sqrt_ps(a.v)}; }
V16_INLINE V to_half_and_back(V a) { return {_mm512_cvtph_ps(_mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT))}; }
V16_INLINE V load_half(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
V16_INLINE void store_half(uint16_t* p, V a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
V16_INLINE V nearest(V a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
V16_INLINE V floor(V a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
V16_INLINE V ceil(V a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
V16_INLINE Mask less(V a, V b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
V16_INLINE Mask equal(V a, V b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
V16_INLINE Mask is_nan(V a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
V16_INLINE V select(Mask m, V yes, V no) { return {_mm512_mask_blend_ps(m.m, no.v, yes.v)}; }
V16_INLINE bool any(Mask m) { return m.m != 0; }
V16_INLINE V bits_and(V a, V b) {
  return {_mm512_castsi512_ps(_mm512_and_epi32(_mm512_castps_si512(a.v), _mm512_castps_si512(b.v)))};
}
V16_INLINE V bits_or(V a, V b) {
  return {_mm512_castsi512_ps(_mm512_or_epi32(_mm512_castps_si512(a.v), _mm512_castps_si512(b.v)))};
}
V16_INLINE V bits_xor(V a, V b) {
  return {_mm512_castsi512_ps(_mm512_xor_epi32(_mm512_castps_si512(a.v), _mm512_castps_si512(b.v)))};
}
// 2^n for whole n in [-126, 127].
V16_INLINE V power_of_two(V n) {
  return {
      _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127)), 23))};
}
V16_INLINE V scale_by_power(V x, V n) { return {_mm512_scalef_ps(x.v, n.v)}; }
// x = m * 2^e with m in [sqrt(1/2), sqrt(2)), for positive normal x.
V16_INLINE V split_exponent(V x, V* e) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i k = _mm512_srai_epi32(_mm512_sub_epi32(bits, _mm512_set1_epi32(0x3f3504f3)), 23);
  e->v = _mm512_cvtepi32_ps(k);
  return {_mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(k, 23)))};
}

#elif defined(ANEFORGE_V16_AVX2)

struct V {
  __m256 a, b;
};
struct Mask {
  __m256 a, b;
};
V16_INLINE V load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
V16_INLINE void store(float* p, V x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
V16_INLINE V splat(float x) {
  const __m256 t = _mm256_set1_ps(x);
  return {t, t};
}
V16_INLINE V fma(V x, V y, V z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
#define V16_EACH2(name, f) \
  V16_INLINE V name(V x, V y) { return {f(x.a, y.a), f(x.b, y.b)}; }
V16_EACH2(add, _mm256_add_ps)
V16_EACH2(sub, _mm256_sub_ps)
V16_EACH2(mul, _mm256_mul_ps)
V16_EACH2(div, _mm256_div_ps)
V16_EACH2(max, _mm256_max_ps)
V16_EACH2(min, _mm256_min_ps)
V16_EACH2(bits_and, _mm256_and_ps)
V16_EACH2(bits_or, _mm256_or_ps)
V16_EACH2(bits_xor, _mm256_xor_ps)
#undef V16_EACH2
V16_INLINE V sqrt(V x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }
V16_INLINE __m128i eight_halves(__m256 x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
V16_INLINE V to_half_and_back(V x) { return {_mm256_cvtph_ps(eight_halves(x.a)), _mm256_cvtph_ps(eight_halves(x.b))}; }
V16_INLINE V load_half(const uint16_t* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
}
V16_INLINE void store_half(uint16_t* p, V x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), eight_halves(x.a));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), eight_halves(x.b));
}
V16_INLINE V nearest(V x) {
  return {_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
V16_INLINE V floor(V x) { return {_mm256_floor_ps(x.a), _mm256_floor_ps(x.b)}; }
V16_INLINE V ceil(V x) { return {_mm256_ceil_ps(x.a), _mm256_ceil_ps(x.b)}; }
V16_INLINE Mask less(V x, V y) { return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)}; }
V16_INLINE Mask equal(V x, V y) { return {_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ)}; }
V16_INLINE Mask is_nan(V x) { return {_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q)}; }
V16_INLINE V select(Mask m, V yes, V no) {
  return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}
V16_INLINE bool any(Mask m) { return _mm256_movemask_ps(_mm256_or_ps(m.a, m.b)) != 0; }
V16_INLINE __m256 eight_powers_of_two(__m256 n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
V16_INLINE V power_of_two(V n) { return {eight_powers_of_two(n.a), eight_powers_of_two(n.b)}; }
V16_INLINE __m256 split_eight(__m256 x, __m256* e) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i k = _mm256_srai_epi32(_mm256_sub_epi32(bits, _mm256_set1_epi32(0x3f3504f3)), 23);
  *e = _mm256_cvtepi32_ps(k);
  return _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(k, 23)));
}
V16_INLINE V split_exponent(V x, V* e) { return {split_eight(x.a, &e->a), split_eight(x.b, &e->b)}; }

#elif defined(ANEFORGE_V16_NEON)

struct V {
  float32x4_t q[4];
};
struct Mask {
  uint32x4_t q[4];
};
#define V16_QUARTERS for (int i = 0; i < 4; ++i)
V16_INLINE V load(const float* p) {
  V r;
  V16_QUARTERS r.q[i] = vld1q_f32(p + 4 * i);
  return r;
}
V16_INLINE void store(float* p, V x) { V16_QUARTERS vst1q_f32(p + 4 * i, x.q[i]); }
V16_INLINE V splat(float x) {
  V r;
  V16_QUARTERS r.q[i] = vdupq_n_f32(x);
  return r;
}
V16_INLINE V fma(V x, V y, V z) {
  V16_QUARTERS z.q[i] = vfmaq_f32(z.q[i], x.q[i], y.q[i]);
  return z;
}
#define V16_EACH2(name, f)                   \
  V16_INLINE V name(V x, V y) {              \
    V16_QUARTERS x.q[i] = f(x.q[i], y.q[i]); \
    return x;                                \
  }
V16_EACH2(add, vaddq_f32)
V16_EACH2(sub, vsubq_f32)
V16_EACH2(mul, vmulq_f32)
V16_EACH2(div, vdivq_f32)
#undef V16_EACH2
// FMAX and FMIN order zeros and propagate NaN; the comparison does neither, as on x86.
V16_INLINE V max(V x, V y) {
  V16_QUARTERS x.q[i] = vbslq_f32(vcgtq_f32(x.q[i], y.q[i]), x.q[i], y.q[i]);
  return x;
}
V16_INLINE V min(V x, V y) {
  V16_QUARTERS x.q[i] = vbslq_f32(vcltq_f32(x.q[i], y.q[i]), x.q[i], y.q[i]);
  return x;
}
#define V16_EACH1(name, f)           \
  V16_INLINE V name(V x) {           \
    V16_QUARTERS x.q[i] = f(x.q[i]); \
    return x;                        \
  }
V16_EACH1(sqrt, vsqrtq_f32)
V16_EACH1(nearest, vrndnq_f32)
V16_EACH1(floor, vrndmq_f32)
V16_EACH1(ceil, vrndpq_f32)
#undef V16_EACH1
// Conversion only: arithmetic on halves (FEAT_FP16) would round inside sums.
V16_INLINE V to_half_and_back(V x) {
  V16_QUARTERS x.q[i] = vcvt_f32_f16(vcvt_f16_f32(x.q[i]));
  return x;
}
V16_INLINE V load_half(const uint16_t* p) {
  V r;
  V16_QUARTERS r.q[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)));
  return r;
}
V16_INLINE void store_half(uint16_t* p, V x) {
  V16_QUARTERS vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(x.q[i])));
}
V16_INLINE Mask less(V x, V y) {
  Mask m;
  V16_QUARTERS m.q[i] = vcltq_f32(x.q[i], y.q[i]);
  return m;
}
V16_INLINE Mask equal(V x, V y) {
  Mask m;
  V16_QUARTERS m.q[i] = vceqq_f32(x.q[i], y.q[i]);
  return m;
}
V16_INLINE Mask is_nan(V x) {
  Mask m;
  V16_QUARTERS m.q[i] = vmvnq_u32(vceqq_f32(x.q[i], x.q[i]));
  return m;
}
V16_INLINE V select(Mask m, V yes, V no) {
  V16_QUARTERS no.q[i] = vbslq_f32(m.q[i], yes.q[i], no.q[i]);
  return no;
}
V16_INLINE bool any(Mask m) { return vmaxvq_u32(vorrq_u32(vorrq_u32(m.q[0], m.q[1]), vorrq_u32(m.q[2], m.q[3]))) != 0; }
#define V16_BITS(name, f)                                                                                         \
  V16_INLINE V name(V x, V y) {                                                                                   \
    V16_QUARTERS x.q[i] = vreinterpretq_f32_u32(f(vreinterpretq_u32_f32(x.q[i]), vreinterpretq_u32_f32(y.q[i]))); \
    return x;                                                                                                     \
  }
V16_BITS(bits_and, vandq_u32)
V16_BITS(bits_or, vorrq_u32)
V16_BITS(bits_xor, veorq_u32)
#undef V16_BITS
V16_INLINE V power_of_two(V n) {
  V16_QUARTERS n.q[i] = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n.q[i]), vdupq_n_s32(127)), 23));
  return n;
}
V16_INLINE V split_exponent(V x, V* e) {
  V16_QUARTERS {
    const int32x4_t bits = vreinterpretq_s32_f32(x.q[i]);
    const int32x4_t k = vshrq_n_s32(vsubq_s32(bits, vdupq_n_s32(0x3f3504f3)), 23);
    e->q[i] = vcvtq_f32_s32(k);
    x.q[i] = vreinterpretq_f32_s32(vsubq_s32(bits, vshlq_n_s32(k, 23)));
  }
  return x;
}
#undef V16_QUARTERS

#else  // plain C++: the definition of all the above

struct V {
  float f[16];
};
struct Mask {
  bool m[16];
};
#define V16_LANES for (int i = 0; i < 16; ++i)
V16_INLINE V load(const float* p) {
  V r;
  std::memcpy(r.f, p, 64);
  return r;
}
V16_INLINE void store(float* p, V x) { std::memcpy(p, x.f, 64); }
V16_INLINE V splat(float x) {
  V r;
  V16_LANES r.f[i] = x;
  return r;
}
V16_INLINE V fma(V x, V y, V z) {
  V16_LANES z.f[i] = std::fma(x.f[i], y.f[i], z.f[i]);
  return z;
}
#define V16_EACH2(name, expression)       \
  V16_INLINE V name(V x, V y) {           \
    V16_LANES {                           \
      const float a = x.f[i], b = y.f[i]; \
      x.f[i] = (expression);              \
    }                                     \
    return x;                             \
  }
V16_EACH2(add, a + b)
V16_EACH2(sub, a - b)
V16_EACH2(mul, a* b)
V16_EACH2(div, a / b)
V16_EACH2(max, a > b ? a : b)
V16_EACH2(min, a < b ? a : b)
#undef V16_EACH2
#define V16_EACH1(name, f_)        \
  V16_INLINE V name(V x) {         \
    V16_LANES x.f[i] = f_(x.f[i]); \
    return x;                      \
  }
V16_EACH1(sqrt, std::sqrt)
V16_EACH1(nearest, std::nearbyint)
V16_EACH1(floor, std::floor)
V16_EACH1(ceil, std::ceil)
V16_EACH1(to_half_and_back, round_to_half)
#undef V16_EACH1
V16_INLINE V load_half(const uint16_t* p) {
  V r;
  V16_LANES r.f[i] = half_to_float(p[i]);
  return r;
}
V16_INLINE void store_half(uint16_t* p, V x) { V16_LANES p[i] = float_to_half(x.f[i]); }
V16_INLINE Mask less(V x, V y) {
  Mask m;
  V16_LANES m.m[i] = x.f[i] < y.f[i];
  return m;
}
V16_INLINE Mask equal(V x, V y) {
  Mask m;
  V16_LANES m.m[i] = x.f[i] == y.f[i];
  return m;
}
V16_INLINE Mask is_nan(V x) {
  Mask m;
  V16_LANES m.m[i] = x.f[i] != x.f[i];
  return m;
}
V16_INLINE V select(Mask m, V yes, V no) {
  V16_LANES no.f[i] = m.m[i] ? yes.f[i] : no.f[i];
  return no;
}
V16_INLINE bool any(Mask m) {
  bool r = false;
  V16_LANES r = r || m.m[i];
  return r;
}
struct Bits {
  uint32_t u[16];
};
V16_INLINE Bits bits_of(V x) {
  Bits b;
  std::memcpy(b.u, x.f, 64);
  return b;
}
V16_INLINE V from_bits(Bits b) {
  V r;
  std::memcpy(r.f, b.u, 64);
  return r;
}
#define V16_BITS(name, op)               \
  V16_INLINE V name(V x, V y) {          \
    Bits a = bits_of(x), b = bits_of(y); \
    V16_LANES a.u[i] = a.u[i] op b.u[i]; \
    return from_bits(a);                 \
  }
V16_BITS(bits_and, &)
V16_BITS(bits_or, |)
V16_BITS(bits_xor, ^)
#undef V16_BITS
V16_INLINE V power_of_two(V n) {
  Bits b;
  V16_LANES {
    const bool in_range = n.f[i] >= -126.0f && n.f[i] <= 127.0f;  // a NaN must not reach the conversion to int
    b.u[i] = static_cast<uint32_t>((in_range ? static_cast<int32_t>(n.f[i]) : 0) + 127) << 23;
  }
  return from_bits(b);
}
V16_INLINE V split_exponent(V x, V* e) {
  Bits b = bits_of(x);
  V16_LANES {
    const uint32_t t = b.u[i] - 0x3f3504f3u;
    const int32_t k = static_cast<int32_t>(t >> 23) - ((t >> 31) ? 512 : 0);  // arithmetic shift
    e->f[i] = static_cast<float>(k);
    b.u[i] -= static_cast<uint32_t>(k) << 23;
  }
  return from_bits(b);
}
#undef V16_LANES

#endif

// ---- built from the above, the same everywhere

#if !defined(ANEFORGE_V16_AVX512)
// x * 2^n for whole n in [-252, 254] and |x| near 1, rounded once: in two factors, the first product is exact.
V16_INLINE V scale_by_power(V x, V n) {
  const V half_n = floor(mul(n, splat(0.5f)));
  return mul(mul(x, power_of_two(half_n)), power_of_two(sub(n, half_n)));
}
#endif

V16_INLINE V sign_bit() { return splat(-0.0f); }
V16_INLINE V negate(V x) { return bits_xor(x, sign_bit()); }
V16_INLINE V absolute(V x) {
  uint32_t mask = 0x7fffffffu;
  float m;
  std::memcpy(&m, &mask, 4);
  return bits_and(x, splat(m));
}
V16_INLINE V copy_sign(V magnitude, V sign) { return bits_or(absolute(magnitude), bits_and(sign, sign_bit())); }

// Fixed trees over the lanes: i with i+8, i+4, i+2, i+1.
V16_INLINE float sum_lanes(V x) {
  float t[16];
  store(t, x);
  for (int s = 8; s; s >>= 1)
    for (int i = 0; i < s; ++i) t[i] = t[i] + t[i + s];
  return t[0];
}
// NaN wins, as in a maximum over a row it must.
V16_INLINE float max_lanes(V x) {
  float t[16];
  store(t, x);
  float m = t[0];
  for (int i = 1; i < 16; ++i) m = (t[i] > m || t[i] != t[i]) ? t[i] : m;
  return m;
}
V16_INLINE float min_lanes(V x) {
  float t[16];
  store(t, x);
  float m = t[0];
  for (int i = 1; i < 16; ++i) m = (t[i] < m || t[i] != t[i]) ? t[i] : m;
  return m;
}
// acc > x keeps acc; a NaN on either side stays.
V16_INLINE V max_keeping_nan(V acc, V x) { return select(is_nan(x), x, max(x, acc)); }
V16_INLINE V min_keeping_nan(V acc, V x) { return select(is_nan(x), x, min(x, acc)); }

}  // namespace aneforge::vec::ANEFORGE_V16_NS
