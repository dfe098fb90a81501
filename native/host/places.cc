#include "host/places.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace aneforge::host {
namespace {

int32_t operand(const Step& step, const char* name) {
  const Argument* found = step.find(name);
  return found && found->values.size() == 1 ? found->values[0] : -1;
}

const Step* maker(const Graph& graph, int32_t value) {
  const int32_t at = value < 0 ? -1 : graph.values[static_cast<size_t>(value)].producer;
  return at < 0 ? nullptr : &graph.steps[static_cast<size_t>(at)];
}

bool named(const Step* step, const char* kind) { return step && step->kind == kind; }

// A slice, or a part of a split, that starts beyond the first element of the last axis.
bool width_offset(Graph& graph, int32_t value) {
  const Step* step = maker(graph, value);
  if (!step) return false;
  const int32_t x = operand(*step, "x");
  if (x < 0) return false;
  const auto rank = static_cast<int32_t>(graph.values[static_cast<size_t>(x)].shape.size());
  if (step->kind == "split") {
    const int32_t axis = graph.ints(operand(*step, "axis"))[0];
    return (axis == rank - 1 || axis == -1) && step->results[0] != value;
  }
  if (step->kind != "slice_by_size" && step->kind != "slice_by_index") return false;
  return rank > 0 && graph.ints(operand(*step, "begin"))[rank - 1] != 0;
}

// Q09: two slices with an offset along the width meet in a concat.
bool joins_slices(Graph& graph, const Step& step) {
  if (step.kind != "concat") return false;
  const Argument* pieces = step.find("values");
  return pieces && std::count_if(pieces->values.begin(), pieces->values.end(),
                                 [&](int32_t v) { return width_offset(graph, v); }) >= 2;
}

// Q40: more positions than the engine's own attention holds.
bool long_attention(const Graph& graph, const Step& step) {
  if (step.kind != "scaled_dot_product_attention") return false;
  const Shape& q = graph.values[static_cast<size_t>(operand(step, "query"))].shape;
  const Shape& k = graph.values[static_cast<size_t>(operand(step, "key"))].shape;
  if (q.size() < 2 || k.size() < 2) return false;
  const int64_t rows = q[q.size() - 2], columns = k[k.size() - 2];
  return std::max(rows, columns) > 2048 || std::min(rows, columns) >= 512;
}

// Q31: a constant of [1, D, 1, 1] with D >= 10240 and unequal elements, between two reshapes.
bool wide_affine(Graph& graph, const Step& step, const std::vector<std::vector<int32_t>>& consumers) {
  if (step.kind != "mul" && step.kind != "add" && step.kind != "sub" && step.kind != "real_div") return false;
  const int32_t x = operand(step, "x"), y = operand(step, "y");
  for (const auto& [value, factor] : {std::pair{x, y}, std::pair{y, x}}) {
    if (value < 0 || factor < 0 || !named(maker(graph, value), "reshape")) continue;
    const Value& v = graph.values[static_cast<size_t>(factor)];
    if (!v.constant() || v.storage != Storage::kFloat || v.shape.size() != 4 || v.count < 10240 ||
        v.shape[1] != v.count)
      continue;
    const float* p = graph.floats(factor);
    if (std::all_of(p, p + v.count, [p](float f) { return f == *p; })) continue;
    for (int32_t user : consumers[static_cast<size_t>(step.results[0])])
      if (graph.steps[static_cast<size_t>(user)].kind == "reshape") return true;
  }
  return false;
}

}  // namespace

void bound_activations(Graph& graph) {
  if (!graph.settings.has(Quirk::kQ10)) return;
  for (size_t i = 0; i < graph.steps.size(); ++i) {
    const bool product = graph.steps[i].kind == "matmul", layer = graph.steps[i].kind == "linear";
    if (graph.steps[i].dead || (!product && !layer)) continue;
    const char *first = "x", *second = product ? "y" : "weight";
    const auto coded = [&](const char* name) {
      const int32_t v = operand(graph.steps[i], name);
      return v >= 0 && graph.values[static_cast<size_t>(v)].coded;
    };
    const char* activation = coded(second) ? first : coded(first) ? second : nullptr;
    if (!activation) continue;
    const int32_t from = operand(graph.steps[i], activation);
    if (graph.values[static_cast<size_t>(from)].constant()) continue;
    const Value v = graph.values[static_cast<size_t>(from)];
    const int32_t to = graph.add_value(v.name + " in fixed point", v.declared, v.shape);
    Step step;
    step.kind = "fixed point copy";
    step.name = v.name;
    step.line = graph.steps[i].line;
    step.arguments.push_back({"x", {from}});
    step.results = {to};
    step.reads = {from};
    const int64_t count = v.count;
    step.kernel = kernel([from, to, count](const Frame& frame) {
      const float* p = frame.in(from);
      float* q = frame.out(to);
      for (int64_t k = 0; k < count; ++k)
        q[k] = std::fabs(p[k]) > kWidthSliceBound ? std::copysign(std::numeric_limits<float>::infinity(), p[k]) : p[k];
    });
    for (Argument& a : graph.steps[i].arguments)
      if (a.name == activation) a.values = {to};
    graph.insert(i, std::move(step));
    ++i;
  }
}

void poison(Graph& graph) {
  const QuirkSet& rows = graph.settings.poison;
  if (graph.settings.numerics != Numerics::kEngine || rows.empty()) return;
  const std::vector<std::vector<int32_t>> consumers = graph.consumers();
  std::vector<bool> tainted(graph.values.size(), false);
  for (Step& step : graph.steps) {
    if (step.dead) continue;
    bool bad = (rows.has(Quirk::kQ09) && joins_slices(graph, step)) ||
               (rows.has(Quirk::kQ40) && long_attention(graph, step)) ||
               (rows.has(Quirk::kQ31) && wide_affine(graph, step, consumers));
    for (const Argument& a : step.arguments)
      for (int32_t v : a.values) bad |= tainted[static_cast<size_t>(v)];
    if (!bad) continue;
    bool floats = true;
    std::vector<std::pair<int32_t, int64_t>> fills;
    for (int32_t r : step.results) {
      const Value& v = graph.values[static_cast<size_t>(r)];
      tainted[static_cast<size_t>(r)] = true;
      floats &= v.storage == Storage::kFloat;
      fills.emplace_back(r, v.count);
    }
    if (!floats) continue;
    step.reads.clear();
    step.kernel = kernel([fills](const Frame& frame) {
      for (const auto& [value, count] : fills)
        std::fill_n(frame.out(value), count, std::numeric_limits<float>::quiet_NaN());
    });
  }
}

}  // namespace aneforge::host
