// A stand-in for the engine's runtime: the functions that it exports, strict about how they are called. For tests only;
// shares nothing with the product, which it is here to judge. It is given paths and port buffers, and computes with
// worker.py beside it (a process of its own: an independent reader and numpy).
//
// Every misuse is counted, kept as a text, and answered with an error. The control functions at the end are for tests.
// Environment: STANDIN_PYTHON, the interpreter; STANDIN_TESTS, the folder that worker.py imports from;
// STANDIN_FAMILY, the chip's: A13 to A16; STANDIN_FAULT, what goes wrong in this process:
//
//   STANDIN_FAULT="<call without e5rt_>=<what>[@n][;...]"     "e5_compiler_compile=hang;execution_stream_create=fail@2"
//
//   fail           returns 7 with a text
//   throw          a C++ exception comes through the C frame (execution_stream_release does so after a misuse)
//   crash, abort   the process ends by SIGSEGV or SIGABRT, whatever handlers it has
//   hang           never returns
//   truncate_text, truncate_blob (e5_compiler_compile alone), or truncate_text:0.7
//                  the compiler sees a copy of model.mil or weights.bin of which only that part is there (half)
//
// @n is the n-th call of that function in the process (where it is set later: since then), without it every one. What
// cannot be read ends the process with 70.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

#include "objects.h"
#include "state.h"
#include "worker.h"

using namespace standin;

namespace {

const PortType* port_type(Object* operation, const std::string& name, bool input) {
  for (const PortType& p : input ? operation->inputs : operation->outputs)
    if (p.name == name) return &p;
  return nullptr;
}

int32_t retain_port(const char* call, void* operation, const char* name, void** out, bool input) {
  Object* o = find(operation, kOperation);
  if (!o || !name || !out) return misuse(std::string(call) + ": (operation, name, out)");
  if (o->encoded) return misuse(std::string(call) + ": the operation is encoded");
  if (!port_type(o, name, input)) return refuse(1, std::string("no port ") + name);
  Object* p = make(kPort, o);
  p->text = name;
  p->input = input;
  *out = p;
  return 0;
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))
#define ENTER(...)                                               \
  if (const int32_t failed = arrive(__VA_ARGS__)) return failed; \
  const std::lock_guard<std::recursive_mutex> held(lock);
