#include "runtime/program.h"

#include <algorithm>
#include <cstring>

#include "core/backends.h"
#include "core/status.h"
#include "mil/reader.h"
#include "runtime/ports.h"
#include "runtime/slots.h"

namespace aneforge::runtime {
namespace {

constexpr uint64_t kEngineOnly = 0x4;  // CPU 1, GPU 2: what the engine does not take shall fail, not run elsewhere
constexpr size_t kMostWeights = 1'600'000'000;  // bytes of one program; 1.5 GB are known to load, 3.4 GB to fail

[[noreturn]] void unsupported(const std::string& what) { throw Error(Code::kUnsupported, "backend e5rt: " + what); }

Port port_of(const mil::Program& program, int32_t id, bool input) {
  const mil::Value& v = program.values[static_cast<size_t>(id)];
  const bool bytes = v.type.element == mil::Element::kUInt8 && input;
  if (v.type.element != mil::Element::kFp16 && !bytes)
    unsupported("port '" + std::string(v.name) + "' of type " + mil::name_of(v.type.element) +
                "; ports are fp16, and inputs may be uint8");
  return Port{std::string(v.name), bytes ? DType::kUInt8 : DType::kFloat16, v.type.shape};
}

size_t bytes_of(const Port& port) {
  return static_cast<size_t>(element_count(port.shape.data(), port.shape.size())) * element_size(port.dtype);
}

uint64_t bit(size_t i) { return uint64_t{1} << (i < 63 ? i : 63); }

std::string extents(const int64_t* dims, size_t rank) {
  std::string text = "[";
  for (size_t i = 0; i < rank; ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

template <class View>
void check(const char* kind, const std::vector<Port>& ports, const View* views) {
  for (size_t i = 0; i < ports.size(); ++i) {
    const Port& port = ports[i];
    const View& view = views[i];
    const std::string name = std::string(kind) + " " + std::to_string(i) + " ('" + port.name + "')";
    if (!std::equal(view.dims, view.dims + view.rank, port.shape.begin(), port.shape.end()))
      throw Error(Code::kInvalidArgument, name + " has shape " + extents(view.dims, view.rank) + ", not " +
                                              extents(port.shape.data(), port.shape.size()));
    if (!converts(view.dtype, port.dtype))
      throw Error(Code::kInvalidArgument,
                  name + ": " + mil_name(view.dtype) + " does not convert to " + mil_name(port.dtype));
    if (!view.data) throw Error(Code::kInvalidArgument, name + " has no data");
  }
}

std::shared_ptr<Executable> compile(const MilFile& file, const Options& options) {
  std::string root;
  for (const auto& [key, value] : options) {
    if (key == "folder")
      root = value;
    else
      throw Error(Code::kInvalidArgument, "backend e5rt: unknown option '" + key + "'; there is: folder");
  }
  return std::make_shared<EngineProgram>(file, root);
}

const BackendRegistration registration("e5rt", &compile, [] { Engine::get(); });

}  // namespace

EngineProgram::EngineProgram(const MilFile& file, const std::string& root) : engine_(Engine::get()) {
  const mil::Program program = mil::read(file);
  for (int32_t id : program.inputs) inputs_.push_back(port_of(program, id, true));
  for (int32_t id : program.outputs) outputs_.push_back(port_of(program, id, false));
  if (inputs_.empty() || outputs_.empty()) unsupported("a program without inputs or outputs");
  if (program.function != "main") unsupported("the function is called '" + program.function + "', not 'main'");
  if (file.blob_size > kMostWeights)
    unsupported("weights of " + std::to_string(file.blob_size) + " bytes; one program holds at most " +
                std::to_string(kMostWeights));
  folder_ = std::make_unique<Folder>(root, file);
  const std::lock_guard<std::mutex> lock(engine_.loading());
  compile();
  load();
  last_run_ = Slots::get().tick();  // the first run is likely to come soon
  Slots::get().add(this);
}

EngineProgram::~EngineProgram() {
  if (!Engine::ours()) return;  // Slots' lock may be held by a thread that this process does not have
  Slots::get().remove(this);
}

// Compiler, configuration and options are of no use once there is a library.
void EngineProgram::compile() {
  void* made = nullptr;
  Handle config, compiler, options;
  E5RT(engine_, e5_compiler_config_options_create, &made);
  E5RT_OWN(engine_, config, made, e5_compiler_config_options_release, "e5_compiler_config_options_create");
  E5RT(engine_, e5_compiler_config_options_set_cache_bundle_location, config.get(), folder_->cache().c_str());
  E5RT(engine_, e5_compiler_create_with_config, &(made = nullptr), config.get());
  E5RT_OWN(engine_, compiler, made, e5_compiler_release, "e5_compiler_create_with_config");
  E5RT(engine_, e5_compiler_options_create, &(made = nullptr));
  E5RT_OWN(engine_, options, made, e5_compiler_options_release, "e5_compiler_options_create");
  E5RT(engine_, e5_compiler_options_set_compute_device_types_mask, options.get(), kEngineOnly);
  E5RT(engine_, e5_compiler_options_set_force_recompilation, options.get(), 1);
  E5RT(engine_, e5_compiler_options_set_segmenter, options.get(), "graph");
  E5RT(engine_, e5_compiler_compile, compiler.get(), folder_->text().c_str(), options.get(), &(made = nullptr));
  E5RT_OWN(engine_, library_, made, program_library_release, "e5_compiler_compile");
  E5RT(engine_, program_library_retain_program_function, library_.get(), "main", &(made = nullptr));
  E5RT_OWN(engine_, function_, made, program_function_release, "program_library_retain_program_function");
}

void EngineProgram::load() const {
  Slots::get().make_room(this);
  void* made = nullptr;
  auto loaded = std::make_unique<Loaded>();
  E5RT(engine_, precompiled_compute_op_create_options_create_with_program_function, &made, function_.get());
  E5RT_OWN(engine_, loaded->options, made, precompiled_compute_op_create_options_release,
           "precompiled_compute_op_create_options_create_with_program_function");
  E5RT(engine_, precompiled_compute_op_create_options_set_operation_name, loaded->options.get(), "main");
  E5RT(engine_, precompiled_compute_op_create_options_set_allocate_intermediate_buffers, loaded->options.get(), 1);
  for (size_t room = 1;; room *= 2) {
    try {
      E5RT(engine_, execution_stream_operation_create_precompiled_compute_operation_with_options, &(made = nullptr),
           loaded->options.get());
      break;
    } catch (const Error&) {
      // Others in the process may hold programs of the 128, or memory: ours make room, more at each attempt because a
      // load that fails is slow. What the runtime says is the same for a program that never loads.
      if (Slots::get().unload(room, this) == 0) throw;
    }
  }
  E5RT_OWN(engine_, loaded->operation, made, execution_stream_operation_release,
           "execution_stream_operation_create_precompiled_compute_operation_with_options");
  for (const Port& p : inputs_) loaded->inputs.push_back(bind(p, true, *loaded));
  for (const Port& p : outputs_) loaded->outputs.push_back(bind(p, false, *loaded));
  E5RT(engine_, execution_stream_create, &(made = nullptr));
  E5RT_OWN(engine_, loaded->stream, made, execution_stream_release, "execution_stream_create");
  E5RT(engine_, execution_stream_encode_operation, loaded->stream.get(), loaded->operation.get());
  loaded_ = std::move(loaded);
}

BoundPort EngineProgram::bind(const Port& port, bool input, const Loaded& loaded) const {
  BoundPort bound;
  void* made = nullptr;
  if (input)
    E5RT(engine_, execution_stream_operation_retain_input_port, loaded.operation.get(), port.name.c_str(), &made);
  else
    E5RT(engine_, execution_stream_operation_retain_output_port, loaded.operation.get(), port.name.c_str(), &made);
  E5RT_OWN(engine_, bound.port, made, io_port_release, "execution_stream_operation_retain_port");
  const uint64_t bytes = (std::max<uint64_t>(bytes_of(port), 64) + 63) / 64 * 64;
  E5RT(engine_, buffer_object_alloc, &(made = nullptr), bytes, uint32_t{0});  // type 0: host memory, no padded rows
  E5RT_OWN(engine_, bound.buffer, made, buffer_object_release, "buffer_object_alloc");
  E5RT(engine_, buffer_object_get_data_ptr, bound.buffer.get(), &bound.data);
  if (!bound.data) throw Error(Code::kFailed, "e5rt_buffer_object_get_data_ptr succeeded and gave nothing");
  std::memset(bound.data, 0, bytes);
  E5RT(engine_, io_port_bind_buffer_object, bound.port.get(), bound.buffer.get());
  return bound;
}

void EngineProgram::close() {
  closed_ = true;
  loaded_.reset();
  function_.reset();
  library_.reset();
  folder_->remove();
}

struct EngineProgram::InUse {
  InUse(const EngineProgram& p, Use use) : p(p) { p.use_ = use; }
  ~InUse() {
    p.use_ = Use::kNone;
    if (p.wanted_.exchange(false)) p.loaded_.reset();
  }
  const EngineProgram& p;
};

PortEvents EngineProgram::run(const ConstTensorView* inputs, size_t n_inputs, const TensorView* outputs,
                              size_t n_outputs, Parallel& parallel) const {
  if (n_inputs != inputs_.size() || n_outputs != outputs_.size())
    throw Error(Code::kInvalidArgument, "the program takes " + std::to_string(inputs_.size()) + " inputs and gives " +
                                            std::to_string(outputs_.size()) + " outputs, not " +
                                            std::to_string(n_inputs) + " and " + std::to_string(n_outputs));
  check("input", inputs_, inputs);
  check("output", outputs_, outputs);
  Engine::check_process();

  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) throw Error(Code::kFailed, "the process is ending: its programs are off the engine already");
  const InUse in_use(*this, loaded_ ? Use::kRuns : Use::kLoads);
  if (!loaded_) {
    const std::lock_guard<std::mutex> loading(engine_.loading());
    load();
    use_ = Use::kRuns;
  }
  last_run_ = Slots::get().tick();
  PortEvents events;
  bool finite = true;
  for (size_t i = 0; i < n_inputs; ++i) {
    const PortSeen seen = to_port(inputs[i].dtype, inputs[i].data, element_count(inputs[i].dims, inputs[i].rank),
                                  inputs_[i].dtype, loaded_->inputs[i].data, parallel);
    if (seen.saturated) events.saturated_inputs |= bit(i);
    finite &= !seen.nonfinite;
  }
  E5RT(engine_, execution_stream_execute_sync, loaded_->stream.get());
  for (size_t i = 0; i < n_outputs; ++i) {
    const PortSeen seen = from_port(loaded_->outputs[i].data, element_count(outputs[i].dims, outputs[i].rank),
                                    outputs[i].dtype, outputs[i].data, parallel);
    if (seen.nonfinite && finite) events.nonfinite_outputs |= bit(i);
  }
  return events;
}

std::string EngineProgram::describe() const {
  return "e5rt: on the Neural Engine alone, " + std::to_string(inputs_.size()) + " inputs, " +
         std::to_string(outputs_.size()) + " outputs, at most " + std::to_string(Slots::kMost) + " programs loaded";
}

}  // namespace aneforge::runtime
