// The vector kernels for AVX2 with FMA and F16C. Empty on other architectures.
#include "host/vector/kernels.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#if defined(__GNUC__) && !defined(__clang__)
// GCC's own intrinsics begin from an undefined register on purpose (_mm512_undefined_ps); GCC 12 warns about it.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/fp16.h"
#define ANEFORGE_V16_AVX2 1
#define ANEFORGE_V16_NS avx2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#include "host/vector/table.inl"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace aneforge::vec {
const Kernels* avx2_kernels() {
  static const Kernels table = avx2::make_table("avx2");
  return &table;
}
}  // namespace aneforge::vec
#else
namespace aneforge::vec {
const Kernels* avx2_kernels() { return nullptr; }
}  // namespace aneforge::vec
#endif
