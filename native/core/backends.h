// How a backend enters the table that find_backend reads: one static object in its own source file.
//
//     static const aneforge::BackendRegistration registration("host", &compile);
#pragma once
#include "core/executable.h"

namespace aneforge {

struct BackendRegistration {
  BackendRegistration(const char* name, CompileFn compile);
};

}  // namespace aneforge
