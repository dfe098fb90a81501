// The vector kernels against obviously right scalar loops, and against each other: every instruction set that this
// machine has must give the same bits.
//
//   vector_selftest          everything below but "half"; exit code 0 when all is well
//   vector_selftest hash     only the hashes of the plans' results with the table that ANEFORGE_ISA chooses
//   vector_selftest half     conversion of all 2^32 floats (some seconds)
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/fp16.h"
#include "core/parallel.h"
#include "host/vector/aligned.h"
#include "host/vector/conv.h"
#include "host/vector/depthwise.h"
#include "host/vector/kernels.h"
#include "host/vector/layout.h"
#include "host/vector/matmul.h"
#include "host/vector/pool.h"

namespace {

using namespace aneforge;
using namespace aneforge::vec;

int failures = 0;

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

uint64_t hash(const float* x, size_t n, uint64_t h = 1469598103934665603ull) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t bits = x[i] != x[i] ? 0x7fc00000u : float_bits(x[i]);  // the bits of a NaN are nobody's promise
    h = (h ^ bits) * 1099511628211ull;
  }
  return h;
}
bool same(float a, float b) { return float_bits(a) == float_bits(b) || (a != a && b != b); }

std::vector<const Kernels*> tables() {
  std::vector<const Kernels*> all;
  for (const char* name : {"portable", "avx2", "avx512", "neon"})
    if (const Kernels* k = kernels_named(name)) all.push_back(k);
  return all;
}

// ---- single kernels: every table against scalar code in double or against the first table

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

// ---- plans, against scalar loops in double

struct Image {
  ImageLayout layout;
  std::vector<float> dense;
  Aligned<float> data;

  Image(ImageLayout l, std::vector<float> values, Parallel& parallel)
      : layout(l), dense(std::move(values)), data(l.floats()) {
    to_image(dense.data(), layout, data.data(), Rounding::kNone, parallel);
  }
  float at(int n, int c, int y, int x) const {
    if (y < 0 || x < 0 || y >= layout.height || x >= layout.width) return 0;
    return dense[((static_cast<size_t>(n) * layout.channels + c) * layout.height + y) * layout.width + x];
  }
};

size_t elements(const ImageLayout& l) { return static_cast<size_t>(l.batch) * l.channels * l.height * l.width; }

ImageLayout image_layout(int n, int c, int h, int w, int halo_h, int halo_w, bool planar = false) {
  ImageLayout l;
  l.batch = n, l.channels = c, l.height = h, l.width = w, l.halo_h = halo_h, l.halo_w = halo_w, l.planar = planar;
  return l;
}

// |got - want| within fp32's error on sums of terms of this magnitude, and, with halves, within one rounding to another
// neighbour of the largest value on the way.
bool close(float got, double want, double magnitude, double largest, bool half) {
  if (std::isinf(got) || std::isinf(want)) return got == want || std::fabs(std::fabs(want) - 32760) < 16;
  return std::fabs(got - want) <=
         3e-6 * magnitude + (half ? 0x1p-9 * std::max(largest, std::fabs(want)) + 0x1p-22 : 0) + 1e-12;
}

