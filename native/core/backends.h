// How a backend enters the table that find_backend reads: one static object in its own source file.
//
//     static const aneforge::BackendRegistration registration("host", &compile);
//
// `check` throws an Error that says why the backend cannot be used on this machine; none: it always can.
#pragma once
#include "core/executable.h"

namespace aneforge {

struct BackendRegistration {
  BackendRegistration(const char* name, CompileFn compile, void (*check)() = nullptr);
};

}  // namespace aneforge
