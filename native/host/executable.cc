#include "host/executable.h"

#include <cstdlib>

#include "core/backends.h"
#include "core/status.h"
#include "host/ports.h"
#include "host/vector/kernels.h"
#include "mil/reader.h"

namespace aneforge::host {
namespace {

const BackendRegistration registration("host", &compile);

DType dtype_of(mil::Element e) {
  switch (e) {
    case mil::Element::kFp16:
      return DType::kFloat16;
    case mil::Element::kFp32:
      return DType::kFloat32;
    case mil::Element::kBool:
      return DType::kBool;
    case mil::Element::kInt8:
      return DType::kInt8;
    case mil::Element::kInt16:
      return DType::kInt16;
    case mil::Element::kInt32:
      return DType::kInt32;
    case mil::Element::kUInt8:
      return DType::kUInt8;
    case mil::Element::kUInt16:
      return DType::kUInt16;
    default:
      throw Error(Code::kUnsupported, std::string("host backend: a port of type ") + mil::name_of(e));
  }
}

Port port_of(const Value& v) { return Port{v.name, dtype_of(v.declared), v.shape}; }

template <class View>
void check(const char* kind, size_t i, const Port& port, const Value& value, const View& view) {
  const Shape given(view.dims, view.dims + view.rank);
  const std::string name = std::string(kind) + " " + std::to_string(i) + " ('" + port.name + "')";
  if (given != port.shape)
    throw Error(Code::kInvalidArgument, name + " has shape " + to_string(given) + ", not " + to_string(port.shape));
  if (!converts(view.dtype, value))
    throw Error(Code::kInvalidArgument,
                name + ": " + mil_name(view.dtype) + " does not convert to " + mil_name(port.dtype));
  if (!view.data) throw Error(Code::kInvalidArgument, name + " has no data");
}

uint64_t bit(size_t i) { return uint64_t{1} << (i < 63 ? i : 63); }

}  // namespace

HostExecutable::HostExecutable(std::unique_ptr<Graph> graph) : graph_(std::move(graph)) {
  for (int32_t v : graph_->inputs) inputs_.push_back(port_of(graph_->values[static_cast<size_t>(v)]));
  for (int32_t v : graph_->outputs) outputs_.push_back(port_of(graph_->values[static_cast<size_t>(v)]));
  run_passes(*graph_);
  build_kernels(*graph_);
  plan_ = plan(*graph_);
  // Constants that some kernel reads at run time stay; what was only packed, and the program's own text and blob, go.
  std::vector<bool> wanted(graph_->values.size(), false);
  const auto want = [&](int32_t v) {
    const auto r = static_cast<size_t>(graph_->root(v));
    if (!graph_->values[r].constant()) return;
    graph_->known(v);
    wanted[r] = true;
  };
  for (size_t i = 0; i < graph_->steps.size(); ++i) {
    Step& step = graph_->steps[i];
    if (step.dead) continue;
    order_.push_back(i);
    for (int32_t v : step.reads) want(v);
    step.arguments.clear();
  }
  for (int32_t v : graph_->outputs) want(v);
  for (size_t i = 0; i < graph_->values.size(); ++i) {
    graph_->values[i].source = nullptr;
    if (!wanted[i]) graph_->values[i].known = nullptr;
  }
}

std::unique_ptr<HostExecutable::State> HostExecutable::take_state() const {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<State> state = std::move(idle_.back());
      idle_.pop_back();
      return state;
    }
  }
  auto state = std::make_unique<State>();
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, plan_.arena) != 0) throw std::bad_alloc();
  state->arena.reset(static_cast<char*>(memory), [](char* p) { std::free(p); });
  state->data.resize(graph_->values.size(), nullptr);
  for (size_t i = 0; i < state->data.size(); ++i) {
    const auto r = static_cast<size_t>(graph_->root(static_cast<int32_t>(i)));
    if (graph_->values[r].known)
      state->data[i] = const_cast<void*>(graph_->values[r].known.get());
    else if (plan_.offset[r] != Plan::kNone)
      state->data[i] = state->arena.get() + plan_.offset[r];
  }
  return state;
}

void HostExecutable::give_state(std::unique_ptr<State> state) const {
  std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(state));
}

PortEvents HostExecutable::run(const ConstTensorView* inputs, size_t n_inputs, const TensorView* outputs,
                               size_t n_outputs, Parallel& parallel) const {
  if (n_inputs != inputs_.size() || n_outputs != outputs_.size())
    throw Error(Code::kInvalidArgument, "the program takes " + std::to_string(inputs_.size()) + " inputs and gives " +
                                            std::to_string(outputs_.size()) + " outputs, not " +
                                            std::to_string(n_inputs) + " and " + std::to_string(n_outputs));
  const auto value = [&](int32_t id) -> const Value& { return graph_->values[static_cast<size_t>(id)]; };
  for (size_t i = 0; i < n_inputs; ++i) check("input", i, inputs_[i], value(graph_->inputs[i]), inputs[i]);
  for (size_t i = 0; i < n_outputs; ++i) check("output", i, outputs_[i], value(graph_->outputs[i]), outputs[i]);

  std::unique_ptr<State> state = take_state();
  PortEvents events;
  bool finite = true;
  const bool coerce = graph_->settings.has(Quirk::kQ11);
  for (size_t i = 0; i < n_inputs; ++i) {
    const int32_t id = graph_->inputs[i];
    const PortSeen seen =
        read_port(inputs[i].dtype, inputs[i].data, value(id), coerce, state->data[static_cast<size_t>(id)], parallel);
    if (seen.saturated) events.saturated_inputs |= bit(i);
    finite &= !seen.nonfinite;
  }
  for (size_t i : order_) {
    char* scratch = plan_.scratch_offset[i] == Plan::kNone ? nullptr : state->arena.get() + plan_.scratch_offset[i];
    graph_->steps[i].kernel->run(Frame{state->data.data(), scratch, &parallel});
  }
  for (size_t i = 0; i < n_outputs; ++i) {
    const int32_t id = graph_->outputs[i];
    const PortSeen seen =
        write_port(value(id), state->data[static_cast<size_t>(id)], outputs[i].dtype, outputs[i].data, parallel);
    if (seen.nonfinite && finite) events.nonfinite_outputs |= bit(i);
  }
  give_state(std::move(state));
  return events;
}

std::string HostExecutable::describe() const {
  const Settings& s = graph_->settings;
  std::string text = std::string("host: ") + name_of(s.numerics) + " numerics";
  if (s.numerics == Numerics::kEngine) text += " (" + s.quirks.to_string() + ")";
  if (!s.poison.empty()) text += ", poison (" + s.poison.to_string() + ")";
  text += s.plain ? ", plain kernels, " : std::string(", ") + vec::kernels().name + " kernels, ";
  return text + std::to_string(order_.size()) + " steps, arena " + std::to_string(plan_.arena) + " bytes";
}

std::shared_ptr<Executable> compile(const MilFile& file, const Options& options) {
  const Settings settings = parse_settings(options);
  const mil::Program program = mil::read(file);
  return std::make_shared<HostExecutable>(lower(program, settings));
}

}  // namespace aneforge::host
