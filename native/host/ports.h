// The caller's tensors <-> the program's values: the only place where element types are converted.
//
//   to fp16   finite values beyond ±65504 saturate (and are counted); infinities stay; NaN stays, or becomes +inf
//   (quirk Q11) to fp32   binary64 beyond the range of binary32 saturates likewise bool      is 0 or 1 either way:
//   anything but 0 is true integers  into float ports as numbers; integer ports take integer tensors only, saturating
//   outputs   to an integer type: towards zero, saturating, NaN is 0
#pragma once
#include "core/convert.h"
#include "core/executable.h"
#include "host/program.h"

namespace aneforge::host {

// Element types that a port of this kind takes or gives.
bool converts(DType caller, const Value& port);

PortSeen read_port(DType from, const void* data, const Value& port, bool nan_is_infinity, void* to, Parallel& parallel);
PortSeen write_port(const Value& port, const void* from, DType to, void* data, Parallel& parallel);

}  // namespace aneforge::host
