"""Recognizes x / sqrt(mean(x²) + eps) in any spelling, the heart of layer, group, instance and RMS norm, and gives it
the scaled form: written out, the squares overflow above 255 (Q37) and an epsilon of 1e-12 is 0 in fp16 (Q19).
"""

from __future__ import annotations

import math

import numpy as np

from .. import ops
from ..ir import Op, Replacement, Tensor, Uses, miss, rule
from .match import VIEWS, made_by, scalar


def mean_of(y: Tensor) -> tuple[Tensor, tuple[int, ...]] | None:
    """(x, axes) if y is the mean of x over axes, kept as 1; as the op, or as products with constants 1 / count."""
    axes_of_x: set[int] = set()
    for _ in range(4):
        step = _mean_step(y)
        if step is None:
            break
        y, axes = step
        axes_of_x |= set(axes)
    return (y, tuple(sorted(axes_of_x))) if axes_of_x else None


def _mean_step(y: Tensor) -> tuple[Tensor, tuple[int, ...]] | None:
    if y.op.kind == "reduce_mean" and y.op.params["keep_dims"]:
        return y.op.operand("x"), y.op.params["axes"]
    shape, missing = y.shape, 1.0
    inner = y
    if inner.op.kind == "mul" and (factor := scalar(inner.op.operand("y"))) is not None:
        inner, missing = inner.op.operand("x"), factor
    while inner.op.kind in VIEWS:
        inner = inner.op.operand("x")
    op = inner.op
    summed = equal_sum(op)
    if summed is None or abs(summed[0] * missing * summed[2] - 1.0) > 1e-6:
        return None
    _, before, count = summed
    x = op.operand("x")
    axes = _axes(x.shape, shape, before, count)
    while axes is None and x.op.kind in VIEWS:
        x = x.op.operand("x")
        axes = _axes(x.shape, shape, before, count)
    return None if axes is None else (x, axes)


def equal_sum(op: Op) -> tuple[float, int, int] | None:
    """(weight, before, count) if `op` adds up `count` neighbouring elements, each times `weight`: a product with equal
    weights. A view keeps the order of elements, so what is summed is known by how many stand before it."""
    if op.kind == "matmul" and op.operand("y").rank == 2 and op.params["transpose_y"] and not op.params["transpose_x"]:
        weight = op.operand("y")
    elif op.kind == "conv" and op.operand("weight").shape[2:] == (1, 1) and "bias" not in op.inputs:
        weight = op.operand("weight")
        if any(op.params["pad"]) or max(op.params["strides"]) > 1 or op.params["groups"] != 1:
            return None
    else:
        return None
    value = scalar(weight)
    if weight.shape[0] != 1 or value is None:
        return None
    x = op.operand("x")
    return value, math.prod(x.shape[:-1]) if op.kind == "matmul" else x.shape[0], weight.type.size


def _axes(full: tuple[int, ...], kept: tuple[int, ...], before: int, count: int) -> tuple[int, ...] | None:
    """The neighbouring axes that `full` lost in `kept`, holding `count` elements behind `before` others, or None."""
    if len(full) != len(kept) or any(k not in (1, d) for d, k in zip(full, kept, strict=True)):
        return None
    axes = [i for i, (d, k) in enumerate(zip(full, kept, strict=True)) if d != k]
    if not axes:
        return None
    first, last = axes[0], axes[-1]
    if math.prod(full[first : last + 1]) != count or math.prod(full[:first]) != before:
        return None
    return tuple(axes)


def _squared(y: Tensor) -> Tensor | None:
    """x of x * x, x ** 2, square(x)."""
    op = y.op
    if op.kind == "mul" and op.operand("x") is op.operand("y"):
        return op.operand("x")
    if op.kind == "square" or (op.kind == "pow" and scalar(op.operand("y")) == 2.0):
        return op.operand("x")
    return None


def _power(y: Tensor) -> tuple[Tensor, tuple[int, ...], float] | None:
    """(x, axes, eps) if y is mean(x²) + eps."""
    epsilon = 0.0
    if y.op.kind == "add":
        a, b = y.op.operand("x"), y.op.operand("y")
        if (value := scalar(b)) is not None:
            y, epsilon = a, value
        elif (value := scalar(a)) is not None:
            y, epsilon = b, value
    mean = mean_of(y)
    x = None if mean is None else _squared(mean[0])
    return None if mean is None or x is None or epsilon < 0 else (x, mean[1], epsilon)


def _inverse_root(y: Tensor) -> tuple[Tensor, tuple[int, ...], float] | None:
    """(x, axes, eps) if y is 1 / sqrt(mean(x²) + eps)."""
    op = y.op
    if op.kind == "rsqrt":
        found = _power(op.operand("x"))
        return None if found is None else (*found[:2], found[2] + op.params["epsilon"])
    root = None
    if op.kind == "inverse" and op.params["epsilon"] == 0.0:
        root = made_by(op.operand("x"), "sqrt")
    elif op.kind == "real_div" and scalar(op.operand("x")) == 1.0:
        root = made_by(op.operand("y"), "sqrt")
    elif op.kind == "pow" and scalar(op.operand("y")) == -0.5:
        return _power(op.operand("x"))
    return None if root is None else _power(root.operand("x"))


