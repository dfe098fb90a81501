// The engine's runtime in this process: opened once, never closed, and not to be used after a fork.
#pragma once
#include <memory>
#include <mutex>
#include <string>

#include "core/status.h"
#include "runtime/symbols.h"
#include "runtime/trace.h"

namespace aneforge::runtime {

class Engine {
 public:
  // Opens the library at the first call: that of macOS, or what the environment variable ANEFORGE_E5RT_LIBRARY names.
  // Throws Error{kFailed}: it does not open, lacks a function, or this process was forked from one that uses it.
  static Engine& get();
  // Whether this process is the one that opened the library. In a forked child its handles are touched no more: not
  // even to release them.
  static bool ours() noexcept;
  // Throws what get() throws in a forked child.
  static void check_process();

  // Calls a function of the table and turns a nonzero status, or an exception that comes through the C frame, into an
  // Error{kFailed} with the library's own text.
  template <class... Parameters, class... Arguments>
  void call(const char* name, int32_t (*function)(Parameters...), Arguments... arguments) const {
    Trace::Call traced;
    if (trace_) traced = trace_->begin(name, {Trace::Argument(arguments)...});
    int32_t status = 0;
    bool threw = false;
    try {
      status = function(arguments...);
    } catch (...) {
      threw = true;
    }
    if (threw || status != 0) fail(name, status, threw, traced);
    if (trace_) trace_->end(traced, 0, false, {});
  }

  const Symbols& api() const { return api_; }
  // One compilation or device load at a time in a process.
  std::mutex& loading() { return loading_; }

 private:
  explicit Engine(const std::string& path);
  [[noreturn]] void fail(const char* name, int32_t status, bool threw, const Trace::Call& traced) const;

  Symbols api_;
  std::unique_ptr<Trace> trace_;  // null: nobody asked for one
  std::mutex loading_;
};

// What a create, alloc or retain call gave: released once, with the object.
class Handle {
 public:
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  Handle(Handle&& other) noexcept
      : engine_(other.engine_), object_(other.object_), release_(other.release_), name_(other.name_) {
    other.object_ = nullptr;
  }
  Handle& operator=(Handle&&) = delete;
  ~Handle() { reset(); }

  // `release` is called `name`. Throws if there is no object: what `made_by` succeeded in is then nothing.
  void take(const Engine& engine, void* object, int32_t (*release)(void**), const char* name, const char* made_by);
  void reset() noexcept;
  void* get() const { return object_; }

 private:
  const Engine* engine_ = nullptr;
  void* object_ = nullptr;
  int32_t (*release_)(void**) = nullptr;
  const char* name_ = nullptr;
};

// E5RT(engine, name, arguments…) is a call of e5rt_name.
#define E5RT(engine, name, ...) (engine).call(#name, (engine).api().name, __VA_ARGS__)
// E5RT_OWN(engine, handle, object, name, "maker"): the handle has the object, which e5rt_name releases.
#define E5RT_OWN(engine, handle, object, name, made_by) \
  (handle).take(engine, object, (engine).api().name, #name, made_by)

}  // namespace aneforge::runtime
