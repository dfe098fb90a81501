// aneforge._native: the functions of libaneforge_ep (core/c_api.h) for Python. Nothing is decided here.
//
// The library is opened by path, the same that ONNX Runtime is given: then both use one copy of it. It is never closed,
// and the hook's callable is never destroyed: sessions outlive the interpreter.
#include <dlfcn.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/c_api.h"

namespace py = pybind11;

namespace {

const AfApi* g_api = nullptr;

const AfApi& api() {
  if (!g_api) throw std::runtime_error("aneforge._native: the library is not open yet");
  return *g_api;
}

void open(const std::string& path) {
  if (g_api) return;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    throw py::import_error("cannot open " + path + ": " + (why ? why : "unknown error"));
  }
  const auto get = reinterpret_cast<decltype(&aneforge_get_api)>(dlsym(library, "aneforge_get_api"));
  const AfApi* found = get ? get(AF_ABI) : nullptr;
  if (!found) throw py::import_error(path + " is not of the version that this package was built with; install it anew");
  g_api = found;
}

// kInvalidArgument: ValueError. kUnsupported: NotImplementedError. Others: RuntimeError.
void check(AfStatus* status) {
  if (!status) return;
  const int32_t code = api().status_code(status);
  const std::string text = api().status_text(status);
  api().status_release(status);
  if (code == 1) throw py::value_error(text);
  PyErr_SetString(code == 2 ? PyExc_NotImplementedError : PyExc_RuntimeError, text.c_str());
  throw py::error_already_set();
}

// Element types -------------------------------------------------------------------------------------------------------

struct ElementType {
  int32_t onnx;
  char kind;
  int size;
};
constexpr ElementType kElementTypes[] = {{1, 'f', 4},  {2, 'u', 1},  {3, 'i', 1},  {4, 'u', 2},
                                         {5, 'i', 2},  {6, 'i', 4},  {7, 'i', 8},  {9, 'b', 1},
                                         {10, 'f', 2}, {11, 'f', 8}, {12, 'u', 4}, {13, 'u', 8}};

int32_t onnx_type(const py::dtype& type) {
  for (const ElementType& e : kElementTypes) {
    if (e.kind == type.kind() && e.size == type.itemsize()) return e.onnx;
  }
  throw py::type_error("arrays of " + py::str(type).cast<std::string>() + " do not cross to a program");
}

// Dense, aligned, in this machine's byte order. A copy only where the caller's array is not.
py::array dense(const py::array& given) {
  const py::dtype type = given.dtype();
  const char order = type.byteorder();
  const bool native = order == '=' || order == '|' || order == (PY_BIG_ENDIAN ? '>' : '<');
  py::object array = native ? py::object(given) : given.attr("astype")(type.attr("newbyteorder")("="));
  constexpr int kAligned = 0x0100;  // NPY_ARRAY_ALIGNED
  py::array out = py::array::ensure(array, py::array::c_style | kAligned);
  if (!out) throw py::error_already_set();
  return out;
}

// Programs ------------------------------------------------------------------------------------------------------------

class Executable {
 public:
  explicit Executable(AfExecutable* handle) : handle_(handle) {}
  ~Executable() { release(); }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  void release() {
    if (AfExecutable* handle = std::exchange(handle_, nullptr)) {
      const py::gil_scoped_release unlocked;  // gigabytes may be freed
      api().executable_release(handle);
    }
  }
  AfExecutable* get() const {
    if (!handle_) throw py::value_error("the program was released");
    return handle_;
  }
  uintptr_t address() const { return reinterpret_cast<uintptr_t>(get()); }
  std::string describe() const { return api().executable_describe(get()); }
  py::list inputs() const { return ports(api().executable_n_inputs, api().executable_input); }
  py::list outputs() const { return ports(api().executable_n_outputs, api().executable_output); }

