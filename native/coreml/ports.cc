#include "coreml/ports.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/fp16.h"

namespace aneforge::coreml {
namespace {

struct Half {
  uint16_t bits;
};

// Calls body with a value of the element type.
template <class Body>
void with_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(float{});
    case DType::kFloat64:
      return body(double{});
    case DType::kFloat16:
      return body(Half{});
    case DType::kBool:
      return body(bool{});
    case DType::kUInt8:
      return body(uint8_t{});
    case DType::kInt8:
      return body(int8_t{});
    case DType::kUInt16:
      return body(uint16_t{});
    case DType::kInt16:
      return body(int16_t{});
    case DType::kInt32:
      return body(int32_t{});
    case DType::kInt64:
      return body(int64_t{});
    case DType::kUInt32:
      return body(uint32_t{});
    case DType::kUInt64:
      return body(uint64_t{});
    default:
      return;
  }
}

template <class T>
uint16_t half_of(T v, Seen* seen) {
  if constexpr (std::is_same_v<T, Half>) {
    if ((v.bits & 0x7c00u) == 0x7c00u) seen->nonfinite = true;
    return v.bits;
  } else {
    const double d = static_cast<double>(v);
    const uint16_t h = double_to_half(d);
    if ((h & 0x7c00u) != 0x7c00u) return h;
    if (!std::isfinite(d)) {
      seen->nonfinite = true;
      return h;
    }
    seen->saturated = true;
    return static_cast<uint16_t>(d < 0 ? 0xfbffu : 0x7bffu);
  }
}

template <class T>
T number_of(float v) {
  if constexpr (std::is_same_v<T, Half>) {
    return Half{float_to_half(v)};
  } else if constexpr (std::is_same_v<T, bool>) {
    return v != 0;  // NaN is true
  } else if constexpr (std::is_integral_v<T>) {
    if (std::isnan(v)) return 0;
    const double low = static_cast<double>(std::numeric_limits<T>::min());
    const double high = std::ldexp(1.0, std::numeric_limits<T>::digits);  // one beyond the largest
    const double d = std::trunc(static_cast<double>(v));
    return d <= low ? std::numeric_limits<T>::min() : d >= high ? std::numeric_limits<T>::max() : static_cast<T>(d);
  } else {
    return static_cast<T>(v);
  }
}

}  // namespace

bool converts(DType caller) { return element_size(caller) != 0; }

Seen to_halves(DType from, const void* data, int64_t count, uint16_t* to) {
  Seen seen;
  with_type(from, [&](auto kind) {
    using T = decltype(kind);
    for (int64_t i = 0; i < count; ++i) {
      const char* at = static_cast<const char*>(data) + static_cast<size_t>(i) * sizeof(T);
      if constexpr (std::is_same_v<T, bool>) {
        to[i] = *at ? 0x3c00u : 0u;
      } else {
        T v;
        std::memcpy(&v, at, sizeof v);
        to[i] = half_of(v, &seen);
      }
    }
  });
  return seen;
}

Seen from_array(const void* from, bool wide, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                DType to, void* data) {
  Seen seen;
  const int64_t count = element_count(shape.data(), shape.size());
  std::vector<int64_t> index(shape.size(), 0);
  with_type(to, [&](auto kind) {
    using T = decltype(kind);
    int64_t at = 0;
    for (int64_t i = 0; i < count; ++i) {
      const float v =
          wide ? static_cast<const float*>(from)[at] : half_to_float(static_cast<const uint16_t*>(from)[at]);
      if (!std::isfinite(v)) seen.nonfinite = true;
      const T number = number_of<T>(v);
      std::memcpy(static_cast<char*>(data) + static_cast<size_t>(i) * sizeof(T), &number, sizeof number);
      for (size_t axis = shape.size(); axis-- > 0;) {
        at += strides[axis];
        if (++index[axis] < shape[axis]) break;
        at -= strides[axis] * shape[axis];
        index[axis] = 0;
      }
    }
  });
  return seen;
}

}  // namespace aneforge::coreml