#define RELEASE(name, kind)           \
  API int32_t e5rt_##name(void** p) { \
    ENTER(#name, p)                   \
    return release(#name, p, kind);   \
  }
#define CREATE(name, kind)                                            \
  API int32_t e5rt_##name(void** out) {                               \
    ENTER(#name)                                                      \
    if (!out) return misuse(#name ": takes the place of the handle"); \
    *out = make(kind, nullptr);                                       \
    return 0;                                                         \
  }
#define SETTER(name, kind, argument, right)                                                      \
  API int32_t e5rt_##name(void* p, argument v) {                                                 \
    ENTER(#name)                                                                                 \
    Object* o = find(p, kind);                                                                   \
    if (!o) return misuse(#name ": the first argument is no live " + std::string(kNames[kind])); \
    if (!(right)) return misuse(#name ": a wrong value");                                        \
    o->done.insert(#name);                                                                       \
    return 0;                                                                                    \
  }

API const char* e5rt_get_last_error_message() { return last_error.c_str(); }

CREATE(e5_compiler_config_options_create, kConfig)
API int32_t e5rt_e5_compiler_config_options_set_cache_bundle_location(void* config, const char* folder) {
  ENTER("e5_compiler_config_options_set_cache_bundle_location")
  Object* o = find(config, kConfig);
  struct stat seen;
  if (!o || !folder || stat(folder, &seen) != 0 || !S_ISDIR(seen.st_mode) || access(folder, W_OK) != 0)
    return misuse("set_cache_bundle_location: (config, existing writable folder)");
  o->text = folder;
  return 0;
}
RELEASE(e5_compiler_config_options_release, kConfig)

API int32_t e5rt_e5_compiler_create_with_config(void** out, void* config) {
  ENTER("e5_compiler_create_with_config")
  Object* o = find(config, kConfig);
  if (!o || !out || o->text.empty()) return misuse("compiler_create_with_config: (out, config with a cache folder)");
  Object* made = make(kCompiler, nullptr);
  made->text = o->text;
  *out = made;
  return 0;
}
RELEASE(e5_compiler_release, kCompiler)

CREATE(e5_compiler_options_create, kOptions)
SETTER(e5_compiler_options_set_compute_device_types_mask, kOptions, uint64_t, v == 0x4)
SETTER(e5_compiler_options_set_force_recompilation, kOptions, int, v == 0 || v == 1)
SETTER(e5_compiler_options_set_segmenter, kOptions, const char*, v&& std::strcmp(v, "graph") == 0)
RELEASE(e5_compiler_options_release, kOptions)

API int32_t e5rt_e5_compiler_compile(void* compiler, const char* path, void* options, void** out) {
  Fault cut;
  std::string folder;
  {
    ENTER("e5_compiler_compile", nullptr, &cut)
    Object* made = find(compiler, kCompiler);
    Object* with = find(options, kOptions);
    if (!made || !path || !with || !out) return misuse("compile: (compiler, path, options, out)");
    for (const char* needed :
         {"e5_compiler_options_set_compute_device_types_mask", "e5_compiler_options_set_segmenter"})
      if (!with->done.count(needed)) return misuse(std::string("compile: without ") + needed);
    const std::string file = path;
    if (file.size() < 4 || file.substr(file.size() - 4) != ".mil") return misuse("compile: the path is no .mil file");
    if (compiling) return misuse("compile: two at a time");
    compiling = true;
    folder = made->text;
  }
  struct stat weights{};
  const std::string blob = std::string(path).substr(0, std::string(path).rfind('/') + 1) + "weights.bin";
  const bool large = stat(blob.c_str(), &weights) == 0 && weights.st_size > kMostWeights;
  std::string request = path, answer = "weights of " + std::to_string(weights.st_size) + " bytes.";
  if (!cut.what.empty()) request += "\n" + cut.what + " " + std::to_string(cut.part);
  const uint32_t status = large ? 1 : ask(1, request, &answer);  // not under the lock: a second one is seen
  const std::lock_guard<std::recursive_mutex> held(lock);
  compiling = false;
  if (status) return refuse(11, answer + " ANECCompile() FAILED (11)");
  if (!find(compiler, kCompiler) || !find(options, kOptions))
    return misuse("compile: what it uses is released meanwhile");
  Object* library = make(kLibrary, nullptr);
  std::istringstream lines(answer);
  lines >> library->program;
  for (std::string role, name; lines >> role >> name;) {
    PortType p{name, 0};
    lines >> p.bytes;
    (role == "in" ? library->inputs : library->outputs).push_back(p);
  }
  // What a real one leaves in its folder.
  if (FILE* f = std::fopen((folder + "/model.anehash").c_str(), "w")) std::fclose(f);
  *out = library;
  return 0;
}

API int32_t e5rt_program_library_retain_program_function(void* library, const char* name, void** out) {
  ENTER("program_library_retain_program_function")
  Object* o = find(library, kLibrary);
  if (!o || !name || !out) return misuse("retain_program_function: (library, name, out)");
  if (std::strcmp(name, "main") != 0) return refuse(1, std::string("no function ") + name);
  *out = make(kFunction, o);
  return 0;
}
API int32_t e5rt_program_library_release(void** p) {
  ENTER("program_library_release", p)
  Object* o = p ? find(*p, kLibrary) : nullptr;
  if (o && has_children(o, kFunction)) return misuse("program_library_release: before its function");
  std::string ignored;
  if (o) ask(3, word_of(o->program), &ignored);
  return release("program_library_release", p, kLibrary);
}
API int32_t e5rt_program_function_release(void** p) {
  ENTER("program_function_release", p)
  Object* o = p ? find(*p, kFunction) : nullptr;
  if (o && has_children(o, kOpOptions)) return misuse("program_function_release: before its options");
  return release("program_function_release", p, kFunction);
}
API int32_t e5rt_program_function_load_for_execution(void*) {
  ENTER("program_function_load_for_execution")
  return misuse("ProgramFunction LoadForExecution() is no longer supported. Switch to ExecutionStreamOperation.");
}

API int32_t e5rt_precompiled_compute_op_create_options_create_with_program_function(void** out, void* function) {
  ENTER("precompiled_compute_op_create_options_create_with_program_function")
  Object* o = find(function, kFunction);
  if (!o || !out) return misuse("Cannot provide program function as nullptr. @ Create");
  *out = make(kOpOptions, o);
  return 0;
}
SETTER(precompiled_compute_op_create_options_set_operation_name, kOpOptions, const char*, v && *v)
SETTER(precompiled_compute_op_create_options_set_allocate_intermediate_buffers, kOpOptions, int, v == 1)
API int32_t e5rt_precompiled_compute_op_create_options_release(void** p) {
  ENTER("precompiled_compute_op_create_options_release", p)
  Object* o = p ? find(*p, kOpOptions) : nullptr;
  if (o && has_children(o, kOperation)) return misuse("op options released before their operation");
  return release("precompiled_compute_op_create_options_release", p, kOpOptions);
}

API int32_t e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options(void** out, void* with) {
  ENTER("execution_stream_operation_create_precompiled_compute_operation_with_options")
  Object* o = find(with, kOpOptions);
  if (!o || !out) return misuse("create operation: (out, options)");
  if (o->done.size() != 2) return misuse("create operation: options without a name, or without intermediate buffers");
  uint64_t loaded = 0;
  for (Object* other : live) loaded += other->kind == kOperation ? 1 : 0;
  if (loaded >= most_programs)
    return refuse(13,
                  "ANE model load has failed for on-device compiled macho. Must re-compile the E5 bundle. @ "
                  "GetANEFModel (13)");
  Object* made = make(kOperation, o);
  Object* library = o->parent->parent;
  made->program = library->program;
  made->inputs = library->inputs;
  made->outputs = library->outputs;
  *out = made;
  return 0;
}
API int32_t e5rt_execution_stream_operation_retain_input_port(void* operation, const char* name, void** out) {
  ENTER("execution_stream_operation_retain_input_port")
  return retain_port("retain_input_port", operation, name, out, true);
}
API int32_t e5rt_execution_stream_operation_retain_output_port(void* operation, const char* name, void** out) {
  ENTER("execution_stream_operation_retain_output_port")
  return retain_port("retain_output_port", operation, name, out, false);
}
API int32_t e5rt_execution_stream_operation_prepare_op_for_encode(void*) {
  ENTER("execution_stream_operation_prepare_op_for_encode")
  return misuse("prepare_op_for_encode: the next encode fails");
}
API int32_t e5rt_execution_stream_operation_release(void** p) {
  ENTER("execution_stream_operation_release", p)
  Object* o = p ? find(*p, kOperation) : nullptr;
  if (o && o->encoded) return misuse("operation released before the stream that it is encoded on");
  return release("execution_stream_operation_release", p, kOperation);
}

API int32_t e5rt_io_port_bind_buffer_object(void* port, void* buffer) {
  ENTER("io_port_bind_buffer_object")
  Object* p = find(port, kPort);
  Object* b = find(buffer, kBuffer);
  if (!p || !b) return misuse("bind: (port, buffer)");
  Object* operation = find(p->parent, kOperation);
  if (!operation || operation->encoded) return misuse("bind: the operation is gone, or encoded");
  if (bytes_of(*b) < port_type(operation, p->text, p->input)->bytes) return misuse("bind: the buffer is too small");
  if (operation->bound.count(p->text)) return misuse("bind: twice");
  for (Object* other : live)
    if (other->kind == kOperation && !other->lost)
      for (const auto& bound : other->bound)
        if (bound.second == b) return misuse("bind: the buffer is another port's");
  operation->bound[p->text] = b;
  return 0;
}
RELEASE(io_port_release, kPort)

API int32_t e5rt_buffer_object_alloc(void** out, uint64_t bytes, uint32_t type) {
  ENTER("buffer_object_alloc")
  if (type > 2) return refuse(5, "Invalid BufferType @ AllocMemory");
  if (!out || type != 0 || bytes == 0 || bytes % 64 != 0 || bytes > (uint64_t{1} << 34))
    return misuse("alloc: (out, bytes in whole rows of 64, type 0)");
  Object* o = make(kBuffer, nullptr);
  o->memory.assign(bytes + kFence, kUnwritten);  // not zeros: what the caller does not clear shows
  *out = o;
  return 0;
}
API int32_t e5rt_buffer_object_get_data_ptr(void* buffer, void** out) {
  ENTER("buffer_object_get_data_ptr")
  Object* o = find(buffer, kBuffer);
  if (!o || !out) return misuse("get_data_ptr: (buffer, out)");
  *out = o->memory.data();
  return 0;
}
API int32_t e5rt_buffer_object_release(void** p) {
  ENTER("buffer_object_release", p)
  Object* o = p ? find(*p, kBuffer) : nullptr;
  if (o && overrun(*o)) return misuse("buffer_object_release: something is written behind the buffer");
  for (Object* other : live) {
    if (!o || other->kind != kOperation || other->lost) continue;
    for (auto bound = other->bound.begin(); bound != other->bound.end();) {
      if (bound->second == o && other->encoded) return misuse("buffer released while an encoded operation uses it");
      bound = bound->second == o ? other->bound.erase(bound) : std::next(bound);
    }
  }
  return release("buffer_object_release", p, kBuffer);
}

CREATE(execution_stream_create, kStream)
API int32_t e5rt_execution_stream_encode_operation(void* stream, void* operation) {
  ENTER("execution_stream_encode_operation")
  Object* s = find(stream, kStream);
  Object* o = find(operation, kOperation);
  if (!s || !o) return misuse("encode: (stream, operation)");
  if (s->encoded || o->encoded) return misuse("encode: twice");
  for (const auto* ports : {&o->inputs, &o->outputs})
    for (const PortType& p : *ports)
      if (!o->bound.count(p.name)) return misuse("encode: port " + p.name + " is not bound");
  s->encoded = o;
  o->encoded = s;
  return 0;
}
API int32_t e5rt_execution_stream_execute_sync(void* stream) {
  if (idle.load(std::memory_order_relaxed)) return 0;
  std::string request, answer;
  {
    ENTER("execution_stream_execute_sync")
    Object* s = find(stream, kStream);
    if (!s || !s->encoded) return misuse("execute: a live stream with an encoded operation");
    if (s->busy) return misuse("execute: two at a time on one stream");
    Object* o = s->encoded;
    for (const auto& bound : o->bound)
      if (overrun(*bound.second)) return misuse("execute: something is written behind the buffer of " + bound.first);
    if (!computing) return 0;
    s->busy = true;
    request = word_of(o->program);
    for (const PortType& p : o->inputs) request.append(o->bound[p.name]->memory.data(), p.bytes);
  }
  const uint32_t status = ask(2, request, &answer);  // not under the lock: a second one is seen
  const std::lock_guard<std::recursive_mutex> held(lock);
  Object* s = find(stream, kStream);
  if (!s) return misuse("execute: the stream is gone");
  s->busy = false;
  if (status) return refuse(3, answer);
  size_t at = 0;
  for (const PortType& p : s->encoded->outputs) {
    std::memcpy(s->encoded->bound[p.name]->memory.data(), answer.data() + at, p.bytes);
    at += p.bytes;
  }
  return 0;
}
API int32_t e5rt_execution_stream_release(void** p) {
  ENTER("execution_stream_release", p)
  Object* o = p ? find(*p, kStream) : nullptr;
  if (o && o->busy) return misuse("stream released while it runs");
  if (o && o->encoded) o->encoded->encoded = nullptr;
  return release("execution_stream_release", p, kStream);
}

// Control -------------------------------------------------------------------------------------------------------------

API uint64_t standin_live() {
  const std::lock_guard<std::recursive_mutex> held(lock);
  return live.size();
}
API uint64_t standin_loaded() {
  const std::lock_guard<std::recursive_mutex> held(lock);
  uint64_t n = 0;
  for (Object* o : live) n += o->kind == kOperation ? 1 : 0;
  return n;
}
// Calls of one function ("" all) since the last reset.
API uint64_t standin_calls(const char* name) {
  const std::lock_guard<std::recursive_mutex> held(lock);
  uint64_t n = 0;
  for (const auto& c : calls) n += !*name || c.first == name ? c.second : 0;
  return n;
}
API uint64_t standin_misuses() { return misuses; }
API const char* standin_misuse_text() { return misuse_text.c_str(); }
// Handles among the live ones whose release failed.
API uint64_t standin_lost() {
  const std::lock_guard<std::recursive_mutex> held(lock);
  uint64_t n = 0;
  for (Object* o : live) n += o->lost ? 1 : 0;
  return n;
}
// One order as in STANDIN_FAULT; the n-th call counts from now on.
API void standin_fault(const char* text) {
  const std::lock_guard<std::recursive_mutex> held(lock);
  faults.ask(text);
}
API void standin_compute(int on) { computing = on != 0; }
API void standin_idle(int on) { idle = on != 0; }
API void standin_most_programs(uint64_t n) { most_programs = n; }
// All handles, as if there had been none.
API void standin_forget() {
  const std::lock_guard<std::recursive_mutex> held(lock);
  for (Object* o : live) delete o;
  live.clear();
}
API void standin_reset() {
  const std::lock_guard<std::recursive_mutex> held(lock);
  calls.clear();
  faults.clear();
  for (auto o = live.begin(); o != live.end();) {
    if (!(*o)->lost) {
      ++o;
      continue;
    }
    delete *o;
    o = live.erase(o);
  }
  misuses = 0;
  misuse_text.clear();
  computing = true;
  idle = false;
  most_programs = 128;
}