@rule(
    "unit-variance",
    "real_div mul",
    "x / sqrt(mean(x²) + eps): squares overflow above 255 (Q37), small epsilons vanish (Q19)",
    quirks="Q19 Q36 Q37",
)
def unit_variance(op: Op, uses: Uses) -> Replacement:
    if op.kind == "real_div":
        x, root = op.operand("x"), made_by(op.operand("y"), "sqrt")
        found = None if root is None else _power(root.operand("x"))
        pairs = [(x, found)]
    else:
        a, b = op.operand("x"), op.operand("y")
        pairs = [(a, _inverse_root(b)), (b, _inverse_root(a))]
    for x, found in pairs:
        if found is None:
            continue
        if found[0] is x or _same_centre(found[0], x):
            return ops.unit_variance(ops.centred(x, found[1]) if _is_centred(x, found[1]) else x, found[1], found[2])
        miss("what is divided is not what is squared", found[0])
    return None


def _is_centred(x: Tensor, axes: tuple[int, ...]) -> bool:
    """Whether x is some value minus its mean over `axes`: rounded once, which `ops.centred` mends."""
    if x.op.kind != "sub":
        return False
    mean = mean_of(x.op.operand("y"))
    return mean is not None and mean[0] is x.op.operand("x") and mean[1] == axes


def _same_centre(a: Tensor, b: Tensor) -> bool:
    """Whether a and b are the same difference, computed twice."""
    if a.op.kind != "sub" or b.op.kind != "sub":
        return False
    if a.op.operand("x") is not b.op.operand("x"):
        return False
    p, q = a.op.operand("y"), b.op.operand("y")
    if p is q:
        return True
    left, right = mean_of(p), mean_of(q)
    return left is not None and right is not None and left[0] is right[0] and left[1] == right[1]


@rule("affine-norm", "mul", "x * (rsqrt(v) * gamma) is (x * rsqrt(v)) * gamma, which unit-variance knows")
def affine_norm(op: Op, uses: Uses) -> Replacement:
    """Undoes TensorFlow's spelling of batch statistics: x * (rsqrt(var + eps) * gamma) - ..."""
    for x, gain in ((op.operand("x"), op.operand("y")), (op.operand("y"), op.operand("x"))):
        inner = made_by(gain, "mul")
        if inner is None:
            continue
        for root, gamma in ((inner.operand("x"), inner.operand("y")), (inner.operand("y"), inner.operand("x"))):
            found = _inverse_root(root)
            if found is None or not (found[0] is x or _same_centre(found[0], x)):
                continue
            if not gamma.is_const:
                return miss("the gain is computed at run time", root)
            return ops.mul(ops.mul(x, root), gamma) if np.broadcast_shapes(x.shape, root.shape) == x.shape else None
    return None


@rule(
    "moments-norm",
    "add sub",
    "x * inv + (beta - mean * inv), as TensorFlow spells it, subtracts two large products; (x - mean) * inv does not",
    quirks="Q19 Q36 Q37",
)
def moments_norm(op: Op, uses: Uses) -> Replacement:
    """inv is 1 / sqrt(mean((x - mean)²) + eps), alone or times a gain."""
    left, right = op.operand("x"), op.operand("y")
    sides = [(left, right)] if op.kind == "sub" else [(left, right), (right, left)]
    for scaled, other in sides:
        beta, rest = None, other
        if op.kind == "add":
            shift = made_by(other, "sub")
            if shift is None:
                continue
            beta, rest = shift.operand("x"), shift.operand("y")
        outer, inner = made_by(scaled, "mul"), made_by(rest, "mul")
        if outer is None or inner is None:
            continue
        for x, inv in _either(outer):
            mean = next((m for m, again in _either(inner) if again is inv), None)
            factors = [inv] if inv.op.kind != "mul" else [f for f, _ in _either(inv.op)]
            root = next((f for f in factors if _inverse_root(f) is not None), None)
            over = None if mean is None else mean_of(mean)
            if mean is None or root is None or over is None or over[0] is not x:
                continue
            centre = ops.sub(x, mean)
            found = _inverse_root(root)
            if found is None or found[1] != over[1] or not _same_centre(found[0], centre):
                miss("the variance is not that of x around this mean", root)
                continue
            y = ops.mul(centre, root)
            for gain in factors:
                y = y if gain is root else ops.mul(y, gain)
            y = y if beta is None else ops.add(y, beta)
            if y.type == op.types[0]:
                return y
    return None


def _either(op: Op) -> list[tuple[Tensor, Tensor]]:
    x, y = op.operand("x"), op.operand("y")
    return [(x, y), (y, x)]


RULES = (unit_variance, affine_norm, moments_norm)
