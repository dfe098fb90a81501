#include "core/halves.h"

#include <cstring>

#include "core/convert.h"
#include "core/fp16.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

namespace aneforge {
namespace {

void to_tail(const void* floats, uint16_t* to, size_t begin, size_t n) {
  for (size_t i = begin; i < n; ++i) to[i] = float_to_half(load<float>(floats, static_cast<int64_t>(i)));
}
void from_tail(const uint16_t* from, void* floats, size_t begin, size_t n) {
  for (size_t i = begin; i < n; ++i) store(floats, static_cast<int64_t>(i), half_to_float(from[i]));
}

#if defined(__x86_64__)
bool has_f16c() {
  static const bool found = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");  // all such have F16C
  return found;
}
__attribute__((target("avx,f16c"))) size_t to_fast(const void* floats, uint16_t* to, size_t n) {
  const auto* from = static_cast<const char*>(floats);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 v = _mm256_loadu_ps(reinterpret_cast<const float*>(from + i * 4));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}
__attribute__((target("avx,f16c"))) size_t from_fast(const uint16_t* from, void* floats, size_t n) {
  auto* to = static_cast<char*>(floats);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(reinterpret_cast<float*>(to + i * 4), _mm256_cvtph_ps(v));
  }
  return i;
}
#endif

}  // namespace

void to_halves(const void* floats, uint16_t* to, size_t n) {
  size_t i = 0;
#if defined(__aarch64__)
  const auto* from = static_cast<const uint8_t*>(floats);
  for (; i + 4 <= n; i += 4) {
    const float32x4_t v = vreinterpretq_f32_u8(vld1q_u8(from + i * 4));
    const uint16x4_t h = vreinterpret_u16_f16(vcvt_f16_f32(v));
    std::memcpy(to + i, &h, sizeof h);
  }
#elif defined(__x86_64__)
  if (has_f16c()) i = to_fast(floats, to, n);
#endif
  to_tail(floats, to, i, n);
}

void from_halves(const uint16_t* from, void* floats, size_t n) {
  size_t i = 0;
#if defined(__aarch64__)
  auto* to = static_cast<uint8_t*>(floats);
  for (; i + 4 <= n; i += 4) {
    uint16x4_t h;
    std::memcpy(&h, from + i, sizeof h);
    vst1q_u8(to + i * 4, vreinterpretq_u8_f32(vcvt_f32_f16(vreinterpret_f16_u16(h))));
  }
#elif defined(__x86_64__)
  if (has_f16c()) i = from_fast(from, floats, n);
#endif
  from_tail(from, floats, i, n);
}

}  // namespace aneforge
