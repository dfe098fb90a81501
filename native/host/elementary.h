// Which MIL operations the vector kernels can run element by element, and with what numerics.
#pragma once
#include <optional>

#include "host/program.h"
#include "host/vector/epilogue.h"

namespace aneforge::host {

struct Elementary {
  vec::Elementwise op;
  float alpha = 0, beta = 0;
  bool binary = false;  // of x and y; otherwise of x alone (prelu's alpha: per_channel)
  bool per_channel = false;
};

// The step as an elementwise kernel, or nothing: another operation, a quirk that the kernel does not simulate, a
// parameter that is not known.
std::optional<Elementary> elementary(Graph& graph, const Step& step);
// The same operation with its operands exchanged.
std::optional<vec::Elementwise> exchanged(vec::Elementwise op);

// How the program's ordinary values are stored.
vec::Numerics numerics_of(const Graph& graph);
// A float that is stored as those are; the vector passes leave alone what mixes types.
bool ordinary(const Graph& graph, int32_t value);

// The one value of a one-result step's argument, or -1.
int32_t operand_of(const Step& step, const char* name);
// Known parameters of a step; `absent` when the argument is not given. Nothing when it is given but not known.
std::optional<std::vector<int64_t>> known_ints(Graph& graph, const Step& step, const char* name,
                                               std::vector<int64_t> absent);
std::optional<float> known_number(Graph& graph, const Step& step, const char* name, float absent);
std::optional<bool> known_flag(Graph& graph, const Step& step, const char* name, bool absent);

}  // namespace aneforge::host
