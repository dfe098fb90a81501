// Plans (convolutions, pools, matrix products) against scalar loops in double.
#include <functional>
#include <memory>

#include "host/vector/aligned.h"
#include "host/vector/conv.h"
#include "host/vector/conv_transpose.h"
#include "host/vector/depthwise.h"
#include "host/vector/grouped.h"
#include "host/vector/layout.h"
#include "host/vector/map.h"
#include "host/vector/matmul.h"
#include "host/vector/pool.h"
#include "host/vector/winograd.h"
#include "vector_check.h"

namespace aneforge::vec {
namespace {

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
      {1, 12, 24, 3, 7, 17, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, false},
      {2, 16, 32, 4, 8, 8, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 0, false},
      {1, 48, 40, 2, 6, 15, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, false},
      {1, 10, 20, 10, 9, 9, 3, 3, 1, 1, 2, 2, 2, 2, 2, 2, 0, false},
      {1, 72, 72, 3, 5, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 0, false},
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
      CHECK(GroupedConvPlan::supports(p, in_layout) || ConvPlan::supports(p, in_layout), "case %zu", i);
      // Every kind of step; which of them take part depends on the case.
      std::vector<EpilogueStep> steps;
      if (i % 2 == 0) {
        EpilogueStep s;
        s.op = Elementwise::kAdd, s.operand = EpilogueStep::Operand::kChannel,
        s.values.assign(channel.begin(), channel.end());
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
      std::function<void(float*, Parallel&)> run;
      if (ConvPlan::supports(p, in_layout)) {
        const auto plan = std::make_shared<ConvPlan>(p, in_layout, out_layout, weights.data(), epilogue);
        run = [&, plan](float* to, Parallel& parallel) { plan->run(in.data.data(), to, operands, parallel); };
      } else {
        const auto plan = std::make_shared<GroupedConvPlan>(p, in_layout, out_layout, weights.data(), epilogue);
        run = [&, plan](float* to, Parallel& parallel) { plan->run(in.data.data(), to, operands, parallel); };
      }
      std::vector<float> got(elements(out_layout)), again(elements(out_layout));
      Aligned<float> out(out_layout.floats());
      run(out.data(), serial);
      from_image(out_layout, out.data(), got.data(), serial);
      run(out.data(), three);
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

// Winograd against the direct plan: close everywhere, the same where the direct result is not finite.
void winograd_convolutions(uint64_t* total) {
  struct Case {
    int n, in, out, h, w, pad, halo;
    bool special;
  };
  const std::vector<Case> cases = {{1, 16, 32, 8, 12, 1, 1, false},
                                   {2, 40, 24, 7, 9, 1, 2, false},
                                   {1, 33, 50, 13, 14, 0, 0, false},
                                   {1, 32, 16, 21, 30, 1, 1, true},
                                   {1, 20, 40, 5, 5, 2, 2, true}};
  Random random(9);
  Serial serial;
  Scrambled three(3), many(16);
  for (size_t i = 0; i < cases.size(); ++i)
    for (int tile : {2, 4}) {
      const Case& c = cases[i];
      ConvParams p;
      p.out_channels = c.out, p.kernel_h = p.kernel_w = 3, p.pad_top = p.pad_left = c.pad;
      const ImageLayout in_layout = image_layout(c.n, c.in, c.h, c.w, c.halo, c.halo);
      const ImageLayout out_layout = image_layout(c.n, c.out, c.h + 2 * c.pad - 2, c.w + 2 * c.pad - 2, 1, 0);
      std::vector<float> values = random.halves(elements(in_layout));
      if (c.special) {
        values[7] = INFINITY;
        values[values.size() / 2] = -INFINITY;
        values[values.size() - 3] = NAN;
        values[values.size() / 3] = 60;
      }
      const Image in(in_layout, values, serial), residual(out_layout, random.halves(elements(out_layout)), serial);
      const std::vector<float> weights = random.halves(static_cast<size_t>(c.out) * c.in * 9, 0.25f),
                               bias = random.halves(static_cast<size_t>(c.out));
      std::vector<EpilogueStep> steps(i % 2 ? 2 : 1);
      steps[0].op = Elementwise::kAdd, steps[0].operand = EpilogueStep::Operand::kTensor, steps[0].slot = 0,
      steps[0].steps = Steps::of(out_layout);
      if (i % 2) steps[1].op = Elementwise::kLeakyRelu, steps[1].alpha = 0.1f;
      const Epilogue epilogue(Numerics{Rounding::kNone, false}, c.out, bias, steps, true);
      const ConvPlan direct(p, in_layout, out_layout, weights.data(), epilogue);
      const WinogradPlan plan(p, in_layout, out_layout, weights.data(), epilogue, tile, i % 2 == 0);
      CHECK(WinogradPlan::supports(p, in_layout), "winograd %zu", i);
      const float* operands[] = {residual.data.data()};
      Aligned<float> out(out_layout.floats()), scratch(plan.scratch_floats());
      std::vector<float> want(elements(out_layout)), got(want.size()), again(want.size());
      direct.run(in.data.data(), out.data(), operands, serial);
      from_image(out_layout, out.data(), want.data(), serial);
      plan.run(in.data.data(), out.data(), operands, scratch.data(), serial);
      from_image(out_layout, out.data(), got.data(), serial);
      for (Parallel* parallel : {static_cast<Parallel*>(&three), static_cast<Parallel*>(&many)}) {
        std::fill_n(out.data(), out.size(), -1.0f);
        plan.run(in.data.data(), out.data(), operands, scratch.data(), *parallel);
        from_image(out_layout, out.data(), again.data(), serial);
        CHECK(hash(got.data(), got.size()) == hash(again.data(), again.size()), "winograd %zu depends on the tasks", i);
      }
      *total = hash(got.data(), got.size(), *total);
      for (size_t j = 0; j < got.size(); ++j) {
        const bool well = std::isfinite(want[j]) ? std::fabs(got[j] - want[j]) <= 2e-3f + 1e-5f * std::fabs(want[j])
                                                 : same(got[j], want[j]);
        CHECK(well, "winograd %zu tile %d: %g, not %g", i, tile, got[j], want[j]);
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

// Transposed convolutions, and convolutions whose few channels leave as planes.
void other_convolutions(uint64_t* total) {
  struct Case {
    int in, out, h, w, k, stride, pad;
    bool planar;
  };
  Random random(10);
  Serial serial;
  Scrambled three(3);
  const std::vector<Case> cases = {{20, 24, 5, 7, 2, 2, 0, false}, {16, 8, 6, 5, 4, 2, 1, false},
                                   {33, 17, 4, 9, 3, 1, 1, false}, {16, 3, 9, 8, 2, 2, 0, true},
                                   {40, 2, 5, 6, 3, 2, 1, true},   {16, 1, 3, 4, 5, 3, 0, true}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    ConvParams p;
    p.out_channels = c.out, p.kernel_h = p.kernel_w = c.k, p.stride_h = p.stride_w = c.stride,
    p.pad_top = p.pad_left = c.pad;
    ImageLayout in_layout = image_layout(2, c.in, c.h, c.w, 0, 0);
    const ImageLayout out_layout = image_layout(2, c.out, (c.h - 1) * c.stride + c.k - 2 * c.pad,
                                                (c.w - 1) * c.stride + c.k - 2 * c.pad, c.planar ? 0 : 1, 0, c.planar);
    ConvTransposePlan::halo(p, in_layout, out_layout, &in_layout.halo_h, &in_layout.halo_w);
    const Image in(in_layout, random.halves(elements(in_layout)), serial);
    const std::vector<float> weights = random.halves(static_cast<size_t>(c.in) * c.out * c.k * c.k),
                             bias = random.halves(static_cast<size_t>(c.out));
    std::vector<EpilogueStep> steps(2);
    steps[0].op = Elementwise::kMul, steps[0].operand = EpilogueStep::Operand::kChannel,
    steps[0].values = random.halves(static_cast<size_t>(c.out));
    steps[1].op = i % 2 ? Elementwise::kRelu : Elementwise::kGateHardSigmoid, steps[1].alpha = 0.25f,
    steps[1].beta = 0.5f;
    const std::vector<float> factors = steps[0].values;
    CHECK(ConvTransposePlan::supports(p), "transposed %zu", i);
    const ConvTransposePlan plan(p, in_layout, out_layout, weights.data(),
                                 Epilogue(Numerics{Rounding::kHalf, false}, c.out, bias, steps, true));
    Aligned<float> out(out_layout.floats());
    std::vector<float> got(elements(out_layout)), again(elements(out_layout));
    plan.run(in.data.data(), out.data(), nullptr, serial);
    from_image(out_layout, out.data(), got.data(), serial);
    plan.run(in.data.data(), out.data(), nullptr, three);
    from_image(out_layout, out.data(), again.data(), serial);
    CHECK(hash(got.data(), got.size()) == hash(again.data(), again.size()), "transposed %zu depends on the tasks", i);
    *total = hash(got.data(), got.size(), *total);
    size_t at = 0;
    for (int n = 0; n < 2; ++n)
      for (int o = 0; o < c.out; ++o)
        for (int y = 0; y < out_layout.height; ++y)
          for (int x = 0; x < out_layout.width; ++x, ++at) {
            double v = 0, magnitude = 0;
            for (int ky = 0; ky < c.k; ++ky)
              for (int kx = 0; kx < c.k; ++kx) {
                const int iy = y + c.pad - ky, ix = x + c.pad - kx;
                if (iy < 0 || ix < 0 || iy % c.stride || ix % c.stride) continue;
                for (int ic = 0; ic < c.in; ++ic) {
                  const double t = static_cast<double>(in.at(n, ic, iy / c.stride, ix / c.stride)) *
                                   weights[((static_cast<size_t>(ic) * c.out + o) * c.k + ky) * c.k + kx];
                  v += t, magnitude += std::fabs(t);
                }
              }
            v = round_to_half(static_cast<float>(v + bias[static_cast<size_t>(o)]));
            const double largest = std::max(std::fabs(v), v * v / 4);
            v = round_to_half(static_cast<float>(v * factors[static_cast<size_t>(o)]));
            v = i % 2 ? std::max(v, 0.0) : v * std::min(1.0, std::max(0.0, 0.25 * v + 0.5));
            CHECK(close(got[at], v, 4 * magnitude + 4, 4 * largest + 1, true),
                  "transposed %zu at %d %d %d %d: %g, not %g", i, n, o, y, x, got[at], v);
          }
  }
  // An ordinary convolution to planes, in two slabs.
  const ImageLayout in_layout = image_layout(1, 150, 6, 40, 1, 1), out_layout = image_layout(1, 3, 6, 40, 0, 0, true);
  const Image in(in_layout, random.halves(elements(in_layout)), serial);
  ConvParams p;
  p.out_channels = 3, p.kernel_h = p.kernel_w = 3, p.pad_top = p.pad_left = 1;
  const std::vector<float> weights = random.halves(3 * 150 * 9);
  std::vector<EpilogueStep> steps(1);
  steps[0].op = Elementwise::kTanh;
  const ConvPlan planes(p, in_layout, out_layout, weights.data(),
                        Epilogue(Numerics{Rounding::kNone, false}, 3, {}, steps, true));
  const ImageLayout blocked_layout = image_layout(1, 3, 6, 40, 0, 0);
  const ConvPlan blocks(p, in_layout, blocked_layout, weights.data(),
                        Epilogue(Numerics{Rounding::kNone, false}, 3, {}, steps, true));
  std::vector<float> got(elements(out_layout)), want(got.size());
  Aligned<float> blocked(blocked_layout.floats());
  planes.run(in.data.data(), got.data(), nullptr, three);
  blocks.run(in.data.data(), blocked.data(), nullptr, three);
  from_image(blocked_layout, blocked.data(), want.data(), serial);
  CHECK(hash(got.data(), got.size()) == hash(want.data(), want.size()), "planes differ from blocks");
}

void moves() {
  Random random(11);
  Serial serial;
  Scrambled three(3);
  const ImageLayout in_layout = image_layout(2, 19, 5, 6, 2, 1);
  const Image in(in_layout, random.halves(elements(in_layout)), serial);
  const ImageLayout padded_layout = image_layout(2, 19, 9, 8, 0, 1),
                    repeated_layout = image_layout(2, 19, 10, 18, 1, 0);
  Aligned<float> padded(padded_layout.floats()), repeated(repeated_layout.floats());
  pad_image(3, 2, -7, in_layout, in.data.data(), padded_layout, padded.data(), three);
  repeat_image(2, 3, in_layout, in.data.data(), repeated_layout, repeated.data(), three);
  for (int n = 0; n < 2; ++n)
    for (int c = 0; c < 19; ++c) {
      const auto value = [&](const ImageLayout& l, const Aligned<float>& data, int y, int x) {
        return data.data()[l.offset(n, c / kLanes, y, x) + c % kLanes];
      };
      for (int y = 0; y < 9; ++y)
        for (int x = 0; x < 8; ++x) {
          const bool inside = y >= 3 && y < 8 && x >= 2;
          CHECK(value(padded_layout, padded, y, x) == (inside ? in.at(n, c, y - 3, x - 2) : -7), "padded image");
        }
      for (int y = 0; y < 10; ++y)
        for (int x = 0; x < 18; ++x)
          CHECK(value(repeated_layout, repeated, y, x) == in.at(n, c, y / 2, x / 3), "repeated image");
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
      m.op = Elementwise::kMul, m.operand = EpilogueStep::Operand::kChannel, m.values.assign(bias.begin(), bias.end());
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

}  // namespace

uint64_t check_plans() {
  uint64_t total = 1469598103934665603ull;
  convolutions(&total);
  winograd_convolutions(&total);
  depthwise_convolutions(&total);
  other_convolutions(&total);
  pools(&total);
  products(&total);
  return total;
}

void check_moves() { moves(); }

}  // namespace aneforge::vec
