// The pass that moves image operations to the blocked layout of host/vector/layout.h.
//
//   recognize   which steps have a blocked form: convolutions (also depthwise), pools, spatial means, elementwise
//   operations between
//               blocked values, concatenation along channels, nearest upsampling
//   fuse        elementwise operations whose operand has no other use move into the step before them, each with its own
//   rounding place       every blocked value gets the halo that its widest consumer needs; where a plain step or a port
//   meets a blocked
//               value, a layout change is inserted
//   build       the kernels; weights are packed here
#pragma once
#include "host/program.h"

namespace aneforge::host {

void use_blocked_layout(Graph& graph);

}  // namespace aneforge::host
