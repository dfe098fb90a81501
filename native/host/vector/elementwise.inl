// One operation over many vectors, one loop an operation.
#pragma once
#include "host/vector/math.inl"
#include "host/vector/tile.inl"

namespace aneforge::vec::ANEFORGE_V16_NS {

template <class F>
V16_INLINE void map1(const float* x, float* out, size_t vectors, Rounding rounding, F f) {
  if (rounding == Rounding::kNone) {
    for (size_t i = 0; i < vectors; ++i) store(out + i * kLanes, f(load(x + i * kLanes)));
  } else if (rounding == Rounding::kHalf) {
    for (size_t i = 0; i < vectors; ++i) store(out + i * kLanes, to_half_and_back(f(load(x + i * kLanes))));
  } else {
    for (size_t i = 0; i < vectors; ++i) store(out + i * kLanes, settle(f(load(x + i * kLanes)), Rounding::kHalfNoNan));
  }
}

// The same for operations whose results are among the values they read (or exact): nothing to round.
template <class F>
V16_INLINE void map1_exact(const float* x, float* out, size_t vectors, Rounding rounding, F f) {
  if (rounding == Rounding::kHalfNoNan) {
    for (size_t i = 0; i < vectors; ++i) store(out + i * kLanes, nan_to_zero(f(load(x + i * kLanes))));
  } else {
    for (size_t i = 0; i < vectors; ++i) store(out + i * kLanes, f(load(x + i * kLanes)));
  }
}

template <class F>
V16_INLINE void map2_from(const float* x, const float* y, ptrdiff_t y_step, float* out, size_t vectors,
                          Rounding rounding, F f) {
  if (rounding == Rounding::kNone) {
    for (size_t i = 0; i < vectors; ++i, y += y_step) store(out + i * kLanes, f(load(x + i * kLanes), load(y)));
  } else {
    for (size_t i = 0; i < vectors; ++i, y += y_step)
      store(out + i * kLanes, settle(f(load(x + i * kLanes), load(y)), rounding));
  }
}
template <class F>
V16_INLINE void map2(const float* x, const float* y, ptrdiff_t y_step, float* out, size_t vectors, Rounding rounding,
                     F f) {
  if (y_step == 0) {
    const V operand = load(y);
    map1(x, out, vectors, rounding, [&](V v) V16_LAMBDA { return f(v, operand); });
  } else {
    map2_from(x, y, y_step, out, vectors, rounding, f);
  }
}

#define V16_BINARY(name, expression)                                                                                  \
  inline void elementwise_##name(const float* x, const float* y, ptrdiff_t y_step, float* out, size_t vectors, float, \
                                 float, Rounding rounding) {                                                          \
    map2(x, y, y_step, out, vectors, rounding, [](V a, V b) V16_LAMBDA { return expression; });                       \
  }
V16_BINARY(add, add(a, b))
V16_BINARY(sub, sub(a, b))
V16_BINARY(reverse_sub, sub(b, a))
V16_BINARY(mul, mul(a, b))
V16_BINARY(div, div(a, b))
V16_BINARY(reverse_div, div(b, a))
V16_BINARY(maximum, select(is_nan(a), a, max(a, b)))
V16_BINARY(minimum, select(is_nan(a), a, min(a, b)))
V16_BINARY(prelu, select(less(a, splat(0.0f)), mul(a, b), a))
#undef V16_BINARY

// p = alpha, q = beta as vectors.
#define V16_UNARY(name, expression)                                                                                \
  inline void elementwise_##name(const float* x, const float*, ptrdiff_t, float* out, size_t vectors, float alpha, \
                                 float beta, Rounding rounding) {                                                  \
    const V p = splat(alpha), q = splat(beta);                                                                     \
    (void)p, (void)q;                                                                                              \
    map1(x, out, vectors, rounding, [&](V a) V16_LAMBDA { return expression; });                                   \
  }
#define V16_UNARY_EXACT(name, expression)                                                                          \
  inline void elementwise_##name(const float* x, const float*, ptrdiff_t, float* out, size_t vectors, float alpha, \
                                 float beta, Rounding rounding) {                                                  \
    const V p = splat(alpha), q = splat(beta);                                                                     \
    (void)p, (void)q;                                                                                              \
    map1_exact(x, out, vectors, rounding, [&](V a) V16_LAMBDA { return expression; });                             \
  }
