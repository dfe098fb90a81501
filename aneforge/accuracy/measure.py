"""How far two tensors are apart, and the limits that fp16 and the engine set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

HALF_MAX = 65504.0
"""The largest finite fp16."""
PRODUCT_MAX = 32752.0
"""The largest sum of a convolution, matmul or linear that the engine keeps (Q04)."""


@dataclass(frozen=True)
class Error:
    """`relative`: max|d| / max|ref| (max|d| where the reference is all 0; the share of cells that differ for bools and
    integers); infinite where a number became none. `cosine`: of the two as vectors."""

    relative: float = 0.0
    cosine: float = 1.0

    def worst(self, other: Error) -> Error:
        return Error(max(self.relative, other.relative), min(self.cosine, other.cosine))


LOST = Error(float("inf"), 0.0)


def error(got: Array, want: Array) -> Error:
    """How far `got` is from `want`. Infinities and NaN that both have count for nothing."""
    if got.shape != want.shape:
        return LOST
    if want.size == 0:
        return Error()
    if want.dtype.kind != "f":
        share = float(np.mean(got != want))
        return Error(share, 1.0 - share)
    a, b = got.ravel(), want.ravel()
    finite = np.isfinite(b)
    if not finite.all():
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return LOST
        a, b = a[finite], b[finite]
        if not a.size:
            return Error()
    if not np.isfinite(a).all():
        return LOST
    scale = peak(b)
    wide = "f8" if a.dtype.itemsize > 4 or b.dtype.itemsize > 4 else "f4"
    a, b = (np.divide(v, scale or 1.0, dtype=wide) for v in (a, b))  # so that no square overflows
    apart = peak(a - b)
    norms = math.sqrt(_product(a, a) * _product(b, b))
    return Error(apart, min(1.0, _product(a, b) / norms) if norms else float(apart == 0.0))


def _product(a: Array, b: Array) -> float:
    """Their scalar product. Not BLAS, whose threads would wait for those of others here."""
    return float((a * b).sum(dtype=np.float64))


def peak(values: Array) -> float:
    """The largest size of a finite element; 0 if there is none."""
    if values.size == 0 or values.dtype.kind == "b":
        return 0.0
    low, high = float(values.min()), float(values.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        values = values[np.isfinite(values)]
        if not values.size:
            return 0.0
        low, high = float(values.min()), float(values.max())
    return max(-low, high, 0.0)
