// The vector kernels in plain C++: the definition that the other tables equal bit for bit, and the only table on
// machines that have none of their own. Slow (std::fma may be a library call): not meant for x86-64 or arm64.
#include "host/vector/kernels.h"

#define ANEFORGE_V16_NS portable
#include "host/vector/table.inl"

namespace aneforge::vec {
const Kernels* portable_kernels() {
  static const Kernels table = portable::make_table("portable");
  return &table;
}
}  // namespace aneforge::vec
