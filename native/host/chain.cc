#include "host/chain.h"

#include <algorithm>
#include <utility>

namespace aneforge::host {
namespace {

using Operand = vec::EpilogueStep::Operand;

const Value& value_at(const Graph& graph, int32_t id) { return graph.values[static_cast<size_t>(id)]; }

// Whether a constant of this shape has one value for each column of a result of rank `rank`: [.., 1, columns].
bool is_row(const Shape& shape, size_t rank, int64_t columns) {
  return !shape.empty() && shape.size() <= rank && shape.back() == columns && count_of(shape) == columns;
}

// [.., rows, 1] beside [.., rows, columns].
bool is_column(const Shape& shape, const Shape& whole) {
  return shape.size() == whole.size() && shape.back() == 1 && std::equal(shape.begin(), shape.end() - 1, whole.begin());
}

// The same elements under another shape, rows of `columns` still rows.
bool keeps_rows(const Graph& graph, const Step& step, int32_t x, int64_t columns) {
  if (step.kind != "reshape" && step.kind != "expand_dims" && step.kind != "squeeze") return false;
  if (step.results.size() != 1 || operand_of(step, "x") != x || !ordinary(graph, step.results[0])) return false;
  const Value& result = value_at(graph, step.results[0]);
  return result.count == value_at(graph, x).count && !result.shape.empty() && result.shape.back() == columns;
}

}  // namespace

bool add_to_chain(Graph& graph, const Step& step, int32_t x, int64_t columns, const vec::Steps& tensor_steps,
                  Chain* chain) {
  const std::optional<Elementary> e = elementary(graph, step);
  if (!e || e->per_channel) return false;
  const Value& from = value_at(graph, x);
  const Value& result = value_at(graph, step.results[0]);
  if (result.shape != from.shape) return false;
  vec::EpilogueStep s;
  s.op = e->op;
  s.alpha = e->alpha;
  s.beta = e->beta;
  if (e->binary) {
    int32_t y = operand_of(step, "y");
    if (operand_of(step, "x") != x) {
      y = operand_of(step, "x");
      const std::optional<vec::Elementwise> op = exchanged(e->op);
      if (!op) return false;
      s.op = *op;
    }
    if (y == x) {  // x * x; the other forms do not occur
      if (s.op != vec::Elementwise::kMul) return false;
      s.op = vec::Elementwise::kSquare;
      chain->steps.push_back(std::move(s));
      chain->result = step.results[0];
      chain->word += (chain->word.empty() ? "" : "+") + step.kind;
      return true;
    }
    const Value& other = value_at(graph, y);
    const bool constant = value_at(graph, graph.root(y)).constant();
    if (other.layout != Layout::kPlain || other.shape.size() > from.shape.size()) return false;
    if (constant && other.count == 1) {
      s.operand = Operand::kScalar;
      s.values = {*graph.floats(y)};
    } else if (constant && columns > 0 && is_row(other.shape, from.shape.size(), columns)) {
      const float* p = graph.floats(y);
      s.operand = Operand::kChannel;
      s.values.assign(p, p + columns);
    } else if (chain->operands.size() == static_cast<size_t>(kMaxOperands)) {
      return false;
    } else if (other.shape == from.shape) {
      s.operand = Operand::kTensor;
      s.steps = tensor_steps;
    } else if (columns > 0 && is_column(other.shape, from.shape)) {
      // One number a row: image and pixel steps of a tensor of one column.
      s.operand = Operand::kRow;
      s.steps = {tensor_steps.image / columns, 0, 0, 1, 0};
    } else {
      return false;
    }
    if (s.operand == Operand::kTensor || s.operand == Operand::kRow) {
      s.slot = static_cast<int>(chain->operands.size());
      chain->operands.push_back(y);
    }
  }
  chain->steps.push_back(std::move(s));
  chain->result = step.results[0];
  chain->word += (chain->word.empty() ? "" : "+") + step.kind;
  return true;
}

void extend_chain(Graph& graph, const std::vector<std::vector<int32_t>>& consumers, int64_t columns,
                  const vec::Steps& tensor_steps, Chain* chain) {
  for (;;) {
    const int32_t x = chain->result;
    if (graph.is_output(x) || consumers[static_cast<size_t>(x)].size() != 1) return;
    const auto next = static_cast<size_t>(consumers[static_cast<size_t>(x)][0]);
    const Step& step = graph.steps[next];
    if (step.dead || step.kernel) return;
    if (keeps_rows(graph, step, x, columns))
      chain->result = step.results[0];
    else if (!add_to_chain(graph, step, x, columns, tensor_steps, chain))
      return;
    graph.steps[chain->last].dead = true;
    chain->last = next;
  }
}

}  // namespace aneforge::host
