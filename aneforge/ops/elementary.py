"""Trigonometric and hyperbolic functions, none of which engines have in a usable form.

Arguments are brought near 0 first, where an odd polynomial keeps every digit of small results. The polynomials have the
least relative error on their ranges, below what fp16 can tell. Sources of the need: atan has seams (Q25), A13 and A14
have no sin (Q47), the others do not compile at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..ir import Tensor, const
from . import compare as c
from . import elementwise as e

# pi in three fp16 pieces. The first two have few significant bits, so that k times them is exact for |k| <= 227, and
# taking them from x in turn loses nothing.
_PI_HIGH, _PI_MIDDLE = 3.0, 0.140625
_PI_LOW = math.pi - 3.140625
_HALF_PI_HIGH, _HALF_PI_LOW = 1.5703125, math.pi / 2 - 1.5703125

# Coefficients, low first, of f(r) / r in r * r; where the first is 1 it is not listed.
_SINE = (-0.16665889, 0.00831595, -0.00018608)
_ATAN = (-0.3329946, 0.19563591, -0.12123904, 0.05747728, -0.01348045)  # r in [0, 1]
_ASIN = (0.1668522, 0.07148401, 0.06506756)  # r in [0, 1/2]
_ATANH = (0.33403907, 0.18662953, 0.22000714)  # r in [0, 1/2]
_ASINH = (-0.16622225, 0.07097258, -0.03091965, 0.00755807)  # r in [0, 1]
_SINH = (0.16655653, 0.00863188)  # r in [0, 1]


def _odd(r: Tensor, coefficients: Sequence[float]) -> Tensor:
    """r (1 + c0 r² + c1 r⁴ + …)."""
    z = e.mul(r, r)
    out = e.mul(z, coefficients[-1])
    for value in reversed(coefficients[:-1]):
        out = e.mul(e.add(out, value), z)
    return e.add(r, e.mul(r, out))


def _signed(x: Tensor, size: Tensor) -> Tensor:
    return e.mul(e.sign(x), size)


def sine(x: Tensor) -> Tensor:
    """sin by range reduction to ±pi/2 and a polynomial: k = floor(x / pi + 1/2), r = x - k pi, ±r P(r²).

    Absolute error below 1.1e-3 for |x| <= 700; beyond, fp16 does not hold k exactly enough.
    """
    k = e.floor(e.add(e.mul(x, 1.0 / math.pi), 0.5))
    r = e.sub(e.sub(e.sub(x, _times(k, _PI_HIGH)), _times(k, _PI_MIDDLE)), _times(k, _PI_LOW))
    return _odd(_alternating(r, k), _SINE)


def cosine(x: Tensor) -> Tensor:
    """cos as `sine`: k = floor(x / pi), r = x - (k + 1/2) pi, -±sin(r); x + pi/2 would lose digits of large x."""
    k = e.floor(e.mul(x, 1.0 / math.pi))
    r = e.sub(e.sub(e.sub(x, _times(k, _PI_HIGH)), _times(k, _PI_MIDDLE)), _HALF_PI_HIGH)
    r = e.sub(r, e.add(_times(k, _PI_LOW), _HALF_PI_LOW))
    return e.mul(_odd(_alternating(r, k), _SINE), -1.0)


def tangent(x: Tensor) -> Tensor:
    """sin / cos, each with its own reduction, so that both zeros and poles keep their digits."""
    return e.real_div(sine(x), cosine(x))


def _times(k: Tensor, factor: float) -> Tensor:
    """A rounded value times a number: as a full-shape constant, since the engine drops scalar factors there (Q15)."""
    return e.mul(k, const(np.broadcast_to(np.float64(factor), k.shape)))


def _alternating(r: Tensor, k: Tensor) -> Tensor:
    """r, or -r where k is odd."""
    half = e.floor(_times(k, 0.5))
    odd = e.sub(k, e.add(half, half))
    return e.mul(r, e.sub(1.0, e.add(odd, odd)))


def arc_tangent(x: Tensor) -> Tensor:
    """atan: a polynomial of r = min(|x|, 1 / |x|), and pi/2 less it where |x| > 1."""
    size = e.abs(x)
    r = e.minimum(size, e.inverse(e.maximum(size, 1.0), 0.0))
    near = _odd(r, _ATAN)
    return _signed(x, c.select(c.greater(size, 1.0), e.sub(math.pi / 2, near), near))


def _arc_parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(|x|, |x| > 1/2, asin(t)) with t = |x|, or sqrt((1 - |x|) / 2) beyond 1/2, which is exact below the root."""
    size = e.abs(x)
    far = c.greater(size, 0.5)
    t = c.select(far, e.sqrt(e.mul(e.sub(1.0, e.minimum(size, 1.0)), 0.5)), size)
    return size, far, _odd(t, _ASIN)