void convolutions(uint64_t* total) {
  struct Case {
    int n, in, out, groups, h, w, kh, kw, sh, sw, dh, dw, pt, pl, pb, pr, out_halo;
    bool planar;
  };
  const std::vector<Case> cases = {
      {1, 16, 32, 1, 9, 11, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, false},
      {2, 40, 24, 1, 14, 13, 3, 3, 2, 2, 1, 1, 1, 0, 0, 1, 0, false},
      {1, 3, 20, 1, 23, 31, 7, 7, 2, 2, 1, 1, 3, 3, 3, 3, 1, true},
      {1, 3, 33, 1, 12, 17, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 0, true},
      {1, 1, 8, 1, 10, 10, 5, 5, 3, 3, 1, 1, 2, 2, 2, 2, 0, true},
      {1, 2, 18, 1, 10, 10, 3, 3, 1, 2, 2, 2, 2, 2, 2, 2, 0, true},
      {2, 70, 50, 1, 7, 9, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, false},
      {1, 64, 128, 1, 8, 8, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0, 2, false},
      {1, 32, 64, 2, 6, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 0, false},
      {1, 200, 16, 1, 5, 5, 3, 3, 1, 1, 2, 2, 2, 2, 2, 2, 0, false},
      {1, 48, 16, 1, 1, 50, 1, 5, 1, 1, 1, 3, 0, 6, 0, 6, 0, false},
      {1, 17, 17, 1, 30, 4, 4, 2, 3, 1, 1, 1, 1, 1, 2, 0, 1, false},
  };
  Random random(5);
  Serial serial;
  Scrambled three(3);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    for (int mode = 0; mode < 3; ++mode) {  // fp32; halves; engine, with sums beyond its bound
      const Numerics numerics{mode == 0   ? Rounding::kNone
                              : mode == 1 ? Rounding::kHalf
                                          : Rounding::kHalfNoNan,
                              mode == 2};
      ConvParams p;
      p.out_channels = c.out, p.groups = c.groups, p.kernel_h = c.kh, p.kernel_w = c.kw, p.stride_h = c.sh,
      p.stride_w = c.sw;
      p.dilation_h = c.dh, p.dilation_w = c.dw, p.pad_top = c.pt, p.pad_left = c.pl;
      const int out_h = (c.h + c.pt + c.pb - (c.kh - 1) * c.dh - 1) / c.sh + 1,
                out_w = (c.w + c.pl + c.pr - (c.kw - 1) * c.dw - 1) / c.sw + 1;
      const ImageLayout in_layout =
          image_layout(c.n, c.in, c.h, c.w, std::max(c.pt, c.pb), std::max(c.pl, c.pr), c.planar);
      const ImageLayout out_layout = image_layout(c.n, c.out, out_h, out_w, c.out_halo, c.out_halo);
      const float scale = mode == 2 ? 150 : 1;
      const Image in(in_layout, random.halves(elements(in_layout), scale), serial);
      const Image residual(image_layout(c.n, c.out, out_h, out_w, static_cast<int>(i % 3), 0),
                           random.halves(elements(out_layout)), serial);
      const Image gate(image_layout(c.n, c.out, 1, 1, 0, 0), random.halves(static_cast<size_t>(c.n) * c.out), serial);
      const std::vector<float> weights =
          random.halves(static_cast<size_t>(c.out) * c.in / c.groups * c.kh * c.kw, scale / 4);
      const std::vector<float> bias = random.halves(static_cast<size_t>(c.out)),
                               channel = random.halves(static_cast<size_t>(c.out));
      CHECK(ConvPlan::supports(p, in_layout), "case %zu", i);
      // Every kind of step; which of them take part depends on the case.
      std::vector<EpilogueStep> steps;
      if (i % 2 == 0) {
        EpilogueStep s;
        s.op = Elementwise::kAdd, s.operand = EpilogueStep::Operand::kChannel, s.values = channel;
        steps.push_back(s);
      }
      if (i % 3 != 1) {
        EpilogueStep s;
        s.op = Elementwise::kAdd, s.operand = EpilogueStep::Operand::kTensor, s.slot = 0,
        s.steps = Steps::of(residual.layout);
        steps.push_back(s);
      }
      if (i % 4 < 2) {
        EpilogueStep s;
        s.op = Elementwise::kClamp, s.alpha = -2, s.beta = mode == 2 ? INFINITY : 2;
        steps.push_back(s);
      }
      if (i % 5 == 0) {
        EpilogueStep s;
        s.op = Elementwise::kMul, s.operand = EpilogueStep::Operand::kGate, s.slot = 1,
        s.steps = Steps::of(gate.layout);
        steps.push_back(s);
      }
      const Epilogue epilogue(numerics, c.out, i % 2 ? bias : std::vector<float>(), steps, true);
      const float* operands[] = {residual.data.data(), gate.data.data()};
      const ConvPlan plan(p, in_layout, out_layout, weights.data(), epilogue);
      std::vector<float> got(elements(out_layout)), again(elements(out_layout));
      Aligned<float> out(out_layout.floats());
      plan.run(in.data.data(), out.data(), operands, serial);
      from_image(out_layout, out.data(), got.data(), serial);
      plan.run(in.data.data(), out.data(), operands, three);
      from_image(out_layout, out.data(), again.data(), three);
      CHECK(hash(got.data(), got.size()) == hash(again.data(), again.size()), "convolution %zu depends on the tasks",
            i);
      *total = hash(got.data(), got.size(), *total);

      const int per_group = c.out / c.groups, in_group = c.in / c.groups;
      size_t at = 0;
      for (int n = 0; n < c.n; ++n)
        for (int o = 0; o < c.out; ++o)
          for (int y = 0; y < out_h; ++y)
            for (int x = 0; x < out_w; ++x, ++at) {
              double sum = 0, magnitude = 0;
              for (int ic = 0; ic < in_group; ++ic)
                for (int ky = 0; ky < c.kh; ++ky)
                  for (int kx = 0; kx < c.kw; ++kx) {
                    const double t =
                        static_cast<double>(in.at(n, o / per_group * in_group + ic, y * c.sh - c.pt + ky * c.dh,
                                                  x * c.sw - c.pl + kx * c.dw)) *
                        weights[((static_cast<size_t>(o) * in_group + ic) * c.kh + ky) * c.kw + kx];
                    sum += t, magnitude += std::fabs(t);
                  }
              double v = sum;
              const auto round = [&](double value) {
                if (mode == 0) return value;
                const double r = half_to_float(double_to_half(value));
                return mode == 2 && r != r ? 0.0 : r;
              };
              if (mode == 2 && std::fabs(v) >= 32760) v = std::copysign(INFINITY, v);
              if (i % 2) v += bias[static_cast<size_t>(o)];
              v = round(v);
              double gain = 1;
              const double largest = std::fabs(v);
              if (i % 2 == 0) v = round(v + channel[static_cast<size_t>(o)]);
              if (i % 3 != 1) v = round(v + residual.at(n, o, y, x));
              if (i % 4 < 2) v = std::min<double>(mode == 2 ? INFINITY : 2, std::max(-2.0, v));
              if (i % 5 == 0) v = round(v * gate.at(n, o, 0, 0)), magnitude *= 4, gain = 4;
              CHECK(close(got[at], v, magnitude + 8, largest * gain, mode != 0),
                    "convolution %zu mode %d at %d %d %d %d: %g, not %g", i, mode, n, o, y, x, got[at], v);
            }
    }
  }
}