  py::tuple run(const std::vector<py::array>& arrays, const std::vector<py::object>& out_types, size_t threads) const {
    AfExecutable* handle = get();
    const size_t n_out = api().executable_n_outputs(handle);
    if (out_types.size() != n_out) {
      throw py::value_error("the program has " + std::to_string(n_out) + " outputs, " +
                            std::to_string(out_types.size()) + " element types were given");
    }
    std::vector<py::array> held;  // the copies, where one was needed
    std::vector<std::vector<int64_t>> dims;
    std::vector<AfView> in, out;
    for (const py::array& given : arrays) {
      held.push_back(dense(given));
      const py::array& a = held.back();
      dims.emplace_back(a.shape(), a.shape() + a.ndim());
      in.push_back({onnx_type(a.dtype()), dims.back().size(), nullptr, const_cast<void*>(a.data())});
    }
    for (size_t i = 0; i < in.size(); ++i) in[i].dims = dims[i].data();
    py::list results;
    for (size_t i = 0; i < n_out; ++i) {
      const AfPort port = api().executable_output(handle, i);
      py::array result = output(out_types[i], std::vector<py::ssize_t>(port.dims, port.dims + port.rank));
      out.push_back({onnx_type(result.dtype()), port.rank, port.dims, result.mutable_data()});
      results.append(std::move(result));
    }
    AfEvents events{0, 0};
    AfStatus* status = nullptr;
    api().executable_retain(handle);  // release() may come from another thread meanwhile
    {
      const py::gil_scoped_release unlocked;
      status = api().executable_run(handle, in.data(), in.size(), out.data(), out.size(), threads, &events);
      api().executable_release(handle);
    }
    check(status);
    py::dict seen;
    seen["saturated_inputs"] = bits(events.saturated_inputs, in.size());
    seen["nonfinite_outputs"] = bits(events.nonfinite_outputs, out.size());
    return py::make_tuple(results, seen);
  }

 private:
  // A new array of an element type, or the array itself that is to be written to.
  static py::array output(const py::object& given, std::vector<py::ssize_t> shape) {
    if (!py::isinstance<py::array>(given)) return py::array(py::dtype::from_args(given), shape);
    py::array array = py::reinterpret_borrow<py::array>(given);
    if (!std::equal(shape.begin(), shape.end(), array.shape(), array.shape() + array.ndim())) {
      throw py::value_error("an output array has not the shape of its port");
    }
    if (!(array.flags() & py::array::c_style) || !array.writeable()) {
      throw py::value_error("an output array is contiguous and writable");
    }
    return array;
  }
  static py::list bits(uint64_t mask, size_t count) {
    py::list out;
    for (size_t i = 0; i < count && i < 64; ++i) {
      if (mask >> i & 1) out.append(i);
    }
    return out;
  }
  py::list ports(size_t (*count)(const AfExecutable*), AfPort (*at)(const AfExecutable*, size_t)) const {
    const AfExecutable* handle = get();
    py::list out;
    for (size_t i = 0; i < count(handle); ++i) {
      const AfPort port = at(handle, i);
      py::tuple shape(port.rank);
      for (size_t d = 0; d < port.rank; ++d) shape[d] = port.dims[d];
      out.append(py::make_tuple(port.name, port.dtype, shape));
    }
    return out;
  }

  AfExecutable* handle_;
};

std::unique_ptr<Executable> compile(const std::string& backend, const std::string& text, const py::buffer& blob,
                                    const std::map<std::string, std::string>& options) {
  std::vector<const char*> keys, values;
  for (const auto& option : options) {
    keys.push_back(option.first.c_str());
    values.push_back(option.second.c_str());
  }
  Py_buffer bytes{};
  if (PyObject_GetBuffer(blob.ptr(), &bytes, PyBUF_SIMPLE) != 0) throw py::error_already_set();
  const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> owner(&bytes, PyBuffer_Release);
  AfExecutable* handle = nullptr;
  AfStatus* status = nullptr;
  {
    const py::gil_scoped_release unlocked;
    status = api().compile(backend.c_str(), text.data(), text.size(), bytes.buf, static_cast<size_t>(bytes.len),
                           keys.data(), values.data(), keys.size(), &handle);
  }
  check(status);
  return std::make_unique<Executable>(handle);
}

// The capability hook -------------------------------------------------------------------------------------------------

py::object* g_hook = nullptr;  // leaked on purpose

bool interpreter_is_up() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

