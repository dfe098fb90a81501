// Conversion at the engine's ports against memcpy of as many bytes (read and written), for benchmarks/boundary.py.
//
//   conversion THREADS    lines "into|out-of TYPE BYTES conversion-us memcpy-us", BYTES of the caller's tensor
//
// One after the other in turn, the best of several rounds each; memcpy runs on one thread.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "core/thread_pool.h"
#include "runtime/ports.h"

using namespace aneforge;

namespace {

template <class F>
double microseconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

struct Type {
  DType dtype;
  const char* name;
};

void fill(std::vector<char>& caller, std::vector<char>& port, DType dtype, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const auto v = static_cast<int64_t>(i * 7919 % 201) - (dtype == DType::kUInt8 || dtype == DType::kBool ? 0 : 100);
    if (dtype == DType::kFloat32)
      store(caller.data(), static_cast<int64_t>(i), static_cast<float>(v) * 0.37f);
    else if (dtype == DType::kFloat16)
      store(caller.data(), static_cast<int64_t>(i), static_cast<uint16_t>(0x3000 + i % 4096));
    else if (dtype == DType::kBool)
      store(caller.data(), static_cast<int64_t>(i), static_cast<uint8_t>(v & 1));
    else if (dtype == DType::kUInt8)
      store(caller.data(), static_cast<int64_t>(i), static_cast<uint8_t>(v));
    else if (dtype == DType::kInt32)
      store(caller.data(), static_cast<int64_t>(i), static_cast<int32_t>(v));
    else
      store(caller.data(), static_cast<int64_t>(i), v);
    store(port.data(), static_cast<int64_t>(i), static_cast<uint16_t>(0x3000 + i % 4096));
  }
}

void measure(const Type& type, size_t bytes, Parallel& parallel) {
  const size_t count = bytes / element_size(type.dtype), moved = (bytes + count * 2) / 2;
  std::vector<char> caller(bytes), port(count * 2), from(moved), to(moved);
  fill(caller, port, type.dtype, count);
  std::fill(from.begin(), from.end(), 'x');
  double into = std::numeric_limits<double>::max(), out = into, plain = into;
  const int rounds = static_cast<int>(std::clamp<size_t>((size_t{1} << 29) / bytes, 7, 300));
  const auto n = static_cast<int64_t>(count);
  for (int i = 0; i < rounds; ++i) {
    plain = std::min(plain, microseconds([&] { std::memcpy(to.data(), from.data(), moved); }));
    into = std::min(into, microseconds([&] {
                      runtime::to_port(type.dtype, caller.data(), n, DType::kFloat16, port.data(), parallel);
                    }));
    plain = std::min(plain, microseconds([&] { std::memcpy(from.data(), to.data(), moved); }));
    out = std::min(out, microseconds([&] { runtime::from_port(port.data(), n, type.dtype, caller.data(), parallel); }));
  }
  std::printf("into %s %zu %.2f %.2f\n", type.name, bytes, into, plain);
  std::printf("out-of %s %zu %.2f %.2f\n", type.name, bytes, out, plain);
}

}  // namespace

int main(int argc, char** argv) {
  const size_t threads = argc > 1 ? static_cast<size_t>(std::atoi(argv[1])) : 1;
  Serial serial;
  ThreadPool pool(threads);
  Parallel& parallel = threads == 1 ? static_cast<Parallel&>(serial) : pool;
  for (const Type& type :
       {Type{DType::kFloat32, "float32"}, Type{DType::kFloat16, "float16"}, Type{DType::kBool, "bool"},
        Type{DType::kUInt8, "uint8"}, Type{DType::kInt32, "int32"}, Type{DType::kInt64, "int64"}})
    for (size_t bytes : {size_t{1} << 20, size_t{1} << 24, size_t{1} << 26}) measure(type, bytes, parallel);
}
