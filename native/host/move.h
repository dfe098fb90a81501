// Moving elements without arithmetic: strided copies (transpose, slice, tile, …) and copies through a table of
// positions on each axis (pad, nearest resize).
#pragma once
#include <cstring>

#include "host/iterate.h"
#include "host/kernels.h"

namespace aneforge::host {

// Calls f with an element of the size that a value of this storage has: only bits move.
template <class F>
auto with_element(Storage storage, F f) {
  return storage == Storage::kBool ? f(uint8_t{}) : f(uint32_t{});
}

// The result has the type of operand `name`.
void expect_same_type(Build& b, const char* name, const Shape& shape, size_t i = 0);

// What a Strided<1> walk over x gives, in order. A walk that changes nothing becomes a view.
// width_bound: quirk Q08 acts on the copy.
std::unique_ptr<Kernel> strided_copy(Build& b, int32_t x, const Strided<1>& walk, bool width_bound = false);

// One position of the source for each position of the result on one axis; -1: the fill value. Empty: the axis stays as
// it is.
using AxisMap = std::vector<int64_t>;
std::unique_ptr<Kernel> mapped_copy(Build& b, int32_t x, const Shape& from, std::vector<AxisMap> maps,
                                    uint32_t fill_bits);

}  // namespace aneforge::host
