// The vector kernels against obviously right scalar loops, and against each other: every instruction set that this
// machine has must give the same bits.
//
//   vector_selftest          everything below but "half"; exit code 0 when all is well
//   vector_selftest hash     only the hashes of the plans' results with the table that ANEFORGE_ISA chooses
//   vector_selftest half     conversion of all 2^32 floats (some seconds)
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

#include "vector_check.h"

namespace aneforge::vec {
namespace {

void conversions() {
  for (const Kernels* k : tables()) {
    std::vector<uint16_t> h(65536);
    std::vector<float> f(65536);
    for (size_t i = 0; i < h.size(); ++i) h[i] = static_cast<uint16_t>(i);
    k->half_to_float(h.data(), f.data(), h.size());
    std::vector<uint16_t> back(65536);
    k->float_to_half(f.data(), back.data(), f.size());
    for (size_t i = 0; i < h.size(); ++i) {
      CHECK(float_bits(f[i]) == float_bits(half_to_float(h[i])), "%s: half %zx widened", k->name, i);
      const bool nan = (h[i] & 0x7fff) > 0x7c00;
      CHECK(back[i] == (nan ? (h[i] | 0x200) : h[i]), "%s: half %zx there and back", k->name, i);
    }
    std::mt19937 random(1);
    std::vector<float> x(100003), rounded(100003);
    for (float& v : x) v = bits_float(random());
    k->round(x.data(), rounded.data(), x.size(), Rounding::kHalf);
    for (size_t i = 0; i < x.size(); ++i)
      CHECK(float_bits(rounded[i]) == float_bits(round_to_half(x[i])), "%s: rounding of %08x", k->name,
            float_bits(x[i]));
    k->round(x.data(), rounded.data(), x.size(), Rounding::kHalfNoNan);
    for (size_t i = 0; i < x.size(); ++i)
      CHECK(float_bits(rounded[i]) == (x[i] != x[i] ? 0u : float_bits(round_to_half(x[i]))), "%s: scrubbing", k->name);
    const Scan scan = k->scan(x.data(), x.size());
    float low = INFINITY, high = -INFINITY;
    for (float v : x)
      if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
    CHECK(!scan.finite && scan.low == low && scan.high == high, "%s: scan", k->name);
    CHECK(k->scan(f.data(), 31744).finite, "%s: scan of finite halves", k->name);
  }
}

void all_floats() {
  for (const Kernels* k : tables()) {
    std::vector<float> x(1 << 16), y(1 << 16);
    for (uint64_t base = 0; base < (uint64_t{1} << 32); base += x.size()) {
      for (size_t i = 0; i < x.size(); ++i) x[i] = bits_float(static_cast<uint32_t>(base + i));
      k->round(x.data(), y.data(), x.size(), Rounding::kHalf);
      for (size_t i = 0; i < x.size(); ++i)
        CHECK(float_bits(y[i]) == float_bits(half_to_float(float_to_half(x[i]))), "%s: %08x", k->name,
              float_bits(x[i]));
    }
    std::printf("%s: all 2^32 floats\n", k->name);
  }
}

struct Function {
  const char* name;
  Elementwise op;
  float alpha, beta;
  std::function<double(double)> exact;
  float from, to;
  double ulps;  // of fp32, allowed
};

double units(float got, double want) {
  if (same(got, static_cast<float>(want))) return 0;
  const double size = std::max(std::fabs(want), 0x1p-126);
  return std::fabs(got - want) / std::ldexp(1.0, std::max(std::ilogb(size), -126) - 23);
}

void functions() {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const std::vector<Function> all = {
      {"exp", Elementwise::kExp, 0, 0, [](double x) { return std::exp(x); }, -87, 88.7f, 2},
      {"log", Elementwise::kLog, 0, 0, [](double x) { return std::log(x); }, 1e-30f, 1e30f, 2},
      {"log near 1", Elementwise::kLog, 0, 0, [](double x) { return std::log(x); }, 0.5f, 2, 2},
      {"tanh", Elementwise::kTanh, 0, 0, [](double x) { return std::tanh(x); }, -10, 10, 3},
      {"erf", Elementwise::kErf, 0, 0, [](double x) { return std::erf(x); }, -5, 5, 3},
      {"sigmoid", Elementwise::kSigmoid, 0, 0, sigmoid, -80, 20, 4},
      {"silu", Elementwise::kSilu, 1, 0, [&](double x) { return x * sigmoid(x); }, -80, 20, 5},
      {"gelu", Elementwise::kGelu, 0, 0, [](double x) { return 0.5 * x * std::erfc(-x * std::sqrt(0.5)); }, -12, 12, 6},
      {"gelu_tanh", Elementwise::kGeluTanh, 0, 0,
       [&](double x) { return x * sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); }, -4, 8, 40},
      {"softplus", Elementwise::kSoftplus, 0, 0,
       [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }, -30, 30, 4},
      {"elu", Elementwise::kElu, 1, 0, [](double x) { return x > 0 ? x : std::expm1(x); }, -20, 5, 4},
      {"rsqrt", Elementwise::kRsqrt, 0, 0, [](double x) { return 1 / std::sqrt(x); }, 1e-10f, 1e10f, 2},
  };
  std::vector<uint64_t> first;
  for (const Kernels* k : tables()) {
    size_t at = 0;
    for (const Function& f : all) {
      std::vector<float> x(1 << 16), y(1 << 16);
      for (size_t i = 0; i < x.size(); ++i) {
        const double t = static_cast<double>(i) / static_cast<double>(x.size() - 1);
        x[i] = f.from > 0 && f.to / f.from > 100
                   ? static_cast<float>(f.from * std::pow(static_cast<double>(f.to) / f.from, t))
                   : static_cast<float>(f.from + t * (f.to - f.from));
      }
      k->elementwise[static_cast<size_t>(f.op)](x.data(), nullptr, 0, y.data(), x.size() / kLanes, f.alpha, f.beta,
                                                Rounding::kNone);
      double worst = 0;
      size_t wrong_halves = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = f.exact(x[i]);
        if (std::fabs(want) > 1e-30) worst = std::max(worst, units(y[i], want));
        wrong_halves += float_to_half(y[i]) != double_to_half(want);
      }
      CHECK(worst <= f.ulps, "%s %s: %.2f units in the last place", k->name, f.name, worst);
      CHECK(wrong_halves < x.size() / 1000, "%s %s: %zu wrong halves of %zu", k->name, f.name, wrong_halves, x.size());
      const uint64_t h = hash(y.data(), y.size());
      if (k == tables()[0])
        first.push_back(h), std::printf("  %-12s %.2f units in the last place, %zu of %zu halves not the nearest\n",
                                        f.name, worst, wrong_halves, x.size());
      CHECK(h == first[at], "%s %s: other bits than %s", k->name, f.name, tables()[0]->name);
      ++at;
    }
  }
}

