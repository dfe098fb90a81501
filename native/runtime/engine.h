// The engine's runtime in this process: opened once, never closed, and not to be used after a fork.
#pragma once
#include <mutex>
#include <string>

#include "core/status.h"
#include "runtime/symbols.h"

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
    int32_t status = 0;
    try {
      status = function(arguments...);
    } catch (...) {
      throw Error(Code::kFailed, std::string("e5rt_") + name + " threw an exception");
    }
    if (status != 0) fail(name, status);
  }

  const Symbols& api() const { return api_; }
  // One compilation or device load at a time in a process.
  std::mutex& loading() { return loading_; }

 private:
  explicit Engine(const std::string& path);
  [[noreturn]] void fail(const char* name, int32_t status) const;

  Symbols api_;
  std::mutex loading_;
};

// What a create, alloc or retain call gave: released once, with the object.
class Handle {
 public:
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  Handle(Handle&& other) noexcept : object_(other.object_), release_(other.release_) { other.object_ = nullptr; }
  Handle& operator=(Handle&&) = delete;
  ~Handle() { reset(); }

  void take(void* object, int32_t (*release)(void**), const char* name);
  void reset() noexcept;
  void* get() const { return object_; }

 private:
  void* object_ = nullptr;
  int32_t (*release_)(void**) = nullptr;
};

// E5RT(engine, name, arguments…) is a call of e5rt_name.
#define E5RT(engine, name, ...) (engine).call(#name, (engine).api().name, __VA_ARGS__)

}  // namespace aneforge::runtime
