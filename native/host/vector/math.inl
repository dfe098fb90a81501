// exp, log, tanh, erf and what is made of them, on 16 floats. Polynomials of fixed form: the same bits on every
// machine, within about 2 units in the last place of fp32 (checked in tests/native/vector_selftest.cc), so that the
// half they are rounded to is the correctly rounded one but for about one value in some thousands.
#pragma once
#include "host/vector/v16.h"

namespace aneforge::vec::ANEFORGE_V16_NS {

// exp(r) for |r| <= ln(2)/2; coefficients of Cephes' expf.
V16_INLINE V exp_near_zero(V r) {
  V p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  return add(fma(mul(r, r), p, r), splat(1.0f));
}

// exp over the whole range: subnormal results, 0 and infinity included. A NaN passes.
V16_INLINE V exp(V x) {
  x = min(splat(89.0f), max(splat(-104.0f), x));
  const V n = nearest(mul(x, splat(1.44269504088896341f)));
  V r = fma(n, splat(-0.693359375f), x);
  r = fma(n, splat(2.12194440e-4f), r);
  return scale_by_power(exp_near_zero(r), n);  // n may leave the range of normal numbers
}

// exp(x) - 1 without cancellation, for x <= 0 (elu).
V16_INLINE V exp_minus_one(V x) {
  // |x| < 1/2: the polynomial of exp without its leading 1.
  V p = splat(1.9875691500e-4f);
  p = fma(p, x, splat(1.3981999507e-3f));
  p = fma(p, x, splat(8.3334519073e-3f));
  p = fma(p, x, splat(4.1665795894e-2f));
  p = fma(p, x, splat(1.6666665459e-1f));
  p = fma(p, x, splat(5.0000001201e-1f));
  const V near = fma(mul(x, x), p, x);
  return select(less(absolute(x), splat(0.35f)), near, sub(exp(x), splat(1.0f)));
}

// log; log(0) = -inf, log(negative) = NaN, log(inf) = inf. Coefficients of Cephes' logf.
V16_INLINE V log(V x) {
  const Mask tiny = less(x, splat(1.17549435e-38f));  // subnormal: scaled up first
  const V scaled = select(tiny, mul(x, splat(8388608.0f)), x);
  V e;
  const V m = sub(split_exponent(scaled, &e), splat(1.0f));
  e = select(tiny, sub(e, splat(23.0f)), e);
  const V z = mul(m, m);
  V p = splat(7.0376836292e-2f);
  p = fma(p, m, splat(-1.1514610310e-1f));
  p = fma(p, m, splat(1.1676998740e-1f));
  p = fma(p, m, splat(-1.2420140846e-1f));
  p = fma(p, m, splat(1.4249322787e-1f));
  p = fma(p, m, splat(-1.6668057665e-1f));
  p = fma(p, m, splat(2.0000714765e-1f));
  p = fma(p, m, splat(-2.4999993993e-1f));
  p = fma(p, m, splat(3.3333331174e-1f));
  V y = mul(mul(m, z), p);
  y = fma(e, splat(-2.12194440e-4f), y);
  y = fma(z, splat(-0.5f), y);
  y = fma(e, splat(0.693359375f), add(m, y));
  y = select(equal(x, splat(0.0f)), splat(-INFINITY), y);
  y = select(equal(x, splat(INFINITY)), x, y);
  y = select(less(x, splat(0.0f)), splat(NAN), y);
  return select(is_nan(x), x, y);
}

// 1 / (1 + exp(-x)).
V16_INLINE V sigmoid(V x) { return div(splat(1.0f), add(splat(1.0f), exp(negate(x)))); }

V16_INLINE V tanh(V x) {
  const V t = absolute(x);
  const V z = mul(x, x);
  V p = splat(-5.70498872745e-3f);
  p = fma(p, z, splat(2.06390887954e-2f));
  p = fma(p, z, splat(-5.37397155531e-2f));
  p = fma(p, z, splat(1.33314422036e-1f));
  p = fma(p, z, splat(-3.33332819422e-1f));
  const V near = fma(mul(p, z), x, x);
  const V far = sub(splat(1.0f), div(splat(2.0f), add(exp(add(t, t)), splat(1.0f))));
  return copy_sign(select(less(t, splat(0.625f)), near, far), x);  // -0 stays
}

// erf of t < 0.93 over t: x * (1 + q(x^2)). Near-minimax; the form is well known (N. Juffa).
V16_INLINE V erf_near(V x) {
  const V s = mul(x, x);
  V r = splat(-5.96761703e-4f);
  r = fma(r, s, splat(4.99119423e-3f));
  r = fma(r, s, splat(-2.67681349e-2f));
  r = fma(r, s, splat(1.12819925e-1f));
  r = fma(r, s, splat(-3.76125336e-1f));
  r = fma(r, s, splat(1.28379166e-1f));
  return fma(r, x, x);
}

V16_INLINE V erf(V x) {
  const V t = absolute(x), s = mul(x, x);
  V r = fma(splat(-1.72853470e-5f), t, splat(3.83197126e-4f));
  const V u = fma(splat(-3.88396438e-3f), t, splat(2.42546219e-2f));
  r = fma(r, s, u);
  r = fma(r, t, splat(-1.06777877e-1f));
  r = fma(r, t, splat(-6.34846687e-1f));
  r = fma(r, t, splat(-1.28717512e-1f));
  r = fma(r, t, negate(t));
  V far = sub(splat(1.0f), exp(r));
  far = copy_sign(select(less(splat(4.0f), t), splat(1.0f), far), x);  // beyond 4 the polynomial means nothing
  far = select(is_nan(x), x, far);
  return select(less(splat(0.927734375f), t), far, select(is_nan(x), x, erf_near(x)));
}

// (1 + erf(x / sqrt 2)) / 2, the normal distribution, with small relative error on both sides: beyond |x| = 1.2 as
// exp(-x^2 / 2) * erfcx(|x| / sqrt 2) / 2, the latter a polynomial in 1 / (1 + |x| / sqrt 8) fitted to 2e-9.
V16_INLINE V normal_distribution(V x) {
  const V c = min(splat(14.0f), max(splat(-14.0f), x));  // exp(-98) is 0 for every purpose
  const V near = fma(splat(0.5f), erf_near(mul(c, splat(0.70710678f))), splat(0.5f));
  const V h = mul(c, c), lost = fma(c, c, negate(h));  // c * c exactly: h + lost
  const V u = div(splat(1.0f), fma(absolute(c), splat(0.35355339f), splat(1.0f)));
  V p = splat(-0.07531356066f);
  p = fma(p, u, splat(0.35519751906f));
  p = fma(p, u, splat(-0.61847233772f));
  p = fma(p, u, splat(0.41445669532f));
  p = fma(p, u, splat(-0.11355590075f));
  p = fma(p, u, splat(0.23779022694f));
  p = fma(p, u, splat(0.23415730894f));
  p = fma(p, u, splat(0.28375855088f));
  p = fma(p, u, splat(0.28196895123f));
  p = fma(p, u, splat(4.1712764869e-6f));
  V tail = mul(exp(mul(h, splat(-0.5f))), mul(p, splat(0.5f)));
  tail = fma(tail, mul(lost, splat(-0.5f)), tail);
  const V far = select(less(splat(0.0f), c), sub(splat(1.0f), tail), tail);
  return select(less(absolute(c), splat(1.2f)), near, far);
}

// log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)).
V16_INLINE V softplus(V x) {
  const V t = exp(negate(absolute(x)));
  // log(1 + t) for t in [0, 1]: what 1 + t loses in rounding is put back.
  const V s = add(splat(1.0f), t);
  const V lost = sub(t, sub(s, splat(1.0f)));
  const V l = add(log(s), div(lost, s));
  return add(max(splat(0.0f), x), l);
}

}  // namespace aneforge::vec::ANEFORGE_V16_NS
