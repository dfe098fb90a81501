"""Small questions that rules ask about tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Op, Tensor

VIEWS = frozenset({"reshape", "expand_dims", "squeeze", "flatten2d"})
"""Operations that keep the order of elements."""
ROUNDING = frozenset({"floor", "ceil", "round"})
FP16_MAX, FP16_TINY, FP16_LEAST = 65504.0, 2.0**-14, 2.0**-24


def scalar(x: Tensor) -> float | None:
    """The value of a constant of which all elements are equal and finite or infinite; None for anything else."""
    if x.op.kind != "const":
        return None
    value = x.op.params["value"]
    if value.size == 0 or value.dtype.kind not in "fiu":
        return None
    first = value.flat[0]
    if value.size > 1 and any(value.strides) and not ((value.flat[:16] == first).all() and (value == first).all()):
        return None
    return None if np.isnan(first) else float(first)


def constant(x: Tensor) -> NDArray[np.float64] | None:
    """A constant in float64."""
    return x.op.params["value"].astype(np.float64) if x.op.kind == "const" else None


def split_constant(op: Op) -> tuple[Tensor, Tensor] | None:
    """(computed, constant) operands of a commutative operation with exactly one constant."""
    x, y = op.operand("x"), op.operand("y")
    if x.is_const == y.is_const:
        return None
    return (y, x) if x.is_const else (x, y)


def made_by(x: Tensor, *kinds: str) -> Op | None:
    """The Op that makes x, if it is of one of these kinds."""
    return x.op if x.op.kind in kinds else None


def skip_views(x: Tensor) -> Tensor:
    """x before any operation that only changes its shape."""
    while x.op.kind in VIEWS:
        x = x.op.operand("x")
    return x


def per_channel(value: NDArray[Any], rank: int, channels: int) -> NDArray[Any] | None:
    """A constant that broadcasts to [N, C, ..] with values along axis 1 only, as [C]; None for other shapes."""
    shape = (1,) * (rank - value.ndim) + value.shape
    if len(shape) != rank or any(d != 1 for i, d in enumerate(shape) if i != 1) or shape[1] not in (1, channels):
        return None
    return np.broadcast_to(value.reshape(-1), (channels,))


def in_range(value: NDArray[Any]) -> bool:
    """Whether fp16 holds all elements with full precision (zeros aside)."""
    size = np.abs(value)
    return bool(np.isfinite(size).all() and (size <= FP16_MAX).all() and ((size >= FP16_TINY) | (size == 0)).all())


Polynomial = Mapping[int, float]


def polynomial(y: Tensor, x: Tensor, degree: int = 3, budget: int = 16) -> dict[int, float] | None:
    """y as a polynomial in x (power -> coefficient) if it is built of sums and products of x and numbers; else None."""
    if y is x:
        return {1: 1.0}
    if (value := scalar(y)) is not None:
        return {0: value} if math.isfinite(value) else None
    if budget <= 0:
        return None
    op = y.op
    if op.kind in ("add", "sub", "mul", "real_div"):
        a = polynomial(op.operand("x"), x, degree, budget - 1)
        b = polynomial(op.operand("y"), x, degree, budget - 1) if a is not None else None
        if a is None or b is None:
            return None
        if op.kind == "add":
            return {p: a.get(p, 0.0) + b.get(p, 0.0) for p in a.keys() | b.keys()}
        if op.kind == "sub":
            return {p: a.get(p, 0.0) - b.get(p, 0.0) for p in a.keys() | b.keys()}
        if op.kind == "real_div":
            return {p: v / b[0] for p, v in a.items()} if b.keys() == {0} and b[0] != 0 else None
        out: dict[int, float] = {}
        for p, v in a.items():
            for q, w in b.items():
                out[p + q] = out.get(p + q, 0.0) + v * w
        return out if max(out) <= degree else None
    if op.kind in ("pow", "square"):
        exponent = 2.0 if op.kind == "square" else scalar(op.operand("y"))
        base = polynomial(op.operand("x"), x, degree, budget - 1)
        if base is None or base.keys() != {1} or exponent not in (1.0, 2.0, 3.0):
            return None
        return {int(exponent): base[1] ** int(exponent)}
    return None


def close(found: Polynomial | None, wanted: Polynomial, tolerance: float = 2e-3) -> bool:
    """Equal coefficients, within a relative tolerance (models hold such numbers in few digits)."""
    if found is None:
        return False
    keys = {p for p, v in found.items() if v != 0.0} | wanted.keys()
    return all(abs(found.get(p, 0.0) - wanted.get(p, 0.0)) <= tolerance * abs(wanted.get(p, 0.0)) for p in keys)


def products(y: Tensor, limit: int = 12) -> Iterator[list[Tensor]]:
    """Every way to read y as a product, fewest factors first: an operand that is itself a product is left whole or
    unrolled.
    """
    if y.op.kind != "mul":
        return
    queue = [[y.op.operand("x"), y.op.operand("y")]]
    for _ in range(limit):
        if not queue:
            return
        items = queue.pop(0)
        yield items
        if len(items) < 5:
            for i, each in enumerate(items):
                if each.op.kind == "mul":
                    queue.append([*items[:i], each.op.operand("x"), each.op.operand("y"), *items[i + 1 :]])
