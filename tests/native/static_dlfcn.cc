// dlopen and dlsym for a program that is linked whole, as for an emulator without the other system's libraries: the one
// library that opens is the stand-in for the engine's runtime, which is linked in.
#include <cstring>

#include "runtime/symbols.h"

extern "C" {

#define X(name, arguments) int32_t e5rt_##name arguments;
ANEFORGE_E5RT_REQUIRED(X)
#undef X
const char* e5rt_get_last_error_message();

void* dlopen(const char* path, int) {
  static int library;
  return path && !std::strcmp(path, "standin") ? &library : nullptr;
}

void* dlsym(void*, const char* wanted) {
#define X(name, arguments) \
  if (!std::strcmp(wanted, "e5rt_" #name)) return reinterpret_cast<void*>(&e5rt_##name);
  ANEFORGE_E5RT_REQUIRED(X)
#undef X
  return std::strcmp(wanted, "e5rt_get_last_error_message") ? nullptr
                                                            : reinterpret_cast<void*>(&e5rt_get_last_error_message);
}

}  // extern "C"
