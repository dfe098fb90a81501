"""Rounding and remainders.

Two rules shape every form here: a scalar multiply right after floor or ceil is lost on the engine (Q15), so doubling
is h + h and factors are full-shape constants; and the engine's own `round` is wrong for ties and above 1024 (Q16,
Q17), so it is never used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..ir import Tensor, const
from . import compare as c
from . import elementwise as e
from .activation import relu
from .base import Operand
from .masks import broadcast_to, filled


def _factor(value: Operand, shape: tuple[int, ...]) -> Tensor:
    """A multiplier for a rounded value, never of size 1."""
    if isinstance(value, Tensor):
        return broadcast_to(value, shape)
    array = np.asarray(value)
    if array.size == 1:
        scalar = float(array.reshape(()))
        if float(np.float32(scalar)) == scalar:
            return const(filled(shape, scalar))
    return const(np.broadcast_to(array, shape))


def round_half_even(x: Tensor) -> Tensor:
    """Nearest whole number, ties to even (ONNX Round), exact for every finite fp16.

    f = floor(x), d = x - f, odd = f - 2 floor(x / 2) [equal parity as floor(f / 2)]; f + 1 if d > 1/2, f + odd if d =
    1/2, else f.
    """
    below = e.floor(x)
    rest = e.sub(x, below)
    half = e.floor(e.mul(x, 0.5))
    odd = e.sub(below, e.add(half, half))
    tie = c.select(c.equal(rest, 0.5), e.add(below, odd), below)
    return c.select(c.greater(rest, 0.5), e.add(below, 1.0), tie)


def trunc(x: Tensor) -> Tensor:
    """Towards zero: floor(relu(x)) - floor(relu(-x)), exact for every finite fp16."""
    return e.sub(e.floor(relu(x)), e.floor(relu(e.mul(x, -1.0))))


def mod_floor(x: Tensor, divisor: Operand) -> Tensor:
    """x - y * floor(x / y), the sign of the divisor (ONNX Mod, fmod=0).

    x / y is rounded to fp16, so the quotient may be one off: the remainder is brought back into [0, y) afterwards.
    Exact for whole numbers up to 200 with divisors up to 10; beyond, as exact as fp16 holds x.
    """
    return _remainder(x, divisor)


def mod_trunc(x: Tensor, divisor: Operand) -> Tensor:
    """C's fmod, the sign of x (ONNX Mod, fmod=1): |x| reduced by |y|, then the sign of x put back."""
    size = e.abs(x)
    by = e.abs(divisor) if isinstance(divisor, Tensor) else np.abs(np.asarray(divisor))
    return e.mul(e.sign(x), _remainder(size, by))


def div_trunc(x: Tensor, divisor: NDArray[np.float64]) -> Tensor:
    """x / y towards zero (ONNX Div of integers), for whole numbers of |x| + 2 |y| up to 2048.

    The rounded quotient of |x| and |y| may be one off; the remainder tells.
    """
    size = e.abs(x)
    quotient = e.floor(e.real_div(size, np.abs(divisor)))
    full = _factor(np.abs(divisor), quotient.shape)
    rest = e.sub(broadcast_to(size, quotient.shape), e.mul(quotient, full))
    quotient = c.select(c.less(rest, 0.0), e.sub(quotient, 1.0), quotient)
    quotient = c.select(c.greater_equal(rest, full), e.add(quotient, 1.0), quotient)
    return e.mul(quotient, e.sign(e.mul(x, np.sign(divisor))))


def _remainder(x: Tensor, divisor: Operand) -> Tensor:
    quotient = e.floor(e.real_div(x, divisor))
    full = _factor(divisor, quotient.shape)
    rest = e.sub(broadcast_to(x, quotient.shape), e.mul(quotient, full))
    if not isinstance(divisor, Tensor) and (np.asarray(divisor) > 0).all():
        rest = c.select(c.less(rest, 0.0), e.add(rest, full), rest)
        return c.select(c.greater_equal(rest, full), e.sub(rest, full), rest)
    # The sign of the divisor decides the range: compare rest * sign(y) with 0 and |y|.
    sign = e.sign(full)
    size = e.abs(full)
    rest = c.select(c.less(e.mul(rest, sign), 0.0), e.add(rest, full), rest)
    return c.select(c.greater_equal(e.mul(rest, sign), size), e.sub(rest, full), rest)


def wrapped(x: Tensor, span: tuple[float, float], limits: tuple[float, float]) -> Tensor:
    """Whole numbers of the interval `span`, brought into `limits` by one period up or down, as integers overflow."""
    low, high = limits
    period = high - low + 1
    if span[0] < low:
        x = c.select(c.less(x, low), e.add(x, period), x)
    if span[1] > high:
        x = c.select(c.greater(x, high), e.sub(x, period), x)
    return x
