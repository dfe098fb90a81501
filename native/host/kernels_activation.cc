// Activations of one operand, with at most two scalar parameters; prelu and softplus_parametric have one value a
// channel.
#include <cmath>

#include "host/iterate.h"
#include "host/kernels.h"
#include "host/math.h"
#include "host/pointwise.h"

namespace aneforge::host {
namespace {

std::unique_ptr<Kernel> make_relu(Build& b) {
  return pointwise(b, true, [](float x) { return 0.0f > x ? 0.0f : x; });  // in this order NaN passes
}
std::unique_ptr<Kernel> make_relu6(Build& b) {
  return pointwise(b, true, [](float x) { return math::min(math::max(x, 0.0f), 6.0f); });
}
std::unique_ptr<Kernel> make_sigmoid(Build& b) {
  return pointwise(b, false, [](float x) { return math::sigmoid(x); });
}
std::unique_ptr<Kernel> make_tanh(Build& b) {
  return pointwise(b, false, [](float x) { return math::tanh(x); });
}
std::unique_ptr<Kernel> make_silu(Build& b) {
  return pointwise(b, false, [](float x) { return x * math::sigmoid(x); });
}

std::unique_ptr<Kernel> make_softsign(Build& b) {
  if (b.has(Quirk::kQ26))
    return pointwise(b, false, [](float x) { return x == HUGE_VALF ? 0.0f : x / (1.0f + std::fabs(x)); });
  return pointwise(b, false,
                   [](float x) { return std::isinf(x) ? std::copysign(1.0f, x) : x / (1.0f + std::fabs(x)); });
}

std::unique_ptr<Kernel> make_softplus(Build& b) {
  const float bound = b.has(Quirk::kQ14) ? kSoftplusBound : b.has(Quirk::kQ26) ? 3.4028234663852886e38f : HUGE_VALF;
  return pointwise(b, false, [=](float x) { return x > bound ? 0.0f : math::softplus(x); });
}

std::unique_ptr<Kernel> make_gelu(Build& b) {
  const std::string mode = b.text("mode", "EXACT");
  if (mode == "EXACT")
    return pointwise(b, false, [](float x) { return 0.5f * x * (1.0f + math::erf(x * 0.70710678118654752f)); });
  if (mode == "TANH_APPROXIMATION")
    return pointwise(b, false, [](float x) {
      return 0.5f * x * (1.0f + math::tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    });
  if (mode == "SIGMOID_APPROXIMATION")
    return pointwise(b, false, [](float x) { return x * math::sigmoid(1.702f * x); });
  b.fail("mode '" + mode + "'");
}

std::unique_ptr<Kernel> make_elu(Build& b) {
  const float alpha = b.number("alpha");
  return pointwise(b, false, [=](float x) { return x > 0 ? x : alpha * math::expm1(x); });
}
std::unique_ptr<Kernel> make_leaky_relu(Build& b) {
  const float alpha = b.number("alpha");
  return pointwise(b, false, [=](float x) { return x >= 0 ? x : alpha * x; });
}
std::unique_ptr<Kernel> make_thresholded_relu(Build& b) {
  const float alpha = b.number("alpha");
  return pointwise(b, true, [=](float x) { return alpha > x ? 0.0f : x; });  // keeps x == alpha: MIL's rule, and Q41
}
std::unique_ptr<Kernel> make_clamped_relu(Build& b) {
  const float alpha = b.number("alpha"), beta = b.number("beta");
  return pointwise(b, false, [=](float x) { return math::min(x >= 0 ? x : alpha * x, beta); });
}
std::unique_ptr<Kernel> make_scaled_tanh(Build& b) {
  const float alpha = b.number("alpha"), beta = b.number("beta");
  return pointwise(b, false, [=](float x) { return alpha * math::tanh(beta * x); });
}
std::unique_ptr<Kernel> make_sigmoid_hard(Build& b) {
  const float alpha = b.number("alpha"), beta = b.number("beta");
  return pointwise(b, false, [=](float x) { return math::min(math::max(alpha * x + beta, 0.0f), 1.0f); });
}

// f(x, channel) on axis 1.
template <class F>
std::unique_ptr<Kernel> per_channel(Build& b, F f) {
  b.expect_results(1);
  const int32_t x = b.read("x"), out = b.result();
  const Shape& shape = b.shape("x");
  b.require(shape.size() >= 2, "x must have a channel axis");
  b.expect(shape);
  const int64_t channels = shape[1], inner = b.at(out).count / (shape[0] * channels);
  const Finish finish = b.finish();
  return kernel([=](const Frame& frame) {
    const float* from = frame.in(x);
    float* to = frame.out(out);
    chunks(*frame.parallel, shape[0] * channels, std::max<int64_t>(1, kGrain / inner), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        f(frame, from + row * inner, to + row * inner, inner, row % channels);
        finish(to + row * inner, inner);
      }
    });
  });
}

int32_t channel_values(Build& b, const char* name) {
  const int32_t id = b.read(name);
  const Shape& shape = b.shape("x");
  const int64_t n = b.at(id).count;
  b.require(shape.size() >= 2 && (n == shape[1] || n == 1) && b.at(id).shape.size() <= 1,
            "needs one value for each channel");
  return id;
}

std::unique_ptr<Kernel> make_prelu(Build& b) {
  const int32_t alpha = channel_values(b, "alpha");
  const bool single = b.at(alpha).count == 1;
  return per_channel(b, [=](const Frame& frame, const float* from, float* to, int64_t n, int64_t channel) {
    const float a = frame.in(alpha)[single ? 0 : channel];
    for (int64_t i = 0; i < n; ++i) to[i] = from[i] >= 0 ? from[i] : a * from[i];
  });
}

std::unique_ptr<Kernel> make_softplus_parametric(Build& b) {
  const int32_t alpha = channel_values(b, "alpha"), beta = channel_values(b, "beta");
  const bool one_alpha = b.at(alpha).count == 1, one_beta = b.at(beta).count == 1;
  return per_channel(b, [=](const Frame& frame, const float* from, float* to, int64_t n, int64_t channel) {
    const float a = frame.in(alpha)[one_alpha ? 0 : channel], c = frame.in(beta)[one_beta ? 0 : channel];
    for (int64_t i = 0; i < n; ++i) to[i] = a * math::softplus(c * from[i]);
  });
}

}  // namespace

void register_activation(KernelTable& t) {
  t["relu"] = make_relu;
  t["relu6"] = make_relu6;
  t["sigmoid"] = make_sigmoid;
  t["tanh"] = make_tanh;
  t["silu"] = make_silu;
  t["softsign"] = make_softsign;
  t["softplus"] = make_softplus;
  t["softplus_parametric"] = make_softplus_parametric;
  t["gelu"] = make_gelu;
  t["elu"] = make_elu;
  t["leaky_relu"] = make_leaky_relu;
  t["thresholded_relu"] = make_thresholded_relu;
  t["clamped_relu"] = make_clamped_relu;
  t["scaled_tanh"] = make_scaled_tanh;
  t["sigmoid_hard"] = make_sigmoid_hard;
  t["prelu"] = make_prelu;
}

}  // namespace aneforge::host
