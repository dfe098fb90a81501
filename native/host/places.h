// Quirks that belong to a place in a program, not to one operation: what stands before or after decides.
#pragma once
#include "host/program.h"

namespace aneforge::host {

// Q10: before a matmul or linear with 8-bit weights, |activation| > 4094 becomes ±inf.
void bound_activations(Graph& graph);

// Where a row of Settings::poison is triggered, the engine's result is wrong in a way that nobody can predict. Every
// float that depends on such a place becomes NaN, up to the outputs, whatever operations are between.
void poison(Graph& graph);

}  // namespace aneforge::host
