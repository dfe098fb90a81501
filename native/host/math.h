// The scalar functions of the plain kernels, in one place. They are the C library's: results may differ in the last bit
// between C libraries, which fp16 rounding nearly always hides. Faster array forms replace whole kernels, not these.
#pragma once
#include <cmath>
#include <cstdint>

namespace aneforge::host::math {

inline float exp(float x) { return std::exp(x); }
inline float exp2(float x) { return std::exp2(x); }
inline float expm1(float x) { return std::expm1(x); }
inline float log(float x) { return std::log(x); }
inline float log1p(float x) { return std::log1p(x); }
inline float erf(float x) { return std::erf(x); }
inline float sin(float x) { return std::sin(x); }
inline float cos(float x) { return std::cos(x); }
inline float tan(float x) { return std::tan(x); }
inline float atan(float x) { return std::atan(x); }
inline float tanh(float x) { return std::tanh(x); }
inline float pow(float x, float y) { return std::pow(x, y); }

// NaN passes through both operands of both; equal zeros give the second.
inline float max(float a, float b) { return (a > b || a != a) ? a : b; }
inline float min(float a, float b) { return (a < b || a != a) ? a : b; }

inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }
inline float softplus(float x) { return (x > 0 ? x : 0.0f) + log1p(exp(-std::fabs(x))); }

// Floored: the sign of the divisor, as Python's %.
inline float floor_mod(float x, float y) {
  const float r = std::fmod(x, y);
  if (r == 0) return std::copysign(0.0f, y);
  return (r < 0) != (y < 0) ? r + y : r;
}

// Σ f(i) in the order every sum over one contiguous run has here: 16 partial sums, one for each lane, then a tree.
template <class F>
float lane_sum(int64_t n, F&& f) {
  float lane[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int64_t l = 0; l < 16; ++l) lane[l] += f(i + l);
  for (int64_t l = 0; i < n; ++i, ++l) lane[l] += f(i);
  for (int64_t step = 8; step > 0; step /= 2)
    for (int64_t l = 0; l < step; ++l) lane[l] += lane[l + step];
  return lane[0];
}

}  // namespace aneforge::host::math