def arc_sine(x: Tensor) -> Tensor:
    """asin(x) for |x| <= 1/2, ±(pi/2 - 2 asin(sqrt((1 - |x|) / 2))) beyond; ±pi/2 outside [-1, 1], where it is none."""
    _, far, part = _arc_parts(x)
    return _signed(x, c.select(far, e.sub(math.pi / 2, e.add(part, part)), part))


def arc_cosine(x: Tensor) -> Tensor:
    """pi/2 - asin(x) for |x| <= 1/2; 2 asin(sqrt((1 - x) / 2)) above, pi less that of -x below: digits near 1 stay."""
    _, far, part = _arc_parts(x)
    twice = e.add(part, part)
    outer = c.select(c.greater(x, 0.0), twice, e.sub(math.pi, twice))
    return c.select(far, outer, e.sub(math.pi / 2, _signed(x, part)))


def hyperbolic_sine(x: Tensor) -> Tensor:
    """A polynomial up to 1; beyond, (h/2) h - exp(-|x|) / 2 with h = exp(|x| / 2), which does not overflow before the
    result does."""
    size = e.abs(x)
    near = _odd(e.minimum(size, 1.0), _SINH)
    grown, shrunk = _exponentials(size)
    return _signed(x, c.select(c.greater(size, 1.0), e.sub(grown, shrunk), near))


def hyperbolic_cosine(x: Tensor) -> Tensor:
    """(h/2) h + exp(-|x|) / 2, h = exp(|x| / 2)."""
    return e.add(*_exponentials(e.abs(x)))


def _exponentials(size: Tensor) -> tuple[Tensor, Tensor]:
    """exp(size) / 2 and exp(-size) / 2."""
    h = e.exp(e.mul(size, 0.5))
    return e.mul(e.mul(h, 0.5), h), e.mul(e.exp(e.mul(size, -1.0)), 0.5)


def _area_sine_of(size: Tensor) -> Tensor:
    """asinh of what is not negative: a polynomial up to 1; beyond, log(a) + log(1 + sqrt(1 + 1 / a²)): a² overflows."""
    near = _odd(e.minimum(size, 1.0), _ASINH)
    far = e.maximum(size, 1.0)
    r = e.inverse(far, 0.0)
    tail = e.log(e.add(e.sqrt(e.add(e.mul(r, r), 1.0)), 1.0), 0.0)
    return c.select(c.greater(size, 1.0), e.add(e.log(far, 0.0), tail), near)


def area_sine(x: Tensor) -> Tensor:
    """asinh."""
    return _signed(x, _area_sine_of(e.abs(x)))


def area_cosine(x: Tensor) -> Tensor:
    """acosh(x) = 2 asinh(sqrt((x - 1) / 2)): x - 1 is exact near 1, where log(x + sqrt(x² - 1)) has no digits. 0 below
    1, where it is none."""
    half = _area_sine_of(e.sqrt(e.mul(e.sub(e.maximum(x, 1.0), 1.0), 0.5)))
    return e.add(half, half)


def area_tangent(x: Tensor) -> Tensor:
    """atanh: a polynomial up to 1/2; beyond, -log((1 - a) / (1 + a)) / 2, whose numerator is exact; infinite at ±1."""
    size = e.minimum(e.abs(x), 1.0)
    near = _odd(e.minimum(size, 0.5), _ATANH)
    far = e.mul(e.log(e.real_div(e.sub(1.0, size), e.add(size, 1.0)), 0.0), -0.5)
    return _signed(x, c.select(c.greater(size, 0.5), far, near))