V16_UNARY(copy, a)
V16_UNARY_EXACT(relu, max(splat(0.0f), a))
V16_UNARY_EXACT(clamp, min(q, max(p, a)))
V16_UNARY(leaky_relu, select(less(a, splat(0.0f)), mul(a, p), a))
V16_UNARY(clamped_relu, min(q, select(less(a, splat(0.0f)), mul(a, p), a)))
V16_UNARY(elu, select(less(splat(0.0f), a), a, mul(p, exp_minus_one(a))))
V16_UNARY_EXACT(thresholded_relu, select(less(a, p), splat(0.0f), a))
V16_UNARY(affine, add(mul(a, p), q))
V16_UNARY(sigmoid, sigmoid(a))
V16_UNARY(hard_sigmoid, min(splat(1.0f), max(splat(0.0f), add(mul(a, p), q))))
V16_UNARY(silu, div(a, add(splat(1.0f), exp(negate(mul(p, a))))))
V16_UNARY(gate_sigmoid, mul(a, settle(sigmoid(a), rounding)))
V16_UNARY(gate_hard_sigmoid, mul(a, settle(min(splat(1.0f), max(splat(0.0f), add(mul(a, p), q))), rounding)))
V16_UNARY(tanh, tanh(a))
V16_UNARY(scaled_tanh, mul(p, tanh(mul(q, a))))
V16_UNARY(gelu, mul(a, normal_distribution(a)))
// sqrt(2 / pi) and 0.044715 as everywhere; (1 + tanh(t)) / 2 = sigmoid(2 t), which does not cancel for negative t.
V16_UNARY(gelu_tanh, mul(a, sigmoid(mul(mul(splat(1.5957691216f), a), fma(mul(splat(0.044715f), a), a, splat(1.0f))))))
V16_UNARY(softplus, softplus(a))
V16_UNARY(softsign,
          select(equal(absolute(a), splat(INFINITY)), copy_sign(splat(1.0f), a), div(a, add(splat(1.0f), absolute(a)))))
V16_UNARY(erf, erf(a))
V16_UNARY(exp, exp(a))
V16_UNARY(log, log(add(a, p)))
V16_UNARY(sqrt, sqrt(a))
V16_UNARY(rsqrt, div(splat(1.0f), sqrt(add(a, p))))
V16_UNARY(inverse, div(splat(1.0f), add(a, p)))
V16_UNARY(square, mul(a, a))
V16_UNARY_EXACT(abs, absolute(a))
V16_UNARY_EXACT(negate, negate(a))
V16_UNARY_EXACT(floor, floor(a))
V16_UNARY_EXACT(ceil, ceil(a))
#undef V16_UNARY
#undef V16_UNARY_EXACT

inline void fill_elementwise(Kernels& k) {
  const auto set = [&](Elementwise op, ElementwiseFn fn) { k.elementwise[static_cast<size_t>(op)] = fn; };
  set(Elementwise::kAdd, elementwise_add);
  set(Elementwise::kSub, elementwise_sub);
  set(Elementwise::kReverseSub, elementwise_reverse_sub);
  set(Elementwise::kMul, elementwise_mul);
  set(Elementwise::kDiv, elementwise_div);
  set(Elementwise::kReverseDiv, elementwise_reverse_div);
  set(Elementwise::kMaximum, elementwise_maximum);
  set(Elementwise::kMinimum, elementwise_minimum);
  set(Elementwise::kPrelu, elementwise_prelu);
  set(Elementwise::kCopy, elementwise_copy);
  set(Elementwise::kRelu, elementwise_relu);
  set(Elementwise::kClamp, elementwise_clamp);
  set(Elementwise::kLeakyRelu, elementwise_leaky_relu);
  set(Elementwise::kClampedRelu, elementwise_clamped_relu);
  set(Elementwise::kElu, elementwise_elu);
  set(Elementwise::kThresholdedRelu, elementwise_thresholded_relu);
  set(Elementwise::kAffine, elementwise_affine);
  set(Elementwise::kSigmoid, elementwise_sigmoid);
  set(Elementwise::kHardSigmoid, elementwise_hard_sigmoid);
  set(Elementwise::kSilu, elementwise_silu);
  set(Elementwise::kGateSigmoid, elementwise_gate_sigmoid);
  set(Elementwise::kGateHardSigmoid, elementwise_gate_hard_sigmoid);
  set(Elementwise::kTanh, elementwise_tanh);
  set(Elementwise::kScaledTanh, elementwise_scaled_tanh);
  set(Elementwise::kGelu, elementwise_gelu);
  set(Elementwise::kGeluTanh, elementwise_gelu_tanh);
  set(Elementwise::kSoftplus, elementwise_softplus);
  set(Elementwise::kSoftsign, elementwise_softsign);
  set(Elementwise::kErf, elementwise_erf);
  set(Elementwise::kExp, elementwise_exp);
  set(Elementwise::kLog, elementwise_log);
  set(Elementwise::kSqrt, elementwise_sqrt);
  set(Elementwise::kRsqrt, elementwise_rsqrt);
  set(Elementwise::kInverse, elementwise_inverse);
  set(Elementwise::kSquare, elementwise_square);
  set(Elementwise::kAbs, elementwise_abs);
  set(Elementwise::kNegate, elementwise_negate);
  set(Elementwise::kFloor, elementwise_floor);
  set(Elementwise::kCeil, elementwise_ceil);
}

}  // namespace aneforge::vec::ANEFORGE_V16_NS