// One region of the hook's answer, with the memory that AfRegion points to.
struct OfferedRegion {
  std::string name;
  std::vector<size_t> nodes;
  AfExecutable* executable = nullptr;
  std::vector<std::string> inputs, outputs;
  std::vector<const char*> input_names, output_names;

  explicit OfferedRegion(const py::dict& from)
      : name(from["name"].cast<std::string>()),
        nodes(from["nodes"].cast<std::vector<size_t>>()),
        inputs(from["inputs"].cast<std::vector<std::string>>()),
        outputs(from["outputs"].cast<std::vector<std::string>>()) {
    const py::object program = from["executable"];
    if (py::isinstance<Executable>(program)) {
      executable = program.cast<const Executable&>().get();
    } else if (!program.is_none()) {
      executable = reinterpret_cast<AfExecutable*>(program.cast<uintptr_t>());  // Executable.address
    }
    for (const std::string& s : inputs) input_names.push_back(s.c_str());
    for (const std::string& s : outputs) output_names.push_back(s.c_str());
  }
  AfRegion view() const {
    return {name.c_str(),       nodes.data(),       nodes.size(),        executable,
            input_names.data(), input_names.size(), output_names.data(), output_names.size()};
  }
};

std::optional<std::string> text_of(const py::dict& from, const char* key) {
  if (!from.contains(key) || from[key].is_none()) return std::nullopt;
  return from[key].cast<std::string>();
}

void call_hook(const AfGraph& graph, void (*accept)(void*, const AfCapability*), void* context) {
  py::dict options;
  for (size_t i = 0; i < graph.n_options; ++i) options[graph.option_keys[i]] = graph.option_values[i];
  const py::object answer = (*g_hook)(graph.ep, graph.parent_op, graph.model_path,
                                      py::bytes(static_cast<const char*>(graph.model), graph.model_size), options);
  if (answer.is_none()) return;
  const auto from = answer.cast<py::dict>();
  std::vector<std::unique_ptr<OfferedRegion>> offered;
  std::vector<AfRegion> regions;
  if (from.contains("regions")) {
    for (const auto& r : from["regions"]) offered.push_back(std::make_unique<OfferedRegion>(r.cast<py::dict>()));
  }
  for (const auto& r : offered) regions.push_back(r->view());
  const auto error = text_of(from, "compile_error"), warning = text_of(from, "warning"),
             overflow = text_of(from, "on_overflow");
  AfCapability given{};
  given.regions = regions.data();
  given.n_regions = regions.size();
  given.compile_error = error ? error->c_str() : nullptr;
  given.warning = warning ? warning->c_str() : nullptr;
  given.on_overflow = overflow ? overflow->c_str() : nullptr;
  accept(context, &given);
}

AfStatus* capability(void*, const AfGraph* graph, void (*accept)(void*, const AfCapability*), void* context) noexcept {
  constexpr int32_t kFailed = 4;
  if (!interpreter_is_up() || !g_hook) return g_api->status_create(kFailed, "the Python interpreter is shutting down");
  try {
    const py::gil_scoped_acquire locked;
    try {
      call_hook(*graph, accept, context);
      return nullptr;
    } catch (const std::exception& e) {  // a Python exception too; its text needs the lock
      return g_api->status_create(kFailed, e.what());
    }
  } catch (...) {
    return g_api->status_create(kFailed, "the capability hook failed");
  }
}

void install(const py::object& hook) {
  if (!hook.is_none() && !PyCallable_Check(hook.ptr())) throw py::type_error("the hook must be callable, or None");
  if (!g_hook) g_hook = std::make_unique<py::object>().release();
  const AfHooks hooks{AF_ABI, nullptr, capability};
  if (hook.is_none()) check(api().install_hooks(nullptr));
  *g_hook = hook;
  if (!hook.is_none()) check(api().install_hooks(&hooks));
}

// Reports -------------------------------------------------------------------------------------------------------------

std::vector<uint64_t> live_eps() {
  std::vector<uint64_t> out(16);
  for (;;) {
    const size_t count = api().live_eps(out.data(), out.size());
    const bool all = count <= out.size();
    out.resize(count);
    if (all) return out;
  }
}

