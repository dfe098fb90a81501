#include "core/c_api.h"

#include <cstring>

#include "core/c_handles.h"
#include "core/ep_api.h"
#include "core/fp16.h"
#include "core/thread_pool.h"
#include "core/version.h"

namespace aneforge {
namespace {

std::atomic<int64_t> executables{0};

AfStatus& out_of_memory() noexcept {
  static AfStatus status{Code::kFailed,
                         std::string()};  // an empty string needs no memory; the text is given by status_text
  return status;
}

AfPort port_of(const std::vector<Port>& ports, size_t i) {
  if (i >= ports.size()) return AfPort{nullptr, 0, 0, nullptr};
  const Port& p = ports[i];
  return AfPort{p.name.c_str(), static_cast<int32_t>(p.dtype), p.shape.size(), p.shape.data()};
}

void require(bool condition, const char* what) {
  if (!condition) throw Error(Code::kInvalidArgument, what);
}

// The table -----------------------------------------------------------------------------------------------------------

const char* version() { return kVersion; }

int32_t status_code(const AfStatus* s) { return s ? static_cast<int32_t>(s->code) : 0; }
const char* status_text(const AfStatus* s) {
  if (!s) return "";
  return s == &out_of_memory() ? "out of memory" : s->text.c_str();
}
void status_release(AfStatus* s) { release_status(s); }
AfStatus* status_create(int32_t code, const char* text) {
  const bool known =
      code >= static_cast<int32_t>(Code::kInvalidArgument) && code <= static_cast<int32_t>(Code::kFailed);
  try {
    return make_status(known ? static_cast<Code>(code) : Code::kFailed, text ? text : "");
  } catch (...) {
    return current_exception_status();
  }
}

AfStatus* compile(const char* backend, const char* text, size_t text_size, const void* blob, size_t blob_size,
                  const char* const* keys, const char* const* values, size_t n_options, AfExecutable** out) {
  return guarded([&] {
    require(out != nullptr, "compile: no place for the result");
    *out = nullptr;
    require(backend != nullptr, "compile: no backend named");
    require(text != nullptr || text_size == 0, "compile: no program text");
    require(blob != nullptr || blob_size == 0, "compile: no weight blob");
    Options options;
    for (size_t i = 0; i < n_options; ++i) {
      require(keys && values && keys[i] && values[i], "compile: an option without key or value");
      options.emplace_back(keys[i], values[i]);
    }
    MilFile file;
    file.text = text;
    file.text_size = text_size;
    file.blob = static_cast<const uint8_t*>(blob);
    file.blob_size = blob_size;
    *out = wrap_executable(find_backend(backend)(file, options));
  });
}

void executable_retain(AfExecutable* e) { retain_executable(e); }
void executable_release(AfExecutable* e) { release_executable(e); }
size_t executable_n_inputs(const AfExecutable* e) { return e ? e->executable->inputs().size() : 0; }
size_t executable_n_outputs(const AfExecutable* e) { return e ? e->executable->outputs().size() : 0; }
AfPort executable_input(const AfExecutable* e, size_t i) {
  return e ? port_of(e->executable->inputs(), i) : AfPort{nullptr, 0, 0, nullptr};
}
AfPort executable_output(const AfExecutable* e, size_t i) {
  return e ? port_of(e->executable->outputs(), i) : AfPort{nullptr, 0, 0, nullptr};
}
const char* executable_describe(const AfExecutable* e) { return e ? e->description.c_str() : ""; }

AfStatus* executable_run(const AfExecutable* e, const AfView* inputs, size_t n_inputs, const AfView* outputs,
                         size_t n_outputs, size_t threads, AfEvents* events) {
  return guarded([&] {
    require(e != nullptr, "run: no executable");
    require(inputs || n_inputs == 0, "run: no inputs given");
    require(outputs || n_outputs == 0, "run: no outputs given");
    std::vector<ConstTensorView> in(n_inputs);
    std::vector<TensorView> out(n_outputs);
    for (size_t i = 0; i < n_inputs; ++i) {
      require(inputs[i].dims || inputs[i].rank == 0, "run: an input without dimensions");
      in[i] = ConstTensorView{static_cast<DType>(inputs[i].dtype), inputs[i].dims, inputs[i].rank, inputs[i].data};
    }
    for (size_t i = 0; i < n_outputs; ++i) {
      require(outputs[i].dims || outputs[i].rank == 0, "run: an output without dimensions");
      out[i] = TensorView{static_cast<DType>(outputs[i].dtype), outputs[i].dims, outputs[i].rank, outputs[i].data};
    }
    Serial serial;
    ThreadPool pool(threads);
    Parallel& parallel = threads == 1 ? static_cast<Parallel&>(serial) : pool;
    const PortEvents seen = e->executable->run(in.data(), n_inputs, out.data(), n_outputs, parallel);
    if (events) {
      events->saturated_inputs = seen.saturated_inputs;
      events->nonfinite_outputs = seen.nonfinite_outputs;
    }
  });
}

AfStatus* install_hooks(const AfHooks* hooks) {
  return guarded([&] { ep::install_hooks(hooks); });
}
uint64_t ep_of_token(const char* token) {
  uint64_t found = 0;
  release_status(guarded([&] { found = token ? ep::ep_of_token(token) : 0; }));
  return found;
}
size_t live_eps(uint64_t* out, size_t capacity) {
  size_t count = 0;
  release_status(guarded([&] { count = ep::live_eps(out, out ? capacity : 0); }));
  return count;
}
void ep_regions(uint64_t instance, void (*each)(void* context, const AfRegionStats*), void* context) {
  release_status(guarded([&] {
    if (each) ep::ep_regions(instance, each, context);
  }));
}
void counters(int64_t out[4]) {
  if (!out) return;
  int64_t of_ep[3] = {0, 0, 0};
  release_status(guarded([&] { ep::counters(of_ep); }));
  out[0] = live_executables();
  std::memcpy(out + 1, of_ep, sizeof of_ep);
}

void to_half(const float* from, uint16_t* to, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] = float_to_half(from[i]);
}
void from_half(const uint16_t* from, float* to, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] = half_to_float(from[i]);
}

