// What stands behind the opaque handles of core/c_api.h, for core/c_api.cc and ep/.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "core/c_api.h"
#include "core/executable.h"
#include "core/status.h"

struct AfStatus {
  aneforge::Code code;
  std::string text;
};

// Reference counted: one reference for whoever was handed it; the last release frees it.
struct AfExecutable {
  std::atomic<int64_t> references{1};
  std::shared_ptr<const aneforge::Executable> executable;
  std::string description;
};

namespace aneforge {

// Live AfExecutable objects, for leak tests.
int64_t live_executables() noexcept;

// Never NULL: when memory has run out, a static status that says so (releasing it is harmless).
AfStatus* make_status(Code code, const std::string& text) noexcept;
// To be called inside a catch block: the exception in flight as a status.
AfStatus* current_exception_status() noexcept;
void release_status(AfStatus*) noexcept;
// Throws what the status says and releases it; nothing for NULL.
void throw_status(AfStatus*);

// Runs body; NULL, or the status of what it threw.
template <class Body>
AfStatus* guarded(Body&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (...) {
    return current_exception_status();
  }
}

AfExecutable* wrap_executable(std::shared_ptr<const Executable>);
void retain_executable(AfExecutable*) noexcept;
void release_executable(AfExecutable*) noexcept;

}  // namespace aneforge
