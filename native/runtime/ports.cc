#include "runtime/ports.h"

#include <algorithm>
#include <cmath>

#include "core/fp16.h"
#include "runtime/port_blocks.h"

namespace aneforge::runtime {
namespace {

constexpr int64_t kGrain = 65536;  // elements that are worth a task
constexpr int64_t kBlock = 4096;   // elements; one that is not ordinary costs its block a second look, in cache
constexpr float kLargest = 65504.0f;

bool special(uint16_t half) { return (half & 0x7c00u) == 0x7c00u; }

const char* element(const void* data, int64_t i, DType type) {
  return static_cast<const char*>(data) + static_cast<size_t>(i) * element_size(type);
}
char* element(void* data, int64_t i, DType type) {
  return static_cast<char*>(data) + static_cast<size_t>(i) * element_size(type);
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

uint16_t narrow_float(float v, bool* large, bool* beyond) {
  if (!std::isfinite(v)) {
    *beyond = true;
  } else if (std::fabs(v) > kLargest) {
    *large = true;
    v = std::copysign(kLargest, v);
  }
  return float_to_half(v);
}

void to_half_block(DType from, const void* data, int64_t begin, int64_t end, uint16_t* to, Flags& flags) {
  if (into_block(from, element(data, begin, from), static_cast<size_t>(end - begin), to + begin)) return;
  bool large = false, beyond = false;
  if (from == DType::kFloat32) {
    for (int64_t i = begin; i < end; ++i) to[i] = narrow_float(load<float>(data, i), &large, &beyond);
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
  if (from == DType::kUInt8) {
    std::memcpy(to + begin, element(data, begin, from), static_cast<size_t>(end - begin));
  } else if (from == DType::kBool) {
    for (int64_t i = begin; i < end; ++i) to[i] = load<uint8_t>(data, i) != 0;
  } else {
    with_integer(from, [&](auto tag) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = static_cast<uint8_t>(clamped(load<decltype(tag)>(data, i), 0, 255, &large));
    });
  }
  flags.add(large, false);
}

void from_half_block(const uint16_t* from, int64_t begin, int64_t end, DType to, void* data, Flags& flags) {
  bool nonfinite = false;
  if (!out_of_block(from + begin, static_cast<size_t>(end - begin), to, element(data, begin, to), &nonfinite)) {
    for (int64_t i = begin; i < end; ++i) nonfinite |= special(from[i]);
    if (to == DType::kFloat32) {
      for (int64_t i = begin; i < end; ++i) store(data, i, half_to_float(from[i]));
    } else if (to == DType::kFloat16) {
      std::memcpy(element(data, begin, to), from + begin, static_cast<size_t>(end - begin) * 2);
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
  flags.add(false, nonfinite);
}

// f(begin, end) for the blocks of a task.
template <class F>
void blocks(int64_t begin, int64_t end, F&& f) {
  for (int64_t i = begin; i < end; i += kBlock) f(i, std::min(i + kBlock, end));
}

}  // namespace

bool converts(DType caller, DType port) {
  return element_size(caller) != 0 && (port == DType::kFloat16 || !is_floating(caller));
}

PortSeen to_port(DType from, const void* data, int64_t count, DType port, void* to, Parallel& parallel) {
  Flags flags;
  chunks(parallel, count, kGrain, [&](int64_t begin, int64_t end) {
    if (port == DType::kFloat16)
      blocks(begin, end,
             [&](int64_t b, int64_t e) { to_half_block(from, data, b, e, static_cast<uint16_t*>(to), flags); });
    else
      to_byte_port(from, data, begin, end, static_cast<uint8_t*>(to), flags);
  });
  return flags.seen();
}

PortSeen from_port(const void* halves, int64_t count, DType to, void* data, Parallel& parallel) {
  Flags flags;
  chunks(parallel, count, kGrain, [&](int64_t begin, int64_t end) {
    blocks(begin, end,
           [&](int64_t b, int64_t e) { from_half_block(static_cast<const uint16_t*>(halves), b, e, to, data, flags); });
  });
  return flags.seen();
}

}  // namespace aneforge::runtime