// Every operation on special values: all tables alike, NaN and zeros as documented.
void special_values() {
  const float nan = NAN, inf = INFINITY;
  const std::vector<float> x = {0.0f,      -0.0f, 1.0f,   -1.0f,  inf,   -inf,    nan,  65504.0f,
                                -65504.0f, 6e-8f, -6e-8f, 1e-40f, 88.8f, -104.5f, 5.5f, -3.25f};
  const std::vector<float> y = {-0.0f, 0.0f, nan,  2.0f,    -inf, inf,  1.0f,  65504.0f,
                                2.0f,  0.5f, 3.0f, -1e-40f, 0.0f, 1.0f, -5.5f, nan};
  for (size_t op = 0; op < static_cast<size_t>(Elementwise::kCount); ++op)
    for (Rounding r : {Rounding::kNone, Rounding::kHalf, Rounding::kHalfNoNan}) {
      std::vector<float> want(16), got(16);
      tables()[0]->elementwise[op](x.data(), y.data(), 16, want.data(), 1, 0.25f, 2.0f, r);
      for (const Kernels* k : tables()) {
        k->elementwise[op](x.data(), y.data(), 16, got.data(), 1, 0.25f, 2.0f, r);
        for (size_t i = 0; i < 16; ++i)
          CHECK(same(got[i], want[i]), "%s operation %zu of %g, %g: %g, not %g", k->name, op, x[i], y[i], got[i],
                want[i]);
        if (r == Rounding::kHalfNoNan)
          for (float v : got) CHECK(v == v, "%s operation %zu leaves a NaN", k->name, op);
      }
    }
  for (const Kernels* k : tables()) {
    std::vector<float> o(16);
    const auto run = [&](Elementwise op) {
      k->elementwise[static_cast<size_t>(op)](x.data(), y.data(), 16, o.data(), 1, 0, 6, Rounding::kNone);
    };
    run(Elementwise::kRelu);
    CHECK(o[6] != o[6] && o[5] == 0 && o[4] == inf && o[3] == 0, "%s: relu", k->name);
    run(Elementwise::kClamp);
    CHECK(o[6] != o[6] && o[4] == 6 && o[5] == 0, "%s: clamp", k->name);
    run(Elementwise::kMaximum);
    CHECK(o[6] != o[6] && o[2] != o[2] && o[15] != o[15], "%s: maximum", k->name);
    run(Elementwise::kExp);
    CHECK(o[4] == inf && o[5] == 0 && o[12] == inf && o[13] == 0 && o[6] != o[6] && o[0] == 1, "%s: exp", k->name);
    run(Elementwise::kLog);
    CHECK(o[0] == -inf && o[4] == inf && o[3] != o[3] && std::fabs(o[11] - std::log(1e-40f)) < 1e-4f, "%s: log",
          k->name);
    run(Elementwise::kGelu);
    CHECK(o[4] == inf && o[6] != o[6] && o[0] == 0, "%s: gelu", k->name);
    run(Elementwise::kTanh);
    CHECK(o[4] == 1 && o[5] == -1 && std::signbit(o[1]), "%s: tanh", k->name);
  }
}

