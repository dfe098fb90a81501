// Which table of kernels this machine runs.
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "host/vector/kernels.h"

namespace aneforge::vec {
namespace {

#if defined(__x86_64__)
bool has_avx2() {
  // F16C is not asked: every processor with AVX2 has it, and not every compiler knows its name here.
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
bool has_avx512() { return has_avx2() && __builtin_cpu_supports("avx512f"); }
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
#endif

const Kernels* choose() {
  if (const char* wish = std::getenv("ANEFORGE_ISA"))
    if (const Kernels* k = kernels_named(wish)) return k;
  for (const char* name : {"avx512", "avx2", "neon"})
    if (const Kernels* k = kernels_named(name)) return k;
  return portable_kernels();
}

}  // namespace

const Kernels* kernels_named(const char* name) {
  if (!std::strcmp(name, "avx512")) return has_avx512() ? avx512_kernels() : nullptr;
  if (!std::strcmp(name, "avx2")) return has_avx2() ? avx2_kernels() : nullptr;
  if (!std::strcmp(name, "neon")) return neon_kernels();
  if (!std::strcmp(name, "portable")) return portable_kernels();
  return nullptr;
}

const Kernels& kernels() {
  static const Kernels& best = *choose();
  return best;
}

}  // namespace aneforge::vec
