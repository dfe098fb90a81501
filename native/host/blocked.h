// The pass that moves image operations to the blocked layout of host/vector/layout.h.
//
// * recognize (blocked_recognize.h): which steps have a blocked form. Convolutions of every kind and their transposes,
//   pools, spatial means, elementwise operations on blocked values, concatenation along channels, padding, nearest
//   upsampling, changes of shape that change no position.
// * fuse: elementwise operations whose operand has no other use move into the step before them, each with its own
//   rounding.
// * place: every blocked value gets the halo that its widest consumer needs; where a plain step or a port meets a
//   blocked value, a layout change is inserted.
// * build: the kernels; weights are packed here.
//
// Values of at most four channels stay plain: as inputs of convolutions they are copied to planes with a halo, as
// results they leave the registers as planes.
#pragma once
#include "host/program.h"

namespace aneforge::host {

void use_blocked_layout(Graph& graph);

}  // namespace aneforge::host
