"""Grids of integer codes: x / scale rounded, a zero point, and back.

Codes are whole fp16 numbers of at most 8 bits. Factors may lie outside fp16's range (the inverse of a scale of 1e-5):
such a product is taken in two steps. Where x lies in the middle between two codes to within fp16's rounding of x /
scale, either of them may come out; elsewhere the code is the one that exact arithmetic gives.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..errors import Refused
from ..ir import Tensor
from . import elementwise as e
from .rounding import round_half_even

Numbers = NDArray[np.float64]
LEAST, MOST = 2.0**-14, 2.0**15
"""Factors that fp16 holds in full, and whose products with codes do not overflow."""


def scaled(x: Tensor, factor: Numbers) -> Tensor:
    """x * factor for positive factors between 2^-29 and 2^30: in two steps where one has no place in fp16.

    Raises:
        Refused: a factor outside."""
    low, high = float(factor.min()), float(factor.max())
    if low >= LEAST and high <= MOST:
        return e.mul(x, _number(factor))
    if not (low >= LEAST * 2.0**-15 and high <= MOST * MOST and math.isfinite(high)):
        raise Refused("limit", f"a scale of {low:g} to {high:g}: too far from 1 for fp16 in two steps")
    first = np.where(factor > MOST, MOST, np.where(factor < LEAST, LEAST, 1.0))
    return e.mul(e.mul(x, _number(first)), _number(factor / first))


def _number(values: Numbers) -> float | Numbers:
    return float(values.reshape(-1)[0]) if (values == values.reshape(-1)[0]).all() else values


def on_grid(t: Tensor, zero: Numbers, low: int, high: int) -> Tensor:
    """Codes of t, which counts in steps already: rounded (halves to even), moved by the zero point, saturated."""
    if (zero == zero.reshape(-1)[0]).all():
        at = float(zero.reshape(-1)[0])
        code = round_half_even(e.clip(t, low - at, high - at))
        return code if at == 0 else e.add(code, at)
    code = round_half_even(e.minimum(e.maximum(t, low - zero), high - zero))
    return e.add(code, zero)


def quantize(x: Tensor, scale: Numbers, zero: Numbers, low: int, high: int) -> Tensor:
    """Codes between low and high of x: saturate(round(x / scale) + zero). `scale` and `zero` broadcast to x."""
    return on_grid(scaled(x, 1.0 / scale), zero, low, high)


def dequantize(code: Tensor, scale: Numbers, zero: Numbers) -> Tensor:
    """(code - zero) * scale, the difference exact."""
    return scaled(code if not zero.any() else e.sub(code, _number(zero)), scale)