AfStatus* backend_check(const char* backend) {
  return guarded([&] {
    require(backend != nullptr, "check: no backend named");
    check_backend(backend);
  });
}

const AfApi api = {
    AF_ABI,
    version,
    status_code,
    status_text,
    status_release,
    status_create,
    compile,
    executable_retain,
    executable_release,
    executable_n_inputs,
    executable_n_outputs,
    executable_input,
    executable_output,
    executable_describe,
    executable_run,
    install_hooks,
    ep_of_token,
    live_eps,
    ep_regions,
    counters,
    to_half,
    from_half,
    backend_check,
};

}  // namespace

int64_t live_executables() noexcept { return executables.load(std::memory_order_relaxed); }

AfStatus* make_status(Code code, const std::string& text) noexcept {
  try {
    return new AfStatus{code, text};
  } catch (...) {
    return &out_of_memory();
  }
}

AfStatus* current_exception_status() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return make_status(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    return &out_of_memory();
  } catch (const std::exception& e) {
    try {
      return make_status(Code::kFailed, e.what());
    } catch (...) {
      return &out_of_memory();
    }
  } catch (...) {
    return make_status(Code::kFailed, "unknown error");  // short enough to need no memory
  }
}

void release_status(AfStatus* s) noexcept {
  if (s && s != &out_of_memory()) delete s;
}

void throw_status(AfStatus* s) {
  if (!s) return;
  const Error error(s->code, status_text(s));
  release_status(s);
  throw error;
}

AfExecutable* wrap_executable(std::shared_ptr<const Executable> executable) {
  auto handle = std::make_unique<AfExecutable>();
  handle->description = executable->describe();
  handle->executable = std::move(executable);
  executables.fetch_add(1, std::memory_order_relaxed);
  return handle.release();
}

void retain_executable(AfExecutable* e) noexcept {
  if (e) e->references.fetch_add(1, std::memory_order_relaxed);
}

void release_executable(AfExecutable* e) noexcept {
  if (e && e->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    executables.fetch_sub(1, std::memory_order_relaxed);
    delete e;
  }
}

}  // namespace aneforge

extern "C" const AfApi* aneforge_get_api(uint32_t abi) { return abi == AF_ABI ? &aneforge::api : nullptr; }