py::list ep_regions(uint64_t ep) {
  py::list out;
  api().ep_regions(
      ep,
      [](void* context, const AfRegionStats* r) {
        py::dict d;
        d["name"] = r->name;
        d["runs"] = r->runs;
        d["saturated"] = r->saturated;
        d["nonfinite"] = r->nonfinite;
        static_cast<py::list*>(context)->append(d);
      },
      &out);
  return out;
}

py::dict counters() {
  int64_t values[4] = {0, 0, 0, 0};
  api().counters(values);
  py::dict out;
  out["executables"] = values[0];
  out["eps"] = values[1];
  out["kernels"] = values[2];
  out["computes"] = values[3];
  return out;
}

py::array_t<uint16_t> to_half(const py::array_t<float, py::array::c_style | py::array::forcecast>& from) {
  py::array_t<uint16_t> out(std::vector<py::ssize_t>(from.shape(), from.shape() + from.ndim()));
  api().to_half(from.data(), out.mutable_data(), static_cast<size_t>(from.size()));
  return out;
}
py::array_t<float> from_half(const py::array_t<uint16_t, py::array::c_style | py::array::forcecast>& from) {
  py::array_t<float> out(std::vector<py::ssize_t>(from.shape(), from.shape() + from.ndim()));
  api().from_half(from.data(), out.mutable_data(), static_cast<size_t>(from.size()));
  return out;
}

}  // namespace

PYBIND11_MODULE(_native, m) {
  m.doc() = "The functions of libaneforge_ep. Errors are ValueError, NotImplementedError or RuntimeError.";
  m.def("open", &open, py::arg("path"),
        "Opens the library at this absolute path, once; every other function needs it.");
  m.def("version", [] { return api().version(); });
  m.def("compile", &compile, py::arg("backend"), py::arg("text"), py::arg("blob"), py::arg("options"),
        "Compiles a MIL program (text, and weight blob as a buffer) with a backend. Other threads run meanwhile.");
  m.def(
      "check_backend", [](const std::string& name) { check(api().backend_check(name.c_str())); }, py::arg("backend"),
      "Raises what keeps a backend from being used on this machine and in this process.");
  m.def("install", &install, py::arg("hook"),
        "Sets the capability hook, None for none: called as hook(ep, parent_op, model_path, model, options) on the "
        "thread that "
        "makes a session. See native/core/c_api.h (AfGraph, AfCapability) for what it is told and returns, as a dict.");
  m.def(
      "ep_of_token", [](const std::string& token) { return api().ep_of_token(token.c_str()); }, py::arg("token"),
      "Number of the provider instance that was sent this token as dynamic option aneforge.token; 0 if none.");
  m.def("live_eps", &live_eps, "Numbers of the live provider instances, oldest first.");
  m.def("ep_regions", &ep_regions, py::arg("ep"),
        "For each region that this instance compiled: name, runs, and runs that saw saturated inputs or non-finite "
        "outputs.");
  m.def("counters", &counters, "Live executables, eps and kernels; computes so far.");
  m.def("to_half", &to_half, py::arg("values"), "float32 -> float16 bits (uint16), round to nearest even.");
  m.def("from_half", &from_half, py::arg("bits"), "float16 bits (uint16) -> float32.");

  py::class_<Executable>(m, "Executable", "A compiled program.")
      .def_property_readonly("inputs", &Executable::inputs, "(name, ONNX element type, shape) of each port, in order.")
      .def_property_readonly("outputs", &Executable::outputs)
      .def_property_readonly("address", &Executable::address, "What a hook's answer refers to the program by.")
      .def("run", &Executable::run, py::arg("arrays"), py::arg("out_dtypes"), py::arg("threads") = 0,
           "Runs it on arrays in port order. Returns (new arrays of the given dtypes, events); where an array is given "
           "in the place of a dtype, that array is written to. events holds the positions of "
           "saturated_inputs and nonfinite_outputs. threads: 0 = all, 1 = the calling thread only. Other threads run "
           "meanwhile.")
      .def("describe", &Executable::describe, "One line: backend, instruction set, kernels, memory.")
      .def("release", &Executable::release,
           "Frees the program as soon as no session uses it; the object is of no use then.");
}
