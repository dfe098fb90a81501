"""Rotary position embeddings."""

from __future__ import annotations

import numpy as np

from ..ir import Tensor
from . import elementwise as e
from .base import Operand
from .contract import contract_axis
from .layout import gather_constant, pad_any


def rotary(x: Tensor, cos: Operand, sin: Operand, interleaved: bool = False) -> Tensor:
    """The first 2 n elements of the last axis of x turned in pairs by angles whose cosines and sines are [.., n]:
    (a, b) -> (a cos - b sin, a sin + b cos). Pairs are halves of those elements, or neighbours when interleaved.

    x * cos + x' * sin, where x' is a product with a matrix of 0, 1 and -1: no half is cut out of the last axis and none
    put back (Q08, Q09). Halves of it, doubled through the sine, keep values up to 65504 below the accumulator's limit
    (Q04).
    """
    width, half = x.shape[-1], (cos if isinstance(cos, Tensor) else np.asarray(cos)).shape[-1]
    at = np.arange(2 * half)
    pair = at // 2 if interleaved else at % half
    second = at % 2 == 1 if interleaved else at >= half
    partner = at + np.where(second, -1, 1) * (1 if interleaved else half)
    matrix = np.zeros((width, width), np.float32)
    matrix[at, partner] = np.where(second, 0.5, -0.5)
    turned = contract_axis(x, -1, matrix)
    doubled = e.mul(sin, 2.0) if isinstance(sin, Tensor) else np.asarray(sin, np.float64) * 2.0
    return e.add(e.mul(x, _spread(cos, pair, width, 1.0)), e.mul(turned, _spread(doubled, pair, width, 0.0)))


def _spread(given: Operand, pair: np.ndarray, width: int, rest: float) -> Operand:
    """Each pair's number at both of its elements, `rest` at those that are not turned."""
    beyond = width - len(pair)
    if not isinstance(given, Tensor):
        known = np.take(np.asarray(given), pair, -1)
        return np.pad(known, [(0, 0)] * (known.ndim - 1) + [(0, beyond)], constant_values=rest)
    both = gather_constant(given, pair, -1)
    return pad_any(both, [(0, 0)] * (both.rank - 1) + [(0, beyond)], value=rest) if beyond else both
