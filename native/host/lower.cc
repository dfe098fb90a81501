#include <cstring>

#include "core/status.h"
#include "host/kernels.h"

namespace aneforge::host {
namespace {

Maker maker_of(const Step& step) {
  const auto found = kernel_table().find(step.kind);
  if (found == kernel_table().end())
    throw Error(Code::kUnsupported, "host backend: no form for MIL operation '" + step.kind + "' ('" + step.name +
                                        "', line " + std::to_string(step.line) + ")");
  return found->second;
}

void make_kernel(Graph& graph, Step& step) {
  Build build(graph, step);
  step.kernel = maker_of(step)(build);
  if (!step.kernel) step.dead = true;
}

// Operations on constants only are done now, so that passes and packing see plain constants (dequantised weights, …).
class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph) {}

  bool fold(Step& step) {
    for (const Argument& a : step.arguments)
      for (int32_t v : a.values)
        if (!constant(v)) return false;
    for (int32_t r : step.results)
      if (graph_.values[static_cast<size_t>(r)].declared == mil::Element::kString) return false;
    make_kernel(graph_, step);
    if (step.dead) return true;  // a view of a constant
    data_.resize(graph_.values.size());
    for (int32_t v : step.reads) data_[static_cast<size_t>(v)] = const_cast<void*>(graph_.known(v));
    std::vector<std::shared_ptr<void>> results;
    for (int32_t r : step.results) {
      results.push_back(allocate(graph_.values[static_cast<size_t>(r)].bytes));
      data_[static_cast<size_t>(r)] = results.back().get();
    }
    const std::shared_ptr<void> scratch = allocate(step.scratch);
    Serial serial;
    step.kernel->run(Frame{data_.data(), static_cast<char*>(scratch.get()), &serial});
    for (size_t i = 0; i < results.size(); ++i) {
      Value& v = graph_.values[static_cast<size_t>(step.results[i])];
      v.known = results[i];
      v.coded = step.kind == "constexpr_affine_dequantize";
      v.producer = -1;
    }
    step.kernel = nullptr;
    step.dead = true;
    return true;
  }

 private:
  bool constant(int32_t v) const { return graph_.values[static_cast<size_t>(graph_.root(v))].constant(); }
  static std::shared_ptr<void> allocate(size_t bytes) {
    void* p = nullptr;
    if (posix_memalign(&p, 64, (bytes + 63) / 64 * 64 + 64) != 0) throw std::bad_alloc();
    return std::shared_ptr<void>(p, [](void* q) { std::free(q); });
  }

  Graph& graph_;
  std::vector<void*> data_;
};

}  // namespace

std::unique_ptr<Graph> lower(const mil::Program& program, const Settings& settings) {
  auto graph = std::make_unique<Graph>();
  graph->settings = settings;
  graph->values.reserve(program.values.size() + 16);
  for (const mil::Value& v : program.values) {
    const int32_t id = graph->add_value(std::string(v.name), v.type.element, v.type.shape);
    if (v.constant >= 0)
      graph->values[static_cast<size_t>(id)].source = &program.constants[static_cast<size_t>(v.constant)];
  }
  graph->inputs = program.inputs;
  graph->outputs = program.outputs;
  for (int32_t port : program.inputs) storage_of(program.values[static_cast<size_t>(port)].type.element);
  for (int32_t port : program.outputs) storage_of(program.values[static_cast<size_t>(port)].type.element);
  Folder folder(*graph);
  graph->steps.reserve(program.ops.size());
  for (const mil::Op& op : program.ops) {
    Step step;
    step.kind = std::string(op.kind);
    step.name = op.name;
    step.line = op.line;
    step.results = op.results;
    for (const mil::Argument& a : op.arguments) step.arguments.push_back({std::string(a.name), a.values});
    maker_of(step);
    if (folder.fold(step)) continue;
    for (int32_t r : step.results)
      graph->values[static_cast<size_t>(r)].producer = static_cast<int32_t>(graph->steps.size());
    graph->steps.push_back(std::move(step));
  }
  return graph;
}

void build_kernels(Graph& graph) {
  for (size_t i = 0; i < graph.steps.size(); ++i)
    if (!graph.steps[i].dead && !graph.steps[i].kernel) make_kernel(graph, graph.steps[i]);
}

}  // namespace aneforge::host
