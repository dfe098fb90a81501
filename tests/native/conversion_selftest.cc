// Conversion at the engine's ports, and the functions below it, against expectations that conversions.py has computed.
//
//   conversion_selftest FILE    exit code 0 when every bit is as it says
//
// A case: int64 what (0 into a port, 1 out of one), caller's type, port's type, elements, saturated, nonfinite, bytes
// out of alignment, 0; then the elements that go in, then those that must come out.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "core/fp16.h"
#include "core/parallel.h"
#include "runtime/ports.h"

namespace aneforge {
namespace {

// Tasks in a scrambled order, as if by many threads.
class Scrambled final : public Parallel {
 public:
  void run(size_t total, void (*fn)(void*, size_t), void* user) override {
    std::vector<size_t> order(total);
    for (size_t i = 0; i < total; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(total)));
    for (size_t i : order) fn(user, i);
  }
  size_t width() const override { return 3; }
};

// Memory that begins `offset` bytes after an aligned place, and bytes behind it that nobody may touch.
class Memory {
 public:
  Memory(size_t bytes, size_t offset) : bytes_(bytes), offset_(offset), all_(bytes + offset + kGuard, kFill) {}
  char* data() { return all_.data() + offset_; }
  bool guarded() const {
    const auto fill = [](char c) { return c == kFill; };
    return std::all_of(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(offset_), fill) &&
           std::all_of(all_.begin() + static_cast<std::ptrdiff_t>(offset_ + bytes_), all_.end(), fill);
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr char kFill = 0x55;
  size_t bytes_, offset_;
  std::vector<char> all_;
};

struct Header {
  int64_t what, caller, port, count, saturated, nonfinite, offset, unused;
};

int failures = 0;

void wrong(const Header& h, size_t number, const char* what) {
  if (++failures <= 20)
    std::printf("case %zu (%s, %lld of type %lld): %s\n", number, h.what == 0 ? "into a port" : "out of a port",
                static_cast<long long>(h.count), static_cast<long long>(h.caller), what);
}

void check(const Header& h, size_t number, const std::vector<char>& given, const std::vector<char>& wanted) {
  const auto caller = static_cast<DType>(h.caller), port = static_cast<DType>(h.port);
  const auto offset = static_cast<size_t>(h.offset);
  Serial serial;
  Scrambled scrambled;
  for (Parallel* parallel : {static_cast<Parallel*>(&serial), static_cast<Parallel*>(&scrambled)}) {
    // The port's own memory is aligned.
    Memory from(given.size(), h.what == 0 ? offset : 0), to(wanted.size(), h.what == 0 ? 0 : offset);
    if (!given.empty()) std::memcpy(from.data(), given.data(), given.size());
    const PortSeen seen = h.what == 0 ? runtime::to_port(caller, from.data(), h.count, port, to.data(), *parallel)
                                      : runtime::from_port(from.data(), h.count, caller, to.data(), *parallel);
    if (!wanted.empty() && std::memcmp(to.data(), wanted.data(), wanted.size()) != 0) wrong(h, number, "other bits");
    if (!to.guarded()) wrong(h, number, "written outside");
    if (seen.saturated != (h.saturated != 0)) wrong(h, number, "saturation");
    if (seen.nonfinite != (h.nonfinite != 0)) wrong(h, number, "finiteness");
  }
}

// The functions for one element, where they define the same thing as the port does.
size_t check_elements(const Header& h, size_t number, const std::vector<char>& given, const std::vector<char>& wanted) {
  const bool narrow = h.what == 0 && h.caller == static_cast<int64_t>(DType::kFloat32) && h.saturated == 0 &&
                      h.port == static_cast<int64_t>(DType::kFloat16);
  const bool widen = h.what == 1 && h.caller == static_cast<int64_t>(DType::kFloat32);
  const bool doubles = h.what == 0 && h.caller == static_cast<int64_t>(DType::kFloat64) && h.saturated == 0;
  const auto n = static_cast<size_t>(h.count);
  if (n == 0 || !(narrow || widen || doubles)) return 0;
  const auto at = [](const std::vector<char>& v, size_t i, auto& to) {
    std::memcpy(&to, v.data() + i * sizeof to, sizeof to);
  };
  bool same = true;
  if (narrow) {
    for (size_t i = 0; i < n; ++i) {
      uint32_t bits = 0;
      uint16_t half = 0;
      at(given, i, bits);
      at(wanted, i, half);
      same &= float_to_half(bits_float(bits)) == half;
      same &= float_bits(round_to_half(bits_float(bits))) == float_bits(half_to_float(half));
    }
  } else if (widen) {
    for (size_t i = 0; i < n; ++i) {
      uint32_t bits = 0;
      uint16_t half = 0;
      at(given, i, half);
      at(wanted, i, bits);
      same &= float_bits(half_to_float(half)) == bits;
    }
  } else {
    for (size_t i = 0; i < n; ++i) {
      double v = 0;
      uint16_t half = 0;
      at(given, i, v);
      at(wanted, i, half);
      same &= double_to_half(v) == half;
    }
  }
  if (!same) wrong(h, number, "the functions of core/ give other bits");
  return n;
}

int run(const char* path) {
  std::ifstream file(path, std::ios::binary);
  size_t cases = 0, values = 0, elements = 0;
  for (Header h; file.read(reinterpret_cast<char*>(&h), sizeof h);) {
    const size_t caller = element_size(static_cast<DType>(h.caller)), port = element_size(static_cast<DType>(h.port));
    const auto n = static_cast<size_t>(h.count);
    std::vector<char> given(n * (h.what == 0 ? caller : port)), wanted(n * (h.what == 0 ? port : caller));
    file.read(given.data(), static_cast<std::streamsize>(given.size()));
    file.read(wanted.data(), static_cast<std::streamsize>(wanted.size()));
    if (!file) break;
    check(h, cases, given, wanted);
    elements += check_elements(h, cases, given, wanted);
    ++cases;
    values += n;
  }
  std::printf("conversions: %zu cases, %zu values, %zu of them also one by one: ", cases, values, elements);
  std::printf(failures ? "%d FAILED\n" : "all right\n", failures);
  return cases == 0 || failures != 0;
}

}  // namespace
}  // namespace aneforge

int main(int argc, char** argv) { return argc == 2 ? aneforge::run(argv[1]) : 2; }
