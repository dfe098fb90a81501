#include "runtime/port_blocks.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/convert.h"
#include "core/fp16.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#define FAST
#elif defined(__x86_64__)
#include <immintrin.h>
// Loops in functions so marked are vectorized for these; they are called where the machine has them.
#define FAST __attribute__((target("avx2,f16c")))
#endif

namespace aneforge::runtime {

#if defined(FAST)
namespace {

constexpr size_t kWide = 512;                   // floats on the way between two types, in the first cache
constexpr uint32_t kLargestBits = 0x477fe000u;  // 65504

bool usable() {
#if defined(__x86_64__)
  static const bool found = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");  // all such have F16C
  return found;
#else
  return true;
#endif
}

// Bit 15: an infinity or NaN.
FAST inline uint16_t special_bit(uint16_t half) { return static_cast<uint16_t>((half & 0x7c00u) + 0x0400u); }

// Floats to halves; returns the largest magnitude among them, as bits. One look at each: callers are often in memory.
FAST uint32_t narrow(const void* floats, size_t n, uint16_t* to) {
  const auto* from = static_cast<const uint8_t*>(floats);
  uint32_t largest = 0;
  size_t i = 0;
#if defined(__x86_64__)
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i first = _mm256_setzero_si256(), second = first;
  for (; i + 16 <= n; i += 16) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i * 4));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i * 4 + 32));
    first = _mm256_max_epu32(first, _mm256_and_si256(a, magnitude));
    second = _mm256_max_epu32(second, _mm256_and_si256(b, magnitude));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_castsi256_ps(a), _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i + 8),
                     _mm256_cvtps_ph(_mm256_castsi256_ps(b), _MM_FROUND_TO_NEAREST_INT));
  }
  alignas(32) uint32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_max_epu32(first, second));
  for (uint32_t lane : lanes) largest = std::max(largest, lane);
#else
  const uint32x4_t magnitude = vdupq_n_u32(0x7fffffffu);
  uint32x4_t first = vdupq_n_u32(0), second = first;
  for (; i + 8 <= n; i += 8) {
    const uint32x4_t a = vreinterpretq_u32_u8(vld1q_u8(from + i * 4));
    const uint32x4_t b = vreinterpretq_u32_u8(vld1q_u8(from + i * 4 + 16));
    first = vmaxq_u32(first, vandq_u32(a, magnitude));
    second = vmaxq_u32(second, vandq_u32(b, magnitude));
    vst1q_u16(to + i, vcombine_u16(vreinterpret_u16_f16(vcvt_f16_f32(vreinterpretq_f32_u32(a))),
                                   vreinterpret_u16_f16(vcvt_f16_f32(vreinterpretq_f32_u32(b)))));
  }
  largest = vmaxvq_u32(vmaxq_u32(first, second));
#endif
  for (; i < n; ++i) {
    const auto bits = load<uint32_t>(floats, static_cast<int64_t>(i));
    largest = std::max(largest, bits & 0x7fffffffu);
    to[i] = float_to_half(bits_float(bits));
  }
  return largest;
}

// Halves to floats; true when an infinity or NaN is among them.
FAST bool widen(const uint16_t* from, size_t n, void* floats) {
  auto* to = static_cast<uint8_t*>(floats);
  uint16_t special = 0;
  size_t i = 0;
#if defined(__x86_64__)
  const __m128i exponent = _mm_set1_epi16(0x7c00), one = _mm_set1_epi16(0x0400);
  __m128i seen = _mm_setzero_si128();
  for (; i + 16 <= n; i += 16) {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + 8));
    seen = _mm_or_si128(seen, _mm_add_epi16(_mm_and_si128(a, exponent), one));
    seen = _mm_or_si128(seen, _mm_add_epi16(_mm_and_si128(b, exponent), one));
    _mm256_storeu_ps(reinterpret_cast<float*>(to + i * 4), _mm256_cvtph_ps(a));
    _mm256_storeu_ps(reinterpret_cast<float*>(to + i * 4 + 32), _mm256_cvtph_ps(b));
  }
  if (_mm_movemask_epi8(seen) & 0xaaaa) special = 0x8000;
#else
  const uint16x8_t exponent = vdupq_n_u16(0x7c00), one = vdupq_n_u16(0x0400);
  uint16x8_t seen = vdupq_n_u16(0);
  for (; i + 8 <= n; i += 8) {
    const uint16x8_t a = vld1q_u16(from + i);
    seen = vmaxq_u16(seen, vaddq_u16(vandq_u16(a, exponent), one));
    vst1q_u8(to + i * 4, vreinterpretq_u8_f32(vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(a)))));
    vst1q_u8(to + i * 4 + 16, vreinterpretq_u8_f32(vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(a)))));
  }
  special = vmaxvq_u16(seen);
#endif
  for (; i < n; ++i) {
    special = static_cast<uint16_t>(special | special_bit(from[i]));
    store(floats, static_cast<int64_t>(i), half_to_float(from[i]));
  }
  return (special & 0x8000u) != 0;
}

