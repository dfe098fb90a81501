// Half precision without hardware: IEEE binary16 <-> binary32 and binary64, round to nearest even, exact for every
// value (subnormals, infinities, NaN payloads as x86 F16C gives them). Branch-light, so that loops over them vectorize.
#pragma once
#include <cstdint>
#include <cstring>

namespace aneforge {

inline uint32_t float_bits(float f) {
  uint32_t u;
  std::memcpy(&u, &f, sizeof u);
  return u;
}
inline float bits_float(uint32_t u) {
  float f;
  std::memcpy(&f, &u, sizeof f);
  return f;
}

inline float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t rest = h & 0x7fffu;
  // Normal: rebias the exponent. Subnormal or zero: rest units of 2^-24, exact in binary32.
  const uint32_t normal = (rest << 13) + 0x38000000u;
  const uint32_t small = float_bits(static_cast<float>(static_cast<int32_t>(rest)) * 0x1p-24f);
  const uint32_t special = 0x7f800000u | (rest << 13) | (rest > 0x7c00u ? 0x00400000u : 0u);
  const uint32_t magnitude = rest >= 0x7c00u ? special : rest >= 0x0400u ? normal : small;
  return bits_float(sign | magnitude);
}

inline uint16_t float_to_half(float f) {
  const uint32_t bits = float_bits(f);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t rest = bits & 0x7fffffffu;
  // Subnormal result: 0.5 has ulp 2^-24, so the adder itself rounds to the grid of half's subnormals. The guard keeps
  // other magnitudes out of the addition.
  const uint32_t low = rest < 0x38800000u ? rest : 0u;
  const uint32_t small = float_bits(bits_float(low) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (rest + 0xc8000fffu + ((rest >> 13) & 1u)) >> 13;
  const uint32_t nan = 0x7e00u | ((rest >> 13) & 0x3ffu);
  const uint32_t finite = rest < 0x38800000u ? small : normal;
  const uint32_t ranged = rest >= 0x477ff000u ? 0x7c00u : finite;  // from 65520 up: infinity
  return static_cast<uint16_t>(sign | (rest > 0x7f800000u ? nan : ranged));
}

// The nearest half, as a float. Same values as half_to_float(float_to_half(f)).
inline float round_to_half(float f) {
  const uint32_t bits = float_bits(f);
  const uint32_t sign = bits & 0x80000000u;
  const uint32_t rest = bits & 0x7fffffffu;
  const uint32_t low = rest < 0x38800000u ? rest : 0u;
  const uint32_t small = float_bits((bits_float(low) + 0.5f) - 0.5f);
  const uint32_t normal = (rest + 0xfffu + ((rest >> 13) & 1u)) & 0xffffe000u;
  const uint32_t finite = rest < 0x38800000u ? small : normal;
  const uint32_t ranged = rest >= 0x477ff000u ? 0x7f800000u : finite;
  const uint32_t nan = (rest & 0xffffe000u) | 0x00400000u;
  return bits_float(sign | (rest > 0x7f800000u ? nan : ranged));
}

// binary64 -> binary32 rounded to odd: a second rounding to fewer bits then gives what one rounding would have given.
inline float double_to_odd_float(double d) {
  float f = static_cast<float>(d);
  const double back = static_cast<double>(f);
  if (back == d || d != d) return f;
  uint32_t u = float_bits(f);
  const bool away = (d < 0 ? -back : back) > (d < 0 ? -d : d);
  if (away) --u;  // toward zero first (from infinity this is the largest finite value)
  u |= 1u;        // inexact: odd
  return bits_float(u);
}

inline uint16_t double_to_half(double d) { return float_to_half(double_to_odd_float(d)); }

}  // namespace aneforge
