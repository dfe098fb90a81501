#include "ep/compute.h"

#include <algorithm>

#include "ep/logging.h"

namespace aneforge::ep {
namespace {

// Loops of a program on the pool of the session that runs it.
class SessionThreads final : public Parallel {
 public:
  SessionThreads(const Api& api, const OrtKernelContext* context, size_t width)
      : api_(api), context_(context), width_(width) {}
  void run(size_t total, void (*fn)(void* user, size_t i), void* user) override {
    // num_batch 0: one task an index, shared out as threads become free. With n blocks the slowest thread would decide.
    api_.check(api_.KernelContext_ParallelFor(context_, fn, total, 0, user));
  }
  size_t width() const override { return width_; }

 private:
  const Api& api_;
  const OrtKernelContext* context_;
  size_t width_;
};

std::string shape_text(const int64_t* dims, size_t rank) {
  std::string out = "[";
  for (size_t i = 0; i < rank; ++i) out += (i ? ", " : "") + std::to_string(dims[i]);
  return out + "]";
}
std::string shape_text(const std::vector<int64_t>& dims) { return shape_text(dims.data(), dims.size()); }

size_t position(const std::vector<FusedValue>& values, const std::string& name) {
  size_t i = 0;
  while (i < values.size() && values[i].name != name) ++i;
  return i;
}

// The shape that ONNX Runtime gives the value of a port. A program knows no rank 0: a scalar's port is [1] or [1, 1,
// …].
std::vector<int64_t> onnx_dims(const FusedValue& value, const Port& port, const std::string& region) {
  const TensorType& type = value.type;
  if (!type.is_tensor)
    throw Error(Code::kFailed, "region '" + region + "': value '" + value.name + "' is not a tensor");
  if (!type.has_rank) return port.shape;
  if (type.dims.empty() && element_count(port.shape.data(), port.shape.size()) == 1) return {};
  bool fits = type.dims.size() == port.shape.size();
  for (size_t i = 0; fits && i < type.dims.size(); ++i) fits = type.dims[i] < 0 || type.dims[i] == port.shape[i];
  if (!fits) {
    throw Error(Code::kFailed, "region '" + region + "': value '" + value.name + "' is " + shape_text(type.dims) +
                                   " in the graph, " + shape_text(port.shape) + " in the program");
  }
  return port.shape;
}

OrtStatus* create_state(OrtNodeComputeInfo*, OrtNodeComputeContext*, void** state) noexcept {
  *state = nullptr;  // all that changes during a run lives on the stack of that run
  return nullptr;
}
void release_state(OrtNodeComputeInfo*, void*) noexcept {}

}  // namespace

Kernel::Kernel(std::shared_ptr<const Api> api, Region region, std::vector<FusedValue> inputs,
               std::vector<FusedValue> outputs, std::shared_ptr<RegionStats> stats, OnOverflow on_overflow,
               size_t width)
    : OrtNodeComputeInfo{},
      api_(std::move(api)),
      name_(region.name),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      stats_(std::move(stats)),
      on_overflow_(on_overflow),
      width_(width) {
  variants_.push_back(bind(region));
  used_.resize(inputs_.size(), false);
  for (size_t at : variants_.back().input_of_port) used_[at] = true;
  ort_version_supported = api_->version;
  CreateState = create_state;
  ReleaseState = release_state;
  Compute = [](OrtNodeComputeInfo* self, void*, OrtKernelContext* context) -> OrtStatus* {
    const Kernel& kernel = *static_cast<Kernel*>(self);
    return guarded_ort(*kernel.api_, [&] { kernel.run(context); });
  };
  count_kernels(1);
}

Kernel::~Kernel() { count_kernels(-1); }

Kernel::Variant Kernel::bind(const Region& region) const {
  const std::string where = "region '" + name_ + "': ";
  if (!region.executable) throw Error(Code::kFailed, where + "it has no program");
  const Executable& program = *region.executable->executable;
  if (region.inputs.size() != program.inputs().size() || region.outputs.size() != program.outputs().size()) {
    throw Error(Code::kFailed, where + "its value names do not match the ports of its program");
  }
  Variant v;
  v.program = region.executable;
  for (size_t p = 0; p < region.inputs.size(); ++p) {
    const size_t at = position(inputs_, region.inputs[p]);
    if (at == inputs_.size()) {
      throw Error(Code::kFailed,
                  where + "'" + region.inputs[p] + "' is an input of the program, but not of the fused node");
    }
    v.input_of_port.push_back(at);
    v.input_dims.push_back(onnx_dims(inputs_[at], program.inputs()[p], name_));
  }
  std::vector<bool> filled(outputs_.size(), false);
  for (size_t p = 0; p < region.outputs.size(); ++p) {
    const size_t at = position(outputs_, region.outputs[p]);
    const bool wanted = at < outputs_.size() && !filled[at];
    if (wanted) {
      filled[at] = true;
      if (p < 64) v.wanted |= uint64_t{1} << p;
    }
    v.output_of_port.push_back(wanted ? at : kNowhere);
    v.output_dims.push_back(wanted ? onnx_dims(outputs_[at], program.outputs()[p], name_) : program.outputs()[p].shape);
  }
  const auto missing = std::find(filled.begin(), filled.end(), false);
  if (missing != filled.end()) {
    const std::string& name = outputs_[static_cast<size_t>(missing - filled.begin())].name;
    throw Error(Code::kFailed, where + "'" + name + "' is an output of the fused node, but not of the program");
  }
  return v;
}

const Kernel::Variant* Kernel::find(const std::vector<Dims>& inputs) const {
  for (const Variant& v : variants_) {
    bool fits = true;
    for (size_t p = 0; fits && p < v.input_of_port.size(); ++p) {
      const Dims& given = inputs[v.input_of_port[p]];
      fits = std::equal(given.data, given.data + given.rank, v.input_dims[p].begin(), v.input_dims[p].end());
    }
    if (fits) return &v;
  }
  return nullptr;
}

void Kernel::refuse_shapes(const std::vector<Dims>& inputs) const {
  const Variant& v = variants_.front();
  for (size_t p = 0; p < v.input_of_port.size(); ++p) {
    const Dims& given = inputs[v.input_of_port[p]];
    if (std::equal(given.data, given.data + given.rank, v.input_dims[p].begin(), v.input_dims[p].end())) continue;
    throw Error(Code::kInvalidArgument,
                "ANEForge region '" + name_ + "': input '" + inputs_[v.input_of_port[p]].name + "' is " +
                    shape_text(given.data, given.rank) + " in this run, but was compiled for " +
                    shape_text(v.input_dims[p]) +
                    "; run it with that shape, or make a session with the provider option 'dims' set for this one");
  }
  throw Error(Code::kFailed, "ANEForge region '" + name_ + "': no program for these inputs");
}

void Kernel::run(OrtKernelContext* context) const {
  const Api& api = *api_;
  count_compute();
  stats_->runs.fetch_add(1, std::memory_order_relaxed);

  std::vector<Dims> dims(inputs_.size());
  std::vector<ConstTensorView> given(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!used_[i]) continue;
    const OrtValue* value = nullptr;
    int element = 0;
    api.check(api.KernelContext_GetInput(context, i, &value));
    api.check(api.GetTensorElementTypeAndShapeDataReference(value, &element, &dims[i].data, &dims[i].rank));
    api.check(api.GetTensorData(value, &given[i].data));
    given[i].dtype = static_cast<DType>(element);
  }
  const Variant* variant = find(dims);
  if (!variant) refuse_shapes(dims);
  const Executable& program = *variant->program->executable;

