// The caller's tensors <-> fp16 arrays of Core ML. What converts is what converts in the host backend: finite values
// beyond ±65504 saturate, infinities and NaN stay, bool is 0 or 1, integers go out towards zero.
#pragma once
#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace aneforge::coreml {

struct Seen {
  bool saturated = false, nonfinite = false;
};

bool converts(DType caller);
Seen to_halves(DType from, const void* data, int64_t count, uint16_t* to);
// From an array of halves (or floats, with `wide`) that has strides, in elements: Core ML pads rows.
Seen from_array(const void* from, bool wide, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                DType to, void* data);

}  // namespace aneforge::coreml
