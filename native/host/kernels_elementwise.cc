// Arithmetic of two operands with NumPy broadcasting, and functions of one.
#include <cmath>
#include <limits>

#include "core/fp16.h"
#include "host/iterate.h"
#include "host/kernels.h"
#include "host/math.h"
#include "host/pointwise.h"

namespace aneforge::host {
namespace {

// One row of f(x, y); each operand advances by one or stands still.
template <class T, class R, class F>
void binary_row(const T* x, bool x_moves, const T* y, bool y_moves, R* out, int64_t n, F f) {
  if (x_moves && y_moves) {
    for (int64_t i = 0; i < n; ++i) out[i] = f(x[i], y[i]);
  } else if (x_moves) {
    const T b = *y;
    for (int64_t i = 0; i < n; ++i) out[i] = f(x[i], b);
  } else if (y_moves) {
    const T a = *x;
    for (int64_t i = 0; i < n; ++i) out[i] = f(a, y[i]);
  } else {
    const R v = f(*x, *y);
    for (int64_t i = 0; i < n; ++i) out[i] = v;
  }
}

template <class T, class F>
std::unique_ptr<Kernel> binary_of(Build& b, Storage storage, bool exact, F f) {
  b.expect_results(1);
  const int32_t x = b.read("x", storage), y = b.read("y", storage), out = b.result();
  Shape shape;
  b.require(broadcast_shape(b.shape("x"), b.shape("y"), &shape), "operands do not broadcast");
  b.expect(shape, storage);
  const Strided<2> walk = broadcast<2>(shape, {b.shape("x"), b.shape("y")});
  const bool x_moves = walk.strides.back()[0] != 0, y_moves = walk.strides.back()[1] != 0;
  const Finish finish = b.finish(exact);
  return kernel([=](const Frame& frame) {
    const T *px = frame.in<T>(x), *py = frame.in<T>(y);
    T* to = frame.out<T>(out);
    walk.run(
        *frame.parallel,
        [&](int64_t at, const std::array<int64_t, 2>& from, int64_t n) {
          binary_row(px + from[0], x_moves, py + from[1], y_moves, to + at, n, f);
        },
        [&](int64_t at, int64_t n) {
          if constexpr (std::is_same_v<T, float>) finish(to + at, n);
        });
  });
}

// int32: wraps, as two's complement does.
int32_t wrap(int64_t v) { return static_cast<int32_t>(static_cast<uint32_t>(v)); }
int64_t floor_quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  const int64_t q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

template <class F, class G>
std::unique_ptr<Kernel> binary(Build& b, bool exact, F of_floats, G of_ints) {
  if (b.value("x").storage == Storage::kInt) return binary_of<int32_t>(b, Storage::kInt, true, of_ints);
  return binary_of<float>(b, Storage::kFloat, exact, of_floats);
}

std::unique_ptr<Kernel> make_add(Build& b) {
  return binary(
      b, false, [](float x, float y) { return x + y; }, [](int32_t x, int32_t y) { return wrap(int64_t{x} + y); });
}
std::unique_ptr<Kernel> make_sub(Build& b) {
  return binary(
      b, false, [](float x, float y) { return x - y; }, [](int32_t x, int32_t y) { return wrap(int64_t{x} - y); });
}

// Q15: behind a rounding, a factor that is one number is lost.
int32_t rounded_operand(Build& b) {
  if (!b.has(Quirk::kQ15)) return -1;
  for (const auto& [rounded, other] : {std::pair("x", "y"), std::pair("y", "x")}) {
    const Value& v = b.value(rounded);
    if (v.producer < 0 || b.value(other).count != 1) continue;
    const std::string& kind = b.graph().steps[static_cast<size_t>(v.producer)].kind;
    if (kind == "floor" || kind == "ceil" || kind == "round") return b.operand(rounded);
  }
  return -1;
}

std::unique_ptr<Kernel> make_mul(Build& b) {
  if (const int32_t kept = rounded_operand(b); kept >= 0) {
    Shape shape;
    b.expect_results(1);
    b.require(broadcast_shape(b.shape("x"), b.shape("y"), &shape), "operands do not broadcast");
    b.expect(shape);
    return b.view(kept);
  }
  return binary(
      b, false, [](float x, float y) { return x * y; }, [](int32_t x, int32_t y) { return wrap(int64_t{x} * y); });
}
std::unique_ptr<Kernel> make_real_div(Build& b) {
  return binary(
      b, false, [](float x, float y) { return x / y; },
      [](int32_t x, int32_t y) { return y == 0 ? 0 : wrap(int64_t{x} / y); });
}
std::unique_ptr<Kernel> make_floor_div(Build& b) {
  return binary(
      b, false, [](float x, float y) { return std::floor(x / y); },
      [](int32_t x, int32_t y) { return wrap(floor_quotient(x, y)); });
}
std::unique_ptr<Kernel> make_mod(Build& b) {
  return binary(
      b, false, [](float x, float y) { return math::floor_mod(x, y); },
      [](int32_t x, int32_t y) { return y == 0 ? 0 : wrap(x - floor_quotient(x, y) * y); });
}
std::unique_ptr<Kernel> make_maximum(Build& b) {
  return binary(
      b, true, [](float x, float y) { return math::max(x, y); }, [](int32_t x, int32_t y) { return x > y ? x : y; });
}
std::unique_ptr<Kernel> make_minimum(Build& b) {
  return binary(
      b, true, [](float x, float y) { return math::min(x, y); }, [](int32_t x, int32_t y) { return x < y ? x : y; });
}
std::unique_ptr<Kernel> make_pow(Build& b) {
  return binary_of<float>(b, Storage::kFloat, false, [](float x, float y) { return math::pow(x, y); });
}

// Functions of one operand
// ---------------------------------------------------------------------------------------------

std::unique_ptr<Kernel> make_abs(Build& b) {
  return pointwise(b, true, [](float x) { return std::fabs(x); });
}
std::unique_ptr<Kernel> make_square(Build& b) {
  return pointwise(b, false, [](float x) { return x * x; });
}
std::unique_ptr<Kernel> make_sqrt(Build& b) {
  return pointwise(b, false, [](float x) { return std::sqrt(x); });
}
std::unique_ptr<Kernel> make_exp(Build& b) {
  return pointwise(b, false, [](float x) { return math::exp(x); });
}
std::unique_ptr<Kernel> make_exp2(Build& b) {
  return pointwise(b, false, [](float x) { return math::exp2(x); });
}
std::unique_ptr<Kernel> make_erf(Build& b) {
  return pointwise(b, false, [](float x) { return math::erf(x); });
}
std::unique_ptr<Kernel> make_sign(Build& b) {
  return pointwise(b, true, [](float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; });  // zeros and NaN as they are
}
std::unique_ptr<Kernel> make_floor(Build& b) {
  return pointwise(b, true, [](float x) { return std::floor(x); });
}
std::unique_ptr<Kernel> make_ceil(Build& b) {
  return pointwise(b, true, [](float x) { return std::ceil(x); });
}
std::unique_ptr<Kernel> make_sin(Build& b) {
  return pointwise(b, false, [](float x) { return math::sin(x); });
}
std::unique_ptr<Kernel> make_cos(Build& b) {
  return pointwise(b, false, [](float x) { return math::cos(x); });
}
std::unique_ptr<Kernel> make_tan(Build& b) {
  return pointwise(b, false, [](float x) { return math::tan(x); });
}
std::unique_ptr<Kernel> make_atan(Build& b) {
  return pointwise(b, false, [](float x) { return math::atan(x); });
}

// Half to even, whatever the thread's rounding mode: 2^23 is where floats are whole.
float round_half_even(float x) {
  const float a = std::fabs(x);
  if (!(a < 0x1p23f)) return x;
  const float r = (a + 0x1p23f) - 0x1p23f;
  return std::copysign(r, x);
}

std::unique_ptr<Kernel> make_round(Build& b) {
  const bool adds_half = b.has(Quirk::kQ16);
  if (b.has(Quirk::kQ17)) return pointwise(b, true, [=](float x) { return round_like_engine(x, adds_half); });
  if (adds_half)
    return pointwise(b, true,
                     [](float x) { return std::fabs(x) < 1024.0f ? round_half_even(x) : round_like_engine(x, true); });
  return pointwise(b, true, [](float x) { return round_half_even(x); });
}

// Defaults of epsilon where the program leaves it out (coremltools 9.0): 1e-12 and 1e-45 are 0 in fp16.
float epsilon_of(Build& b, float absent, float absent_in_half) {
  return b.number("epsilon", b.value("x").declared == mil::Element::kFp16 ? absent_in_half : absent);
}
std::unique_ptr<Kernel> make_rsqrt(Build& b) {
  const float epsilon = epsilon_of(b, 1e-12f, 0);
  return pointwise(b, false, [=](float x) { return 1.0f / std::sqrt(x + epsilon); });
}
std::unique_ptr<Kernel> make_inverse(Build& b) {
  const float epsilon = epsilon_of(b, 1e-4f, 1e-4f);
  return pointwise(b, false, [=](float x) { return 1.0f / (x + epsilon); });
}
std::unique_ptr<Kernel> make_log(Build& b) {
  const float epsilon = epsilon_of(b, 1e-45f, 0);
  if (b.has(Quirk::kQ21))
    return pointwise(b, false, [=](float x) { return x + epsilon == 0 ? kLogOfZero : math::log(x + epsilon); });
  return pointwise(b, false, [=](float x) { return math::log(x + epsilon); });
}

std::unique_ptr<Kernel> make_clip(Build& b) {
  const float low = b.number("alpha"), high = b.number("beta");
  return pointwise(b, false, [=](float x) { return math::min(math::max(x, low), high); });
}
std::unique_ptr<Kernel> make_threshold(Build& b) {
  const float alpha = b.number("alpha");
  return pointwise(b, false, [=](float x) { return math::max(x, alpha); });
}
std::unique_ptr<Kernel> make_linear_activation(Build& b) {
  const float alpha = b.number("alpha"), beta = b.number("beta");
  return pointwise(b, false, [=](float x) { return alpha * x + beta; });
}

}  // namespace

void register_elementwise(KernelTable& t) {
  t["add"] = make_add;
  t["sub"] = make_sub;
  t["mul"] = make_mul;
  t["real_div"] = make_real_div;
  t["floor_div"] = make_floor_div;
  t["mod"] = make_mod;
  t["maximum"] = make_maximum;
  t["minimum"] = make_minimum;
  t["pow"] = make_pow;
  t["abs"] = make_abs;
  t["square"] = make_square;
  t["sqrt"] = make_sqrt;
  t["rsqrt"] = make_rsqrt;
  t["inverse"] = make_inverse;
  t["exp"] = make_exp;
  t["exp2"] = make_exp2;
  t["log"] = make_log;
  t["erf"] = make_erf;
  t["sign"] = make_sign;
  t["floor"] = make_floor;
  t["ceil"] = make_ceil;
  t["round"] = make_round;
  t["sin"] = make_sin;
  t["cos"] = make_cos;
  t["tan"] = make_tan;
  t["atan"] = make_atan;
  t["clip"] = make_clip;
  t["threshold"] = make_threshold;
  t["linear_activation"] = make_linear_activation;
}

}  // namespace aneforge::host
