"""Truth values. Inside a program they are bool tensors (from comparisons) or masks, fp16 tensors of 0 and 1.

The engine has comparisons, `logical_not` and `select`, no other logic: and, or, xor are arithmetic on masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Tensor, const
from . import compare as c
from . import elementwise as e
from . import shape as s
from .base import Operand, broadcast, operand


@lru_cache(maxsize=512)
def filled(shape: tuple[int, ...], value: float) -> NDArray[np.float32]:
    """An array of one value that takes no memory; equal calls give the same array, so that a program holds it once."""
    return np.broadcast_to(np.float32(value), shape)


def as_mask(cond: Tensor) -> Tensor:
    """bool -> fp16 0 or 1. Select with full-shape constants: a cast is unproven, a broadcasting select never tested."""
    return c.select(cond, const(filled(cond.shape, 1.0)), const(filled(cond.shape, 0.0)))


def as_bool(x: Tensor) -> Tensor:
    """fp16 -> bool: x != 0."""
    return c.not_equal(x, 0.0)


def mask_and(a: Operand, b: Operand) -> Tensor:
    """Both, on masks: a * b."""
    return e.mul(a, b)


def mask_or(a: Operand, b: Operand) -> Tensor:
    """Either, on masks: the greater."""
    return e.maximum(a, b)


def mask_xor(a: Operand, b: Operand) -> Tensor:
    """One but not both, on masks: |a - b|."""
    return e.abs(e.sub(a, b))


def mask_not(a: Operand) -> Tensor:
    """The other, on masks: 1 - a."""
    return e.sub(1.0, a)


def bool_and(a: Tensor, b: Tensor) -> Tensor:
    """Logical and of bool tensors, through masks."""
    return as_bool(mask_and(as_mask(a), as_mask(b)))


def bool_or(a: Tensor, b: Tensor) -> Tensor:
    """Logical or of bool tensors, through masks."""
    return as_bool(mask_or(as_mask(a), as_mask(b)))


def bool_xor(a: Tensor, b: Tensor) -> Tensor:
    """Exclusive or of bool tensors, through masks."""
    return as_bool(mask_xor(as_mask(a), as_mask(b)))


def broadcast_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """numpy's broadcast_to: a multiplication by ones of the new extents (exact), which is smaller and better known
    than tile.

    A bool goes through a mask.

    Raises:
        ValueError: x does not broadcast to `shape`.
    """
    want = tuple(shape)
    if broadcast("broadcast_to", x.shape, want) != want:
        raise ValueError(f"broadcast_to: {x.shape} does not broadcast to {want}")
    if x.shape == want:
        return x
    if x.dtype == "bool":
        if x.op.kind == "const":
            return const(np.broadcast_to(x.value, want), "bool")
        return as_bool(broadcast_to(as_mask(x), want))
    if x.op.kind == "const":
        return const(np.broadcast_to(x.value, want), x.dtype)
    full = (1,) * (len(want) - x.rank) + x.shape
    if full != x.shape:
        x = s.reshape(x, full)
    if full == want:
        return x
    return e.mul(x, const(filled(tuple([w if d == 1 else 1 for d, w in zip(full, want, strict=True)]), 1.0)))


def where(cond: Tensor, a: Operand, b: Operand) -> Tensor:
    """numpy's where: a where cond, else b, all three brought to one shape first, the only form of select seen on the
    engine.
    """
    dtype = next((t.dtype for t in (a, b) if isinstance(t, Tensor)), "fp16")
    yes, no = operand("where", "a", a, dtype), operand("where", "b", b, dtype)
    shape = broadcast("where", cond.shape, yes.shape, no.shape)
    if dtype == "bool":  # select takes fp16 values only
        return as_bool(where(cond, as_mask(broadcast_to(yes, shape)), as_mask(broadcast_to(no, shape))))
    return c.select(broadcast_to(cond, shape), _full(yes, shape), _full(no, shape))


def _full(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    if x.is_const and x.shape != shape and x.value.size == 1:
        value: Any = x.value.reshape(()).astype(np.float64)
        if float(np.float32(value)) == float(value):
            return const(filled(shape, float(value)))
    return broadcast_to(x, shape)
