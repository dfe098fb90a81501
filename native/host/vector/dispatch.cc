// Which table of kernels this machine runs.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "host/vector/kernels.h"

namespace aneforge::vec {
namespace {

#if defined(__x86_64__)
// Asked of the processor itself: the compilers' own __builtin_cpu_supports depends on their run-time library.
struct Features {
  bool avx2 = false, avx512 = false;
  Features() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return;
    constexpr unsigned kFma = 1u << 12, kOsSaves = 1u << 27, kAvx = 1u << 28, kF16c = 1u << 29;
    if ((c & (kFma | kOsSaves | kAvx | kF16c)) != (kFma | kOsSaves | kAvx | kF16c)) return;
    unsigned low = 0, high = 0;  // which registers the system saves
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
    constexpr unsigned kYmm = 0x06, kZmm = 0xe6, kAvx2 = 1u << 5, kAvx512f = 1u << 16;
    avx2 = (low & kYmm) == kYmm && (b & kAvx2);
    avx512 = avx2 && (low & kZmm) == kZmm && (b & kAvx512f);
  }
};
const Features& features() {
  static const Features found;
  return found;
}
bool has_avx2() { return features().avx2; }
bool has_avx512() { return features().avx512; }
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
