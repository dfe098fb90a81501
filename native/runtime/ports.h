// The caller's tensors <-> the port buffers of the engine: halves, or bytes for some inputs. What converts, and how, is
// as in the host backend (core/convert.h): finite values beyond ±65504 saturate and are counted, infinities and NaN
// stay, bool is 0 or 1, integers go out towards zero.
#pragma once
#include <cstdint>

#include "core/convert.h"
#include "core/parallel.h"

namespace aneforge::runtime {

// Element types that a port of type `port` (kFloat16 or kUInt8) takes or gives.
bool converts(DType caller, DType port);

PortSeen to_port(DType from, const void* data, int64_t count, DType port, void* to, Parallel& parallel);
PortSeen from_port(const void* halves, int64_t count, DType to, void* data, Parallel& parallel);

}  // namespace aneforge::runtime
