// Objective-C from plain C++: objects are sent messages through the functions that the runtime library finds for them,
// so that nothing here needs a Mac to be compiled, and nothing of Apple's is linked.
#pragma once
#include <string>
#include <utility>

#include "core/status.h"

namespace aneforge::coreml {

using Id = void*;  // an object, or a class

// The runtime (libobjc) and the frameworks whose classes are asked for by name. Opened once, never closed.
class Runtime {
 public:
  // Opens them at the first call: those of macOS, or, for all of it, the library that ANEFORGE_COREML_LIBRARY names.
  // Throws Error{kFailed}.
  static const Runtime& get();

  // Sends a message. An Objective-C exception that comes out is an Error{kFailed}.
  template <class Result, class... Arguments>
  Result send(Id object, const char* message, Arguments... arguments) const {
    using Function = Result (*)(Id, const void*, Arguments...);
    const void* selector = register_selector(message);
    const auto function = reinterpret_cast<Function>(implementation(class_of(object), selector));
    if (!function) throw Error(Code::kFailed, std::string("Core ML: nothing answers to ") + message);
    try {
      return function(object, selector, arguments...);
    } catch (...) {
      throw Error(Code::kFailed, std::string("Core ML threw an exception in ") + message);
    }
  }

  Id named(const char* name) const;  // a class; throws Error{kFailed} when there is none
  Id string(const std::string& text) const;
  std::string text(Id string) const;
  // What an NSError says, after a call that failed.
  [[noreturn]] void fail(const std::string& what, Id error) const;

  Id (*retain)(Id);
  void (*release)(Id);
  void* (*push_pool)();
  void (*pop_pool)(void*);

 private:
  Runtime();
  Id (*get_class)(const char*);
  Id (*class_of)(Id);
  const void* (*register_selector)(const char*);
  void (*(*implementation)(Id, const void*))();
};

// Objects that calls give for a while live until the pool that was open goes.
class Pool {
 public:
  explicit Pool(const Runtime& objc) : objc_(objc), pool_(objc.push_pool()) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { objc_.pop_pool(pool_); }

 private:
  const Runtime& objc_;
  void* pool_;
};

// One reference to an object.
class Kept {
 public:
  Kept() = default;
  Kept(const Runtime& objc, Id owned) : objc_(&objc), id_(owned) {}
  Kept(Kept&& other) noexcept : objc_(other.objc_), id_(std::exchange(other.id_, nullptr)) {}
  Kept& operator=(Kept&& other) noexcept {
    std::swap(objc_, other.objc_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~Kept() {
    if (id_) objc_->release(id_);
  }
  Id id() const { return id_; }

 private:
  const Runtime* objc_ = nullptr;
  Id id_ = nullptr;
};

}  // namespace aneforge::coreml
