#include "host/ports.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/convert.h"
#include "core/fp16.h"
#include "host/iterate.h"
#include "host/vector/kernels.h"

namespace aneforge::host {
namespace {

constexpr uint32_t kInfinity = 0x7f800000u;
constexpr int64_t kPortGrain = 4 * kGrain;

struct Narrow {
  bool half = false;             // the port stores halves
  bool nan_is_infinity = false;  // Q11
};

// The ordinary case, fast: floats that are finite and in range. Returns how far it came; the rest is for the loops that
// see everything.
int64_t narrow_ordinary(const void* data, int64_t begin, int64_t end, float* to, const Narrow& how) {
  if (reinterpret_cast<uintptr_t>(data) % alignof(float)) return begin;
  const auto* from = static_cast<const float*>(data);
  const vec::Kernels& k = vec::kernels();
  for (; begin < end; begin += kBlock) {  // blocks stay in cache between the look and the conversion
    const auto n = static_cast<size_t>(std::min(kBlock, end - begin));
    const vec::Scan seen = k.scan(from + begin, n);
    if (!seen.finite || (how.half && (seen.low < -65504.0f || seen.high > 65504.0f))) return begin;
    k.round(from + begin, to + begin, n, how.half ? vec::Rounding::kHalf : vec::Rounding::kNone);
  }
  return end;
}

// float -> the port's float.
void narrow(const void* data, int64_t begin, int64_t end, float* to, const Narrow& how, Flags& flags) {
  begin = narrow_ordinary(data, begin, end, to, how);
  uint32_t large = 0, special = 0;
  if (how.half) {
    for (int64_t i = begin; i < end; ++i) {
      const uint32_t bits = load<uint32_t>(data, i), rest = bits & 0x7fffffffu;
      const uint32_t is_special = rest >= kInfinity ? 1u : 0u;
      const uint32_t is_large = rest > 0x477fe000u ? 1u & ~is_special : 0u;  // beyond 65504
      special |= is_special;
      large |= is_large;
      const uint32_t clamped = is_large ? (bits & 0x80000000u) | 0x477fe000u : bits;
      to[i] = round_to_half(bits_float(clamped));
    }
  } else {
    for (int64_t i = begin; i < end; ++i) {
      const uint32_t bits = load<uint32_t>(data, i);
      special |= (bits & 0x7fffffffu) >= kInfinity ? 1u : 0u;
      to[i] = bits_float(bits);
    }
  }
  if (special && how.nan_is_infinity)
    for (int64_t i = begin; i < end; ++i)
      if (to[i] != to[i]) to[i] = std::numeric_limits<float>::infinity();
  flags.add(large != 0, special != 0);
}

void narrow_double(const void* data, int64_t begin, int64_t end, float* to, const Narrow& how, Flags& flags) {
  const double limit = how.half ? 65504.0 : static_cast<double>(std::numeric_limits<float>::max());
  bool large = false, special = false;
  for (int64_t i = begin; i < end; ++i) {
    double v = load<double>(data, i);
    const bool is_special = !(std::fabs(v) <= std::numeric_limits<double>::max());
    special |= is_special;
    if (!is_special && std::fabs(v) > limit) {
      large = true;
      v = std::copysign(limit, v);
    }
    if (v != v && how.nan_is_infinity) v = std::numeric_limits<double>::infinity();
    to[i] = how.half ? half_to_float(double_to_half(v)) : static_cast<float>(v);
  }
  flags.add(large, special);
}

void widen_half(const void* data, int64_t begin, int64_t end, float* to, const Narrow& how, Flags& flags) {
  uint32_t special = 0;
  for (int64_t i = begin; i < end; ++i) {
    const auto h = load<uint16_t>(data, i);
    special |= (h & 0x7c00u) == 0x7c00u ? 1u : 0u;
    to[i] = half_to_float(h);
  }
  if (special && how.nan_is_infinity)
    for (int64_t i = begin; i < end; ++i)
      if (to[i] != to[i]) to[i] = std::numeric_limits<float>::infinity();
  flags.add(false, special != 0);
}

template <class T>
void float_of_int(const void* data, int64_t begin, int64_t end, float* to, const Narrow& how, Flags& flags) {
  bool large = false;
  for (int64_t i = begin; i < end; ++i) {
    double v = static_cast<double>(
        load<T>(data, i));  // 64-bit integers round once more below; beyond 2^53 both saturate or are huge
    if (how.half && std::fabs(v) > 65504.0) {
      large = true;
      v = std::copysign(65504.0, v);
    }
    to[i] = how.half ? half_to_float(double_to_half(v)) : static_cast<float>(v);
  }
  flags.add(large, false);
}

PortSeen write_floats(const float* from, int64_t count, DType to, void* data, Parallel& parallel) {
  Flags flags;
  chunks(parallel, count, kPortGrain, [&](int64_t begin, int64_t end) {
    uint32_t special = 0;
    switch (to) {
      case DType::kFloat32:
        special = vec::kernels().scan(from + begin, static_cast<size_t>(end - begin)).finite ? 0u : 1u;
        std::memcpy(static_cast<char*>(data) + begin * 4, from + begin, static_cast<size_t>(end - begin) * 4);
        return flags.add(false, special != 0);
      case DType::kFloat16:
        for (int64_t i = begin; i < end; ++i) {
          const uint16_t h = float_to_half(from[i]);
          special |= (h & 0x7c00u) == 0x7c00u ? 1u : 0u;
          store(data, i, h);
        }
        return flags.add(false, special != 0);
      default:
        break;
    }
    for (int64_t i = begin; i < end; ++i) special |= (float_bits(from[i]) & 0x7fffffffu) >= kInfinity ? 1u : 0u;
    flags.add(false, special != 0);
    if (to == DType::kFloat64) {
      for (int64_t i = begin; i < end; ++i) store(data, i, static_cast<double>(from[i]));
    } else if (to == DType::kBool) {
      for (int64_t i = begin; i < end; ++i) store(data, i, static_cast<uint8_t>(from[i] != 0));
    } else {
      with_integer(to, [&](auto tag) {
        for (int64_t i = begin; i < end; ++i) store(data, i, integer_of<decltype(tag)>(from[i]));
      });
    }
  });
  return flags.seen();
}

}  // namespace

bool converts(DType caller, const Value& port) {
  if (element_size(caller) == 0) return false;
  return port.storage == Storage::kFloat || !is_floating(caller) || port.storage == Storage::kBool;
}

PortSeen read_port(DType from, const void* data, const Value& port, bool nan_is_infinity, void* to,
                   Parallel& parallel) {
  Flags flags;
  const Narrow how{port.half, nan_is_infinity};
  const IntegerRange range = range_of(port.declared);
  chunks(parallel, port.count, kPortGrain, [&](int64_t begin, int64_t end) {
    if (port.storage == Storage::kFloat) {
      auto* p = static_cast<float*>(to);
      if (from == DType::kFloat32) return narrow(data, begin, end, p, how, flags);
      if (from == DType::kFloat16) return widen_half(data, begin, end, p, how, flags);
      if (from == DType::kFloat64) return narrow_double(data, begin, end, p, how, flags);
      if (from == DType::kBool) {
        for (int64_t i = begin; i < end; ++i) p[i] = load<uint8_t>(data, i) != 0 ? 1.0f : 0.0f;
        return;
      }
      with_integer(from, [&](auto tag) { float_of_int<decltype(tag)>(data, begin, end, p, how, flags); });
    } else if (port.storage == Storage::kInt) {
      auto* p = static_cast<int32_t*>(to);
      if (from == DType::kBool) {
        for (int64_t i = begin; i < end; ++i) p[i] = load<uint8_t>(data, i) != 0;
        return;
      }
      bool saturated = false;
      with_integer(from, [&](auto tag) {
        for (int64_t i = begin; i < end; ++i)
          p[i] = static_cast<int32_t>(clamped(load<decltype(tag)>(data, i), range.low, range.high, &saturated));
      });
      flags.add(saturated, false);
    } else {
      auto* p = static_cast<uint8_t*>(to);
      if (from == DType::kFloat32) {
        for (int64_t i = begin; i < end; ++i) p[i] = load<float>(data, i) != 0;
      } else if (from == DType::kFloat64) {
        for (int64_t i = begin; i < end; ++i) p[i] = load<double>(data, i) != 0;
      } else if (from == DType::kFloat16) {
        for (int64_t i = begin; i < end; ++i) p[i] = (load<uint16_t>(data, i) & 0x7fffu) != 0;
      } else if (from == DType::kBool) {
        for (int64_t i = begin; i < end; ++i) p[i] = load<uint8_t>(data, i) != 0;
      } else {
        with_integer(from, [&](auto tag) {
          for (int64_t i = begin; i < end; ++i) p[i] = load<decltype(tag)>(data, i) != 0;
        });
      }
    }
  });
  return flags.seen();
}

PortSeen write_port(const Value& port, const void* from, DType to, void* data, Parallel& parallel) {
  if (port.storage == Storage::kFloat)
    return write_floats(static_cast<const float*>(from), port.count, to, data, parallel);
  const bool is_bool = port.storage == Storage::kBool;
  chunks(parallel, port.count, kPortGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t v = is_bool ? static_cast<const uint8_t*>(from)[i] : static_cast<const int32_t*>(from)[i];
      switch (to) {
        case DType::kBool:
          store(data, i, static_cast<uint8_t>(v != 0));
          break;
        case DType::kFloat32:
          store(data, i, static_cast<float>(v));
          break;
        case DType::kFloat64:
          store(data, i, static_cast<double>(v));
          break;
        case DType::kFloat16:
          store(data, i, double_to_half(v));
          break;
        default:
          with_integer(to, [&](auto tag) { store(data, i, integer_of<decltype(tag)>(v)); });
      }
    }
  });
  return {};
}

}  // namespace aneforge::host
