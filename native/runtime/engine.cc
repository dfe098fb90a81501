#include "runtime/engine.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace aneforge::runtime {
namespace {

// In dyld's shared cache: there is no file of this name on disk.
constexpr const char* kLibrary = "/System/Library/PrivateFrameworks/Espresso.framework/Espresso";

std::atomic<pid_t> opened_by{0};

void* find(void* library, const std::string& name) {
  void* found = dlsym(library, name.c_str());
  return found ? found : dlsym(library, ("_" + name).c_str());
}

}  // namespace

bool Engine::ours() noexcept {
  const pid_t owner = opened_by.load();
  return owner == 0 || owner == getpid();
}

void Engine::check_process() {
  if (!ours())
    throw Error(Code::kFailed,
                "this process was forked from one that uses the engine, and the engine's runtime does not survive a "
                "fork; start processes with the method 'spawn'");
}

Engine& Engine::get() {
  check_process();
  static std::mutex opening;
  static Engine* engine = nullptr;  // lives as long as the process: the library is never closed
  static std::string opened;
  const std::lock_guard<std::mutex> lock(opening);
  const char* named = std::getenv("ANEFORGE_E5RT_LIBRARY");
  const std::string path = named && *named ? named : kLibrary;
  if (!engine) {
    engine = new Engine(path);
    opened = path;
    opened_by.store(getpid());
  }
  if (path != opened)
    throw Error(Code::kFailed,
                "the engine's runtime is open from " + opened + " in this process, so " + path + " does not open");
  return *engine;
}

Engine::Engine(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    throw Error(Code::kFailed, "the engine's runtime does not open: " + std::string(why ? why : path.c_str()));
  }
  std::string missing;
#define X(name, arguments)                                                         \
  api_.name = reinterpret_cast<decltype(api_.name)>(find(library, "e5rt_" #name)); \
  if (!api_.name) missing += (missing.empty() ? "e5rt_" : ", e5rt_") + std::string(#name);
  ANEFORGE_E5RT_REQUIRED(X)
#undef X
  if (!missing.empty())
    throw Error(Code::kFailed, "the engine's runtime " + path + " is of another version: it lacks " + missing);
  api_.get_last_error_message =
      reinterpret_cast<decltype(api_.get_last_error_message)>(find(library, "e5rt_get_last_error_message"));
  trace_ = Trace::open(path);
}

// The text is the thread's own and that of the last call: fetched at once, and copied.
void Engine::fail(const char* name, int32_t status, bool threw, const Trace::Call& traced) const {
  const char* found = !threw && api_.get_last_error_message ? api_.get_last_error_message() : nullptr;
  const std::string why = found ? found : "";
  if (trace_) trace_->end(traced, status, threw, why);
  std::string text = std::string("e5rt_") + name;
  if (threw)
    text += " threw an exception";
  else
    text += " failed with status " + std::to_string(status) + (why.empty() ? "" : ": " + why);
  throw Error(Code::kFailed, text);
}

void Handle::take(const Engine& engine, void* object, int32_t (*release)(void**), const char* name,
                  const char* made_by) {
  if (!object) throw Error(Code::kFailed, std::string("e5rt_") + made_by + " succeeded and gave nothing");
  reset();
  engine_ = &engine;
  object_ = object;
  release_ = release;
  name_ = name;
}

void Handle::reset() noexcept {
  void* object = object_;
  object_ = nullptr;
  if (!object || !Engine::ours()) return;
  try {
    engine_->call(name_, release_, &object);  // may null it, or not
  } catch (...) {                             // a handle that cannot be released is lost; nobody can do more
  }
}

}  // namespace aneforge::runtime
