// Blocks of a port's elements, with the machine's own vectors: the ordinary values alone. What is not ordinary in a
// block is for the loops of runtime/ports.cc, which see every value.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/tensor.h"

namespace aneforge::runtime {

// The caller's elements as halves. False: some element saturates or is not finite, or this machine (or type) has no
// such form; what stands in `to` is then of no use. `data` may have any alignment.
bool into_block(DType from, const void* data, size_t n, uint16_t* to);

// Halves as the caller's elements. False: as above; infinities and NaN are ordinary for float32 and float16 only, and
// reported.
bool out_of_block(const uint16_t* from, size_t n, DType to, void* data, bool* nonfinite);

}  // namespace aneforge::runtime