void depthwise_convolutions(uint64_t* total) {
  struct Case {
    int channels, h, w, k, stride, dilation, pad;
  };
  Random random(6);
  Serial serial;
  Scrambled three(3);
  const std::vector<Case> cases = {{16, 8, 8, 3, 1, 1, 1},   {40, 9, 23, 3, 1, 1, 1},  {24, 15, 16, 3, 2, 1, 1},
                                   {20, 11, 12, 5, 1, 1, 2}, {33, 13, 14, 5, 2, 1, 2}, {16, 7, 7, 3, 1, 2, 2},
                                   {48, 1, 1, 3, 1, 1, 1}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    ConvParams p;
    p.out_channels = p.groups = c.channels, p.kernel_h = p.kernel_w = c.k, p.stride_h = p.stride_w = c.stride;
    p.dilation_h = p.dilation_w = c.dilation, p.pad_top = p.pad_left = c.pad;
    const int out_h = (c.h + 2 * c.pad - (c.k - 1) * c.dilation - 1) / c.stride + 1,
              out_w = (c.w + 2 * c.pad - (c.k - 1) * c.dilation - 1) / c.stride + 1;
    const ImageLayout in_layout = image_layout(2, c.channels, c.h, c.w, c.pad, c.pad),
                      out_layout = image_layout(2, c.channels, out_h, out_w, 1, 0);
    const Image in(in_layout, random.halves(elements(in_layout)), serial),
        residual(out_layout, random.halves(elements(out_layout)), serial);
    const std::vector<float> weights = random.halves(static_cast<size_t>(c.channels) * c.k * c.k),
                             bias = random.halves(static_cast<size_t>(c.channels));
    std::vector<EpilogueStep> steps(2);
    steps[0].op = Elementwise::kAdd, steps[0].operand = EpilogueStep::Operand::kTensor, steps[0].slot = 0,
    steps[0].steps = Steps::of(out_layout);
    steps[1].op = i % 2 ? Elementwise::kRelu : Elementwise::kSilu, steps[1].alpha = 1;
    const DepthwisePlan plan(p, in_layout, out_layout, weights.data(),
                             Epilogue(Numerics{Rounding::kHalf, false}, c.channels, bias, steps, true));
    Aligned<float> out(out_layout.floats());
    std::vector<float> got(elements(out_layout)), again(elements(out_layout));
    const float* operands[] = {residual.data.data()};
    plan.run(in.data.data(), out.data(), operands, serial);
    from_image(out_layout, out.data(), got.data(), serial);
    plan.run(in.data.data(), out.data(), operands, three);
    from_image(out_layout, out.data(), again.data(), serial);
    CHECK(hash(got.data(), got.size()) == hash(again.data(), again.size()), "depthwise %zu depends on the tasks", i);
    *total = hash(got.data(), got.size(), *total);
    size_t at = 0;
    for (int n = 0; n < 2; ++n)
      for (int ch = 0; ch < c.channels; ++ch)
        for (int y = 0; y < out_h; ++y)
          for (int x = 0; x < out_w; ++x, ++at) {
            double v = 0, magnitude = 0;
            for (int ky = 0; ky < c.k; ++ky)
              for (int kx = 0; kx < c.k; ++kx) {
                const double t = static_cast<double>(in.at(n, ch, y * c.stride - c.pad + ky * c.dilation,
                                                           x * c.stride - c.pad + kx * c.dilation)) *
                                 weights[(static_cast<size_t>(ch) * c.k + ky) * c.k + kx];
                v += t, magnitude += std::fabs(t);
              }
            v = round_to_half(static_cast<float>(v + bias[static_cast<size_t>(ch)]));
            const double largest = std::fabs(v);
            v = round_to_half(static_cast<float>(v) + residual.at(n, ch, y, x));
            v = i % 2 ? std::max(v, 0.0) : v / (1 + std::exp(-v));
            CHECK(close(got[at], v, magnitude + 2, largest, true), "depthwise %zu: %g, not %g", i, got[at], v);
          }
  }
}

