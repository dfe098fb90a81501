// Errors inside the native library: one exception type with a code. Nothing of it leaves the C boundary (see
// core/c_api.cc, ep/): there each is turned into an AfStatus or an OrtStatus.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

namespace aneforge {

enum class Code : int32_t {
  kInvalidArgument = 1,  // the caller's mistake: wrong port count, shape or dtype, unknown option
  kUnsupported = 2,      // understood, but this backend has no form for it
  kCorrupt = 3,          // program text or weight blob that is not well formed
  kFailed = 4,           // the backend or the system failed
};

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& what) : std::runtime_error(what), code_(code) {}
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};

}  // namespace aneforge
