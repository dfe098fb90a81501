// What the self-test of the vector kernels is made of (vector_selftest.cc, vector_plans.cc).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "core/fp16.h"
#include "core/parallel.h"
#include "host/vector/kernels.h"

namespace aneforge::vec {

inline int failures = 0;

#define CHECK(condition, ...)                    \
  do {                                           \
    if (!(condition)) {                          \
      ++failures;                                \
      std::printf("FAILED line %d: ", __LINE__); \
      std::printf(__VA_ARGS__);                  \
      std::printf("\n");                         \
    }                                            \
  } while (0)

// Tasks in a scrambled order, as if by many threads: results must not depend on it.
class Scrambled final : public Parallel {
 public:
  explicit Scrambled(size_t width) : width_(width) {}
  void run(size_t total, void (*fn)(void*, size_t), void* user) override {
    std::vector<size_t> order(total);
    for (size_t i = 0; i < total; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(total)));
    for (size_t i : order) fn(user, i);
  }
  size_t width() const override { return width_; }

 private:
  size_t width_;
};

// About normal, and the same numbers with every standard library: hashes are compared between compilers and machines.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  float normal() {
    float sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(engine_() >> 8) * 0x1p-24f;
    return sum;
  }
  std::vector<float> halves(size_t n, float scale = 1) {
    std::vector<float> v(n);
    for (float& x : v) x = round_to_half(scale * normal());
    return v;
  }

 private:
  std::mt19937 engine_;
};

inline uint64_t hash(const float* x, size_t n, uint64_t h = 1469598103934665603ull) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = x[i] != x[i] ? 0x7fc00000u : float_bits(x[i]);  // the bits of a NaN are nobody's promise
    h = (h ^ bits) * 1099511628211ull;
  }
  return h;
}
inline bool same(float a, float b) { return float_bits(a) == float_bits(b) || (a != a && b != b); }

inline std::vector<const Kernels*> tables() {
  std::vector<const Kernels*> all;
  for (const char* name : {"portable", "avx2", "avx512", "neon"})
    if (const Kernels* k = kernels_named(name)) all.push_back(k);
  return all;
}

// vector_plans.cc: every plan against scalar loops; a hash of all results. And moves, which have nothing to round.
uint64_t check_plans();
void check_moves();

}  // namespace aneforge::vec
