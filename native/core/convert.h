// Small pieces of conversion at the ports of every backend: callers' memory of any alignment, one numeric type into
// another with saturation.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/tensor.h"

namespace aneforge {

struct PortSeen {
  bool saturated = false;  // a finite value did not fit
  bool nonfinite = false;  // an infinity or NaN came in, or goes out
};

// PortSeen, gathered by several threads.
class Flags {
 public:
  void add(bool saturated, bool nonfinite) {
    if (saturated) saturated_.store(true, std::memory_order_relaxed);
    if (nonfinite) nonfinite_.store(true, std::memory_order_relaxed);
  }
  PortSeen seen() const { return {saturated_.load(), nonfinite_.load()}; }

 private:
  std::atomic<bool> saturated_{false}, nonfinite_{false};
};

// Callers' memory may have any alignment.
template <class T>
T load(const void* p, int64_t i) {
  T v;
  std::memcpy(&v, static_cast<const char*>(p) + static_cast<size_t>(i) * sizeof(T), sizeof v);
  return v;
}
template <class T>
void store(void* p, int64_t i, T v) {
  std::memcpy(static_cast<char*>(p) + static_cast<size_t>(i) * sizeof(T), &v, sizeof v);
}

// One integer into the range [low, high], which both types hold or exceed.
template <class T>
int64_t clamped(T v, int64_t low, int64_t high, bool* saturated) {
  if constexpr (std::is_signed_v<T>) {
    if (static_cast<int64_t>(v) < low) {
      *saturated = true;
      return low;
    }
    if (static_cast<int64_t>(v) > high) {
      *saturated = true;
      return high;
    }
  } else if (static_cast<uint64_t>(v) > static_cast<uint64_t>(high)) {
    *saturated = true;
    return high;
  }
  return static_cast<int64_t>(v);
}

// f(type tag) for the integer types; false when `type` is none.
template <class F>
bool with_integer(DType type, F f) {
  switch (type) {
    case DType::kUInt8:
      f(uint8_t{});
      return true;
    case DType::kInt8:
      f(int8_t{});
      return true;
    case DType::kUInt16:
      f(uint16_t{});
      return true;
    case DType::kInt16:
      f(int16_t{});
      return true;
    case DType::kInt32:
      f(int32_t{});
      return true;
    case DType::kInt64:
      f(int64_t{});
      return true;
    case DType::kUInt32:
      f(uint32_t{});
      return true;
    case DType::kUInt64:
      f(uint64_t{});
      return true;
    default:
      return false;
  }
}

inline bool is_floating(DType t) { return t == DType::kFloat32 || t == DType::kFloat16 || t == DType::kFloat64; }

// Towards zero, saturating; NaN is 0.
template <class T>
T integer_of(double v) {
  if (v != v) return 0;
  const double low = static_cast<double>(std::numeric_limits<T>::min()),
               high = static_cast<double>(std::numeric_limits<T>::max());
  if (v <= low) return std::numeric_limits<T>::min();
  if (v >= high) return std::numeric_limits<T>::max();
  return static_cast<T>(v);
}

}  // namespace aneforge
