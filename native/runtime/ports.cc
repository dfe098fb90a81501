#include "runtime/ports.h"

#include <algorithm>
#include <cmath>

#include "core/fp16.h"
#include "core/halves.h"

namespace aneforge::runtime {
namespace {

constexpr int64_t kGrain = 65536;  // elements that are worth a task
constexpr int64_t kBlock = 4096;   // between the look and the conversion, so that both find it in cache
constexpr float kLargest = 65504.0f;

bool special(uint16_t half) { return (half & 0x7c00u) == 0x7c00u; }

void narrow_block(const void* data, int64_t begin, int64_t end, uint16_t* to, Flags& flags) {
  uint32_t largest = 0;
  for (int64_t i = begin; i < end; ++i) largest = std::max(largest, load<uint32_t>(data, i) & 0x7fffffffu);
  if (largest <= 0x477fe000u) {  // finite and within ±65504: the ordinary case
    to_halves(static_cast<const char*>(data) + begin * 4, to + begin, static_cast<size_t>(end - begin));
    return;
  }
  bool large = false, beyond = false;
  for (int64_t i = begin; i < end; ++i) {
    float v = load<float>(data, i);
    const bool finite = std::isfinite(v);
    beyond |= !finite;
    if (finite && std::fabs(v) > kLargest) {
      large = true;
      v = std::copysign(kLargest, v);
    }
    to[i] = float_to_half(v);
  }
  flags.add(large, beyond);
}

uint16_t narrow_double(double v, bool* large, bool* beyond) {
  if (!std::isfinite(v)) {
    *beyond = true;
  } else if (std::fabs(v) > static_cast<double>(kLargest)) {
    *large = true;
    v = std::copysign(static_cast<double>(kLargest), v);
  }
  return double_to_half(v);
}

void to_half_port(DType from, const void* data, int64_t begin, int64_t end, uint16_t* to, Flags& flags) {
  bool large = false, beyond = false;
  if (from == DType::kFloat32) {
    for (int64_t i = begin; i < end; i += kBlock) narrow_block(data, i, std::min(i + kBlock, end), to, flags);
  } else if (from == DType::kFloat16) {
    for (int64_t i = begin; i < end; ++i) {
      to[i] = load<uint16_t>(data, i);
      beyond |= special(to[i]);
    }
  } else if (from == DType::kFloat64) {
    for (int64_t i = begin; i < end; ++i) to[i] = narrow_double(load<double>(data, i), &large, &beyond);
  } else if (from == DType::kBool) {
    for (int64_t i = begin; i < end; ++i) to[i] = load<uint8_t>(data, i) != 0 ? 0x3c00 : 0;
  } else {
    with_integer(from, [&](auto tag) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = narrow_double(static_cast<double>(load<decltype(tag)>(data, i)), &large, &beyond);
    });
  }
  flags.add(large, beyond);
}

void to_byte_port(DType from, const void* data, int64_t begin, int64_t end, uint8_t* to, Flags& flags) {
  bool large = false;
  if (from == DType::kBool) {
    for (int64_t i = begin; i < end; ++i) to[i] = load<uint8_t>(data, i) != 0;
  } else {
    with_integer(from, [&](auto tag) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = static_cast<uint8_t>(clamped(load<decltype(tag)>(data, i), 0, 255, &large));
    });
  }
  flags.add(large, false);
}

void from_half_port(const uint16_t* from, int64_t begin, int64_t end, DType to, void* data, Flags& flags) {
  uint32_t beyond = 0;
  for (int64_t i = begin; i < end; ++i) beyond |= special(from[i]) ? 1u : 0u;
  flags.add(false, beyond != 0);
  if (to == DType::kFloat32) {
    from_halves(from + begin, static_cast<char*>(data) + begin * 4, static_cast<size_t>(end - begin));
  } else if (to == DType::kFloat16) {
    std::memcpy(static_cast<char*>(data) + begin * 2, from + begin, static_cast<size_t>(end - begin) * 2);
  } else if (to == DType::kFloat64) {
    for (int64_t i = begin; i < end; ++i) store(data, i, static_cast<double>(half_to_float(from[i])));
  } else if (to == DType::kBool) {
    for (int64_t i = begin; i < end; ++i) store(data, i, static_cast<uint8_t>((from[i] & 0x7fffu) != 0));
  } else {
    with_integer(to, [&](auto tag) {
      for (int64_t i = begin; i < end; ++i)
        store(data, i, integer_of<decltype(tag)>(static_cast<double>(half_to_float(from[i]))));
    });
  }
}

}  // namespace

bool converts(DType caller, DType port) {
  return element_size(caller) != 0 && (port == DType::kFloat16 || !is_floating(caller));
}

PortSeen to_port(DType from, const void* data, int64_t count, DType port, void* to, Parallel& parallel) {
  Flags flags;
  chunks(parallel, count, kGrain, [&](int64_t begin, int64_t end) {
    if (port == DType::kFloat16)
      to_half_port(from, data, begin, end, static_cast<uint16_t*>(to), flags);
    else
      to_byte_port(from, data, begin, end, static_cast<uint8_t*>(to), flags);
  });
  return flags.seen();
}

PortSeen from_port(const void* halves, int64_t count, DType to, void* data, Parallel& parallel) {
  Flags flags;
  chunks(parallel, count, kGrain, [&](int64_t begin, int64_t end) {
    from_half_port(static_cast<const uint16_t*>(halves), begin, end, to, data, flags);
  });
  return flags.seen();
}

}  // namespace aneforge::runtime
