// Rows of halves: as float_to_half and half_to_float of core/fp16.h, with the machine's own instructions where it has
// them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace aneforge {

// Memory may have any alignment.
void to_halves(const void* floats, uint16_t* to, size_t n);
void from_halves(const uint16_t* from, void* floats, size_t n);

}  // namespace aneforge
