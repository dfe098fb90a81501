// The vector kernels for arm64 (NEON is part of it). Empty on other architectures.
#include "host/vector/kernels.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define ANEFORGE_V16_NEON 1
#define ANEFORGE_V16_NS neon
#include "host/vector/table.inl"

namespace aneforge::vec {
const Kernels* neon_kernels() {
  static const Kernels table = neon::make_table("neon");
  return &table;
}
}  // namespace aneforge::vec
#else
namespace aneforge::vec {
const Kernels* neon_kernels() { return nullptr; }
}  // namespace aneforge::vec
#endif