void rows() {
  Random random(2);
  for (size_t n : {1u, 7u, 16u, 33u, 64u, 65u, 127u, 1000u}) {
    std::vector<float> x(n), y(n), soft(n), expected(n);
    for (size_t i = 0; i < n; ++i) x[i] = random.normal(), y[i] = random.normal();
    double sum = 0, squares = 0, magnitudes = 0, dot = 0, total = 0;
    float most = -INFINITY, least = INFINITY;
    for (size_t i = 0; i < n; ++i) {
      sum += x[i], squares += static_cast<double>(x[i]) * x[i], magnitudes += std::fabs(x[i]),
          dot += static_cast<double>(x[i]) * y[i];
      most = std::max(most, x[i]), least = std::min(least, x[i]);
    }
    for (size_t i = 0; i < n; ++i) total += std::exp(static_cast<double>(x[i]) - most);
    uint64_t first = 0;
    for (const Kernels* k : tables()) {
      const double tolerance = 1e-6 * static_cast<double>(n);
      const std::vector<float> results = {k->reduce(Reduce::kSum, x.data(), n),
                                          k->reduce(Reduce::kSumOfSquares, x.data(), n),
                                          k->reduce(Reduce::kSumOfMagnitudes, x.data(), n),
                                          k->dot(x.data(), y.data(), n),
                                          k->reduce(Reduce::kMax, x.data(), n),
                                          k->reduce(Reduce::kMin, x.data(), n)};
      CHECK(std::fabs(results[0] - sum) < tolerance && std::fabs(results[1] - squares) < tolerance &&
                std::fabs(results[2] - magnitudes) < tolerance && std::fabs(results[3] - dot) < tolerance,
            "%s: sums of %zu", k->name, n);
      CHECK(results[4] == most && results[5] == least, "%s: extremes of %zu", k->name, n);
      k->softmax(x.data(), soft.data(), n, Rounding::kNone);
      for (size_t i = 0; i < n; ++i) {
        const double want = std::exp(static_cast<double>(x[i]) - most) / total;
        CHECK(std::fabs(soft[i] - want) < 1e-6, "%s: softmax of %zu", k->name, n);
      }
      const uint64_t h = hash(results.data(), results.size(), hash(soft.data(), n));
      if (k == tables()[0]) first = h;
      CHECK(h == first, "%s: rows of %zu have other bits", k->name, n);
      std::vector<float> spoiled = x;
      spoiled[n / 2] = NAN;
      CHECK(std::isnan(k->reduce(Reduce::kMax, spoiled.data(), n)), "%s: a NaN among %zu is lost", k->name, n);
    }
  }
  // Down columns, wide and narrow.
  const size_t count = 37, vectors = 6;
  const std::vector<float> x = random.halves(count * vectors * kLanes, 3);
  for (const Kernels* k : tables())
    for (Reduce op :
         {Reduce::kSum, Reduce::kMean, Reduce::kSumOfSquares, Reduce::kSumOfMagnitudes, Reduce::kMax, Reduce::kMin}) {
      std::vector<float> wide(vectors * kLanes), narrow(vectors * kLanes, 0.0f);
      k->reduce_columns(op, x.data(), count, vectors * kLanes, wide.data(), vectors);
      k->narrow_sum_columns(op, x.data(), count, vectors * kLanes, narrow.data(), vectors);
      for (size_t j = 0; j < wide.size(); ++j) {
        float w = op == Reduce::kMax ? -INFINITY : op == Reduce::kMin ? INFINITY : 0.0f, s = 0;
        for (size_t i = 0; i < count; ++i) {
          const float v = x[i * vectors * kLanes + j];
          const float term = op == Reduce::kSumOfSquares ? v * v : op == Reduce::kSumOfMagnitudes ? std::fabs(v) : v;
          if (op == Reduce::kMax)
            w = std::max(w, v);
          else if (op == Reduce::kMin)
            w = std::min(w, v);
          else
            w += term;
          s = round_to_half(s + round_to_half(term));
        }
        if (op == Reduce::kMean) w /= count;
        CHECK(same(w, wide[j]), "%s: column %zu", k->name, j);
        if (op == Reduce::kSum || op == Reduce::kSumOfSquares ||
            op == Reduce::kSumOfMagnitudes)  // the others have no narrow form
          CHECK(same(s, narrow[j]), "%s: narrow column %zu: %g, not %g", k->name, j, narrow[j], s);
      }
    }
}

