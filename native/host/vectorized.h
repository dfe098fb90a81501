// The pass that gives steps on plain (row-major) values their vector kernels: matrix products with what follows them,
// chains of elementwise operations, softmax, layer norm, transposes, reductions along one axis. It runs after
// use_blocked_layout and leaves everything else to the plain kernels.
#pragma once
#include "host/program.h"

namespace aneforge::host {

void use_vector_kernels(Graph& graph);

}  // namespace aneforge::host
