// Elementwise operations on plain values that run in the same pass over memory as the step before them.
#pragma once
#include <vector>

#include "host/elementary.h"
#include "host/program.h"

namespace aneforge::host {

constexpr int kMaxOperands = 8;  // run-time operands of one fused step

struct Chain {
  std::vector<vec::EpilogueStep> steps;
  std::vector<int32_t> operands;  // values, by slot
  int32_t result = -1;            // of the last operation
  size_t last = 0;                // where it stands: the fused step runs there
  std::string word;               // "linear+add+gelu"
};

// Takes over the operations behind the chain, as long as nobody else sees the value between: results of the same shape;
// other operands of the same shape (walked with tensor_steps), one known number, and, with columns > 0, one known
// number for each column of the last axis or one value for each row. A reshape that keeps the last axis is passed
// through. All but the last are marked dead: the fused kernel belongs to the step at chain->last.
void extend_chain(Graph& graph, const std::vector<std::vector<int32_t>>& consumers, int64_t columns,
                  const vec::Steps& tensor_steps, Chain* chain);

// One operation as a step of a chain on the value x; nothing if it has another form. Adds its run-time operand to
// chain->operands.
bool add_to_chain(Graph& graph, const Step& step, int32_t x, int64_t columns, const vec::Steps& tensor_steps,
                  Chain* chain);

}  // namespace aneforge::host