// A process of its own; ANEFORGE_EMULATOR is what starts it, where the machine itself cannot.
std::string hash_of(const char* self, const char* isa) {
  const char* emulator = std::getenv("ANEFORGE_EMULATOR");
  const std::string command =
      std::string("ANEFORGE_ISA=") + isa + " " + (emulator ? emulator : "") + " '" + self + "' hash";
  std::string text;
  if (FILE* pipe = popen(command.c_str(), "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, pipe)) text += line;
    if (pclose(pipe) != 0) text += " (failed)";
  }
  return text;
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "hash") {
    std::printf("%016llx\n", static_cast<unsigned long long>(check_plans()));
    return failures != 0;
  }
  if (what == "half") {
    all_floats();
    return failures != 0;
  }
  std::printf("kernels of this machine: %s\n", kernels().name);
  conversions();
  functions();
  special_values();
  rows();
  check_moves();
  std::string first;
  for (const Kernels* k : tables()) {
    const std::string h = hash_of(argv[0], k->name);
    std::printf("plans with %-9s %s", k->name, h.c_str());
    if (first.empty()) first = h;
    CHECK(h == first && h.size() == 17, "%s: other bits than portable, or none", k->name);
  }
  std::printf(failures ? "%d FAILED\n" : "all right\n", failures);
  return failures != 0;
}

}  // namespace
}  // namespace aneforge::vec

int main(int argc, char** argv) { return aneforge::vec::run(argc, argv); }