void pools(uint64_t* total) {
  Random random(7);
  Serial serial;
  Scrambled three(3);
  const ImageLayout in_layout = image_layout(2, 21, 13, 11, 1, 2);
  const Image in(in_layout, random.halves(elements(in_layout)), serial);
  for (int i = 0; i < 6; ++i) {
    PoolParams p;
    p.average = i % 2, p.count_padding = i >= 3, p.kernel_h = 3, p.kernel_w = 2 + i % 3, p.stride_h = 1 + i % 2,
    p.stride_w = 2;
    p.pad_top = 1, p.pad_left = i % 3 ? 1 : 0;
    const int out_h = (13 + 2 - 3) / p.stride_h + 1, out_w = (11 + 2 * p.pad_left - p.kernel_w) / 2 + 1;
    const ImageLayout out_layout = image_layout(2, 21, out_h, out_w, 0, 1);
    Aligned<float> out(out_layout.floats());
    std::vector<float> got(elements(out_layout));
    pool(p, in_layout, in.data.data(), out_layout, out.data(), Rounding::kHalf, three);
    from_image(out_layout, out.data(), got.data(), serial);
    *total = hash(got.data(), got.size(), *total);
    size_t at = 0;
    for (int n = 0; n < 2; ++n)
      for (int c = 0; c < 21; ++c)
        for (int y = 0; y < out_h; ++y)
          for (int x = 0; x < out_w; ++x, ++at) {
            float most = -INFINITY, sum = 0;
            int valid = 0;
            for (int ky = 0; ky < p.kernel_h; ++ky)
              for (int kx = 0; kx < p.kernel_w; ++kx) {
                const int iy = y * p.stride_h - p.pad_top + ky, ix = x * p.stride_w - p.pad_left + kx;
                if (iy < 0 || ix < 0 || iy >= 13 || ix >= 11) continue;
                most = std::max(most, in.at(n, c, iy, ix)), sum += in.at(n, c, iy, ix), ++valid;
              }
            const float want =
                !p.average ? most
                           : round_to_half(sum / static_cast<float>(p.count_padding ? p.kernel_h * p.kernel_w : valid));
            CHECK(same(got[at], want) || got[at] == want, "pool %d at %d %d %d %d: %g, not %g", i, n, c, y, x, got[at],
                  want);
          }
  }
  for (bool narrow : {false, true}) {
    const ImageLayout out_layout = image_layout(2, 21, 1, 1, 0, 0);
    Aligned<float> out(out_layout.floats());
    std::vector<float> got(42);
    PoolAllParams p;
    p.narrow = narrow;
    pool_all(p, in_layout, in.data.data(), out_layout, out.data(), Rounding::kHalf, three);
    from_image(out_layout, out.data(), got.data(), serial);
    *total = hash(got.data(), got.size(), *total);
    for (int i = 0; i < 42; ++i) {
      float s = 0;
      for (int y = 0; y < 13; ++y)
        for (int x = 0; x < 11; ++x)
          s = narrow ? round_to_half(s + in.at(i / 21, i % 21, y, x)) : s + in.at(i / 21, i % 21, y, x);
      const float want = round_to_half(s / 143.0f);
      CHECK(narrow ? got[static_cast<size_t>(i)] == want : std::fabs(got[static_cast<size_t>(i)] - want) < 1e-4f,
            "mean of all pixels");
    }
  }
}