// Halves as they are; true when an infinity or NaN is among them.
FAST bool copy(const void* from, size_t n, void* to) {
  uint16_t special = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto half = load<uint16_t>(from, static_cast<int64_t>(i));
    special = static_cast<uint16_t>(special | special_bit(half));
    store(to, static_cast<int64_t>(i), half);
  }
  return (special & 0x8000u) != 0;
}

template <class T>
FAST bool integers_in(const void* data, size_t n, uint16_t* to) {
  alignas(32) float wide[kWide];
  uint32_t largest = 0;
  uint64_t beyond = 0;  // something of ±65536 or more, where 32 bits with a sign would not show it
  for (size_t at = 0; at < n; at += kWide) {
    const size_t m = std::min(kWide, n - at);
    const void* from = static_cast<const char*>(data) + at * sizeof(T);
    if constexpr (sizeof(T) == 8) {
      constexpr uint64_t shift = std::is_signed_v<T> ? 65536 : 0;
      for (size_t i = 0; i < m; ++i) {
        const auto v = load<uint64_t>(from, static_cast<int64_t>(i));
        beyond |= (v + shift) & ~uint64_t{0x1ffff};
        wide[i] = static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(v)));
      }
    } else {
      uint32_t high = 0;
      for (size_t i = 0; i < m; ++i) {
        const T v = load<T>(from, static_cast<int64_t>(i));
        if constexpr (std::is_same_v<T, uint32_t>) high |= v & ~0x1ffffu;
        wide[i] = static_cast<float>(static_cast<int32_t>(v));
      }
      beyond |= high;
    }
    largest = std::max(largest, narrow(wide, m, to + at));
  }
  return beyond == 0 && largest <= kLargestBits;
}

template <class T>
FAST bool integers_out(const uint16_t* from, size_t n, void* data) {
  alignas(32) float wide[kWide];
  constexpr int32_t low =
      std::is_signed_v<T>
          ? static_cast<int32_t>(std::max<int64_t>(std::numeric_limits<T>::min(), std::numeric_limits<int32_t>::min()))
          : 0;
  constexpr int32_t high = sizeof(T) < 4 ? static_cast<int32_t>(std::numeric_limits<T>::max() & 0xffff)
                                         : std::numeric_limits<int32_t>::max();
  for (size_t at = 0; at < n; at += kWide) {
    const size_t m = std::min(kWide, n - at);
    if (widen(from + at, m, wide)) return false;
    void* to = static_cast<char*>(data) + at * sizeof(T);
    for (size_t i = 0; i < m; ++i) {
      const int32_t v = std::min(std::max(static_cast<int32_t>(wide[i]), low), high);
      store(to, static_cast<int64_t>(i), static_cast<T>(v));
    }
  }
  return true;
}

FAST void bools_in(const void* data, size_t n, uint16_t* to) {
  for (size_t i = 0; i < n; ++i) to[i] = load<uint8_t>(data, static_cast<int64_t>(i)) != 0 ? 0x3c00 : 0;
}

// True: an infinity or NaN.
FAST bool bools_out(const uint16_t* from, size_t n, void* data) {
  uint16_t special = 0;
  for (size_t i = 0; i < n; ++i) {
    special = static_cast<uint16_t>(special | special_bit(from[i]));
    store(data, static_cast<int64_t>(i), static_cast<uint8_t>((from[i] & 0x7fffu) != 0));
  }
  return (special & 0x8000u) != 0;
}

}  // namespace

bool into_block(DType from, const void* data, size_t n, uint16_t* to) {
  if (!usable()) return false;
  if (from == DType::kFloat32) return narrow(data, n, to) <= kLargestBits;
  if (from == DType::kFloat16) return !copy(data, n, to);
  if (from == DType::kBool) {
    bools_in(data, n, to);
    return true;
  }
  bool ordinary = false;
  with_integer(from, [&](auto tag) { ordinary = integers_in<decltype(tag)>(data, n, to); });
  return ordinary;
}

bool out_of_block(const uint16_t* from, size_t n, DType to, void* data, bool* nonfinite) {
  *nonfinite = false;
  if (!usable()) return false;
  if (to == DType::kFloat32) {
    *nonfinite = widen(from, n, data);
    return true;
  }
  if (to == DType::kFloat16 || to == DType::kBool) {
    *nonfinite = to == DType::kBool ? bools_out(from, n, data) : copy(from, n, data);
    return true;
  }
  bool ordinary = false;
  with_integer(to, [&](auto tag) { ordinary = integers_out<decltype(tag)>(from, n, data); });
  return ordinary;
}

#else

bool into_block(DType, const void*, size_t, uint16_t*) { return false; }
bool out_of_block(const uint16_t*, size_t, DType, void*, bool* nonfinite) { return *nonfinite = false; }

#endif

}  // namespace aneforge::runtime