  std::vector<ConstTensorView> in(variant->input_of_port.size());
  for (size_t p = 0; p < in.size(); ++p) {
    const Port& port = program.inputs()[p];
    in[p] = given[variant->input_of_port[p]];
    in[p].dims = port.shape.data();
    in[p].rank = port.shape.size();
  }
  std::vector<TensorView> out(variant->output_of_port.size());
  std::vector<std::unique_ptr<char[]>> unwanted;
  bool empty = !out.empty();
  for (size_t p = 0; p < out.size(); ++p) {
    const Port& port = program.outputs()[p];
    out[p].dims = port.shape.data();
    out[p].rank = port.shape.size();
    const size_t count = static_cast<size_t>(element_count(out[p].dims, out[p].rank));
    empty = empty && count == 0;
    const size_t at = variant->output_of_port[p];
    if (at == kNowhere) {
      out[p].dtype = port.dtype;
      unwanted.push_back(std::make_unique<char[]>(count * element_size(port.dtype)));
      out[p].data = unwanted.back().get();
      continue;
    }
    OrtValue* value = nullptr;
    const std::vector<int64_t>& shape = variant->output_dims[p];
    api.check(api.KernelContext_GetOutput(context, at, shape.data(), shape.size(), &value));
    api.check(api.GetTensorMutableData(value, &out[p].data));
    out[p].dtype = static_cast<DType>(outputs_[at].type.element);
  }
  if (empty) return;  // nothing to compute; ONNX Runtime has the (empty) outputs it wants

  SessionThreads threads(api, context, width_);
  PortEvents events = program.run(in.data(), in.size(), out.data(), out.size(), threads);
  events.nonfinite_outputs &= variant->wanted;
  if (events.saturated_inputs || events.nonfinite_outputs) report(*variant, events, context);
}

void Kernel::report(const Variant& variant, const PortEvents& events, const OrtKernelContext* context) const {
  if (events.saturated_inputs) stats_->saturated.fetch_add(1, std::memory_order_relaxed);
  if (events.nonfinite_outputs) stats_->nonfinite.fetch_add(1, std::memory_order_relaxed);
  const bool first = !warned_.exchange(true, std::memory_order_relaxed);
  if (on_overflow_ == OnOverflow::kIgnore || (on_overflow_ == OnOverflow::kWarn && !first)) return;

  const auto names = [](uint64_t bits, const std::vector<size_t>& of_port, const std::vector<FusedValue>& values) {
    std::string out;
    for (size_t p = 0; p < of_port.size() && p < 64; ++p) {
      if ((bits >> p & 1) == 0) continue;
      out += (out.empty() ? "'" : ", '") + values[of_port[p]].name + "'";
    }
    return out;
  };
  std::string text = "ANEForge region '" + name_ + "': ";
  if (events.nonfinite_outputs) {
    text += "output " + names(events.nonfinite_outputs, variant.output_of_port, outputs_) +
            " is infinite or NaN although every input was finite: a value left the range of fp16 (±65504) on the way. ";
  }
  if (events.saturated_inputs) {
    text += "Input " + names(events.saturated_inputs, variant.input_of_port, inputs_) +
            " holds finite values beyond ±65504, which the engine cuts off there. ";
  }
  text +=
      "Scale the data or the weights, or keep these nodes on the CPU; numerics=fp32 tells what the result would be. ";
  if (on_overflow_ == OnOverflow::kError) throw Error(Code::kFailed, text + "(on_overflow=error)");
  Logger::of_run(*api_, context)
      .log(kWarning, text + "Said once a region; on_overflow=error fails instead, =ignore is silent.");
}

}  // namespace aneforge::ep