void products(uint64_t* total) {
  struct Case {
    int64_t m, k, n;
    bool transpose_x, transpose_y, known;
    int batch;
  };
  Random random(8);
  Serial serial;
  Scrambled three(3);
  const std::vector<Case> cases = {
      {29, 50, 64, false, false, true, 1},    {30, 1100, 45, false, true, true, 1}, {17, 33, 70, true, false, false, 3},
      {40, 64, 40, true, true, false, 1},     {1, 300, 77, false, false, true, 1},  {3, 129, 64, false, true, true, 1},
      {2, 65, 31, false, false, false, 2},    {33, 90, 1, false, false, true, 1},   {20, 90, 3, false, true, false, 2},
      {65, 2048, 300, false, false, true, 1}, {1, 5, 2, false, false, false, 1}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    MatmulParams p;
    p.m = c.m, p.k = c.k, p.n = c.n, p.transpose_x = c.transpose_x, p.transpose_y = c.transpose_y;
    p.pairs.clear();
    for (int b = 0; b < c.batch; ++b) p.pairs.emplace_back(c.batch - 1 - b, b);
    p.y_matrices = c.batch;
    const std::vector<float> x = random.halves(static_cast<size_t>(c.batch * c.m * c.k)),
                             y = random.halves(static_cast<size_t>(c.batch * c.k * c.n));
    const std::vector<float> bias = random.halves(static_cast<size_t>(c.n)),
                             residual = random.halves(static_cast<size_t>(c.batch * c.m * c.n));
    std::vector<EpilogueStep> steps;
    if (i % 2) {
      EpilogueStep s;
      s.op = Elementwise::kAdd, s.operand = EpilogueStep::Operand::kTensor, s.slot = 0, s.steps = MatmulPlan::steps(p);
      steps.push_back(s);
    }
    if (i % 3 == 0) {
      EpilogueStep s, m;
      s.op = Elementwise::kTanh;
      m.op = Elementwise::kMul, m.operand = EpilogueStep::Operand::kChannel, m.values = bias;
      steps.push_back(s);
      steps.push_back(m);
    }
    const MatmulPlan plan(p, c.known ? y.data() : nullptr,
                          Epilogue(Numerics{Rounding::kHalf, true}, static_cast<int>(c.n), bias, steps, true));
    std::vector<float> got(residual.size()), again(residual.size());
    Aligned<float> scratch(plan.scratch_floats());
    const float* operands[] = {residual.data()};
    plan.run(x.data(), y.data(), got.data(), operands, scratch.data(), serial);
    plan.run(x.data(), y.data(), again.data(), operands, scratch.data(), three);
    CHECK(hash(got.data(), got.size()) == hash(again.data(), again.size()), "product %zu depends on the tasks", i);
    *total = hash(got.data(), got.size(), *total);
    size_t at = 0;
    for (int b = 0; b < c.batch; ++b)
      for (int64_t m = 0; m < c.m; ++m)
        for (int64_t n = 0; n < c.n; ++n, ++at) {
          double v = 0, magnitude = 0;
          for (int64_t k = 0; k < c.k; ++k) {
            const double t = static_cast<double>(x[static_cast<size_t>((c.batch - 1 - b) * c.m * c.k +
                                                                       (c.transpose_x ? k * c.m + m : m * c.k + k))]) *
                             y[static_cast<size_t>(b * c.k * c.n + (c.transpose_y ? n * c.k + k : k * c.n + n))];
            v += t, magnitude += std::fabs(t);
          }
          v = round_to_half(static_cast<float>(v + bias[static_cast<size_t>(n)]));
          const double largest = std::fabs(v);
          if (i % 2) v = round_to_half(static_cast<float>(v) + residual[at]);
          if (i % 3 == 0)
            v = round_to_half(round_to_half(static_cast<float>(std::tanh(v))) * bias[static_cast<size_t>(n)]);
          CHECK(close(got[at], v, magnitude + 4, largest, true), "product %zu (%s) at %d %d: %g, not %g", i,
                plan.form(), static_cast<int>(m), static_cast<int>(n), got[at], v);
        }
  }
}

uint64_t plans() {
  uint64_t total = 1469598103934665603ull;
  convolutions(&total);
  depthwise_convolutions(&total);
  pools(&total);
  products(&total);
  return total;
}

std::string hash_of(const char* self, const char* isa) {
  const std::string command = std::string("ANEFORGE_ISA=") + isa + " '" + self + "' hash";
  std::string text;
  if (FILE* pipe = popen(command.c_str(), "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, pipe)) text += line;
    if (pclose(pipe) != 0) text += " (failed)";
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "hash") {
    std::printf("%016llx\n", static_cast<unsigned long long>(plans()));
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
  std::string first;
  for (const Kernels* k : tables()) {
    const std::string h = hash_of(argv[0], k->name);
    std::printf("plans with %-9s %s", k->name, h.c_str());
    if (first.empty()) first = h;
    CHECK(h == first, "%s: other bits than portable", k->name);
  }
  std::printf(failures ? "%d FAILED\n" : "all right\n", failures);
  return failures != 0;
}
