// The execution provider's part of the C table, seen from core/c_api.cc. Declared here, defined in native/ep: core may
// not include ep's headers, and ep knows core only.
//
// All may be called from any thread. install_hooks throws Error{kInvalidArgument} for hooks of another ABI; the others
// do not throw.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/c_api.h"

namespace aneforge::ep {

void install_hooks(const AfHooks* hooks);         // copies *hooks; NULL uninstalls
uint64_t ep_of_token(const char* token);          // 0: no provider instance was given this token
size_t live_eps(uint64_t* out, size_t capacity);  // fills up to capacity, returns how many there are
void ep_regions(uint64_t ep, void (*each)(void* context, const AfRegionStats*), void* context);
void counters(int64_t out[3]);  // live provider instances, live fused kernels, computes so far

}  // namespace aneforge::ep
