"""Arithmetic with broadcasting, and functions of one operand that are no activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor, const
from .. import ranges
from ..node import Node, reshaped
from ..node import broadcast as joint
from ..ranges import Range
from ..registry import Number, Value, onnx_op
from ..shapes import aligned as aligned_shape

MOST_POWERS = 8
"""Different exponents that one Pow may have."""


def aligned(node: Node, x: Value, y: Value, broadcast: int, axis: int | None) -> Any:
    """y as it stands to x: from version 7 on from the right; before, see `shapes.aligned`.

    Raises:
        Refused: they do not fit, or the rank is above 5."""
    if node.since >= 7:
        if broadcast or axis is not None:
            raise Refused("attribute form", "the attributes 'broadcast' and 'axis' ended with opset 6")
        joint(x.shape, y.shape)  # refuses with the shapes what the operations below would call a wrong call
        return y
    full = aligned_shape(x.shape, y.shape, bool(broadcast), axis)
    return y.reshape(full) if isinstance(y, np.ndarray) else reshaped(y, full)


def _bytes(node: Node, y: Tensor) -> Tensor:
    """A sum of bytes, wrapped around once where it may be too large for them."""
    dtype, span = node.dtype(0), node.proved.get(y)
    limits = None if dtype is None or dtype.name not in ranges.PORTS else ranges.PORTS[dtype.name]
    if limits is None or span is None or span[0] < limits[0] - 256 or span[1] > limits[1] + 256:
        return y
    return node.prove(ops.wrapped(y, span, limits), ranges.wrapped(span, limits))


def _binary(op: str, join: Callable[[Tensor, Tensor], Tensor], spans: Callable[[Range, Range], Range]) -> None:
    @onnx_op(op, since=(1, 6, 7, 13, 14))
    def binary(node: Node, x: Number, y: Number, *, broadcast: int = 0, axis: int | None = None) -> Tensor:
        y = node.follow(join(x, aligned(node, x, y, broadcast, axis)), spans, rounds=True)
        return _bytes(node, y)


_binary("Add", ops.add, ranges.add)
_binary("Sub", ops.sub, ranges.sub)
_binary("Mul", ops.mul, ranges.mul)


@onnx_op("Div", since=(1, 6, 7, 13, 14))
def div(node: Node, x: Number, y: Number, *, broadcast: int = 0, axis: int | None = None) -> Tensor:
    """Integers, that are proved small, by a known integer: towards zero."""
    dtype, span = node.dtype(0), node.range(0)
    if dtype is None or dtype.kind not in "iu":
        return ops.real_div(x, aligned(node, x, y, broadcast, axis))
    divisor = node.known(1).astype(np.float64)
    if span is None or not divisor.all() or ranges.size(span) + 2 * np.abs(divisor).max() > ranges.COUNTED:
        raise Refused("data type", f"Div of integers by {divisor.min():g} to {divisor.max():g}")
    joint(x.shape, divisor.shape)
    ends = np.trunc(np.divide.outer(np.array(span), divisor))
    return node.prove(ops.div_trunc(x, divisor), (float(ends.min()), float(ends.max())))


@onnx_op("Pow", since=(1, 7, 12, 13, 15))
def power(node: Node, x: Value, y: Value, *, broadcast: int = 0, axis: int | None = None) -> Tensor:
    """Known exponents, not many different ones; or a known positive base: the engine's pow of others is unknown."""
    y = aligned(node, x, y, broadcast, axis)
    shape = joint(x.shape, y.shape)
    if isinstance(y, np.ndarray):
        base = node.tensor(0)
        exponents = np.unique(y.astype(np.float64))
        if not 1 <= len(exponents) <= MOST_POWERS or not np.isfinite(exponents).all():
            raise Refused("no engine form", f"Pow with {len(exponents)} exponents; up to {MOST_POWERS} have a form")
        powers = [
            ops.broadcast_to(ops.power(base, float(p)), shape) if p else const(ops.filled(shape, 1.0))
            for p in exponents
        ]
        result, full = powers[0], np.broadcast_to(y.astype(np.float64), shape)
        for p, made in zip(exponents[1:], powers[1:], strict=True):  # selected, so that another's infinity is no matter
            result = ops.where(const(full == p), made, result)
        return result
    if isinstance(x, np.ndarray) and x.dtype.kind == "f" and np.isfinite(x).all() and (x > 0).all():
        return ops.pow(node.tensor(0), aligned(node, x, node.tensor(1), broadcast, axis))
    raise Refused("computed parameter", "Pow with an exponent computed at run time takes a known positive base")


@onnx_op("Mod", since=(10, 13, 28))
def mod(node: Node, x: Number, y: Number, *, fmod: int = 0) -> Tensor:
    """Of integers proved small, by a known integer. The quotient of rounded fp16 numbers does not tell a remainder."""
    divisor, span = node.value(1), node.range(0)
    if not isinstance(divisor, np.ndarray) or divisor.dtype.kind not in "iu" or span is None:
        raise Refused("no engine form", "Mod: the remainder of rounded numbers is not the rounded remainder")
    joint(x.shape, y.shape)
    most = float(np.abs(divisor.astype(np.float64)).max())
    if not divisor.all() or ranges.size(span) + 2 * most > ranges.COUNTED:
        raise Refused("data type", f"Mod of {span[0]:g} to {span[1]:g} by up to {most:g}: fp16 does not count so far")
    if fmod:
        return node.prove(ops.mod_trunc(x, y.value), (0 if span[0] >= 0 else 1 - most, 0 if span[1] <= 0 else most - 1))
    low, high = float(divisor.min()), float(divisor.max())
    return node.prove(ops.mod_floor(x, y.value), (min(low + 1, 0), max(high - 1, 0)))


def pairwise(values: Sequence[Tensor], join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Joins values two by two: what is rounded grows with the depth of the tree, not with their number."""
    level = list(values)
    while len(level) > 1:
        joined = [join(a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
        level = joined + (level[-1:] if len(level) % 2 else [])
    return level[0]


def _many(xs: Sequence[Tensor], join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    if not xs:
        raise Refused("attribute form", "it has no inputs")
    joint(*(x.shape for x in xs))
    return pairwise(xs, join)


@onnx_op("Max", since=(1, 6, 8, 12, 13))
def maximum(node: Node, *xs: Number) -> Tensor:
    return node.follow(_many(xs, ops.maximum), ranges.maximum)


@onnx_op("Min", since=(1, 6, 8, 12, 13))
def minimum(node: Node, *xs: Number) -> Tensor:
    return node.follow(_many(xs, ops.minimum), ranges.minimum)


@onnx_op("Sum", since=(1, 6, 8, 13))
def total(node: Node, *xs: Tensor) -> Tensor:
    return _many(xs, ops.add)


@onnx_op("Mean", since=(1, 6, 8, 13))
def mean(node: Node, *xs: Tensor) -> Tensor:
    """Scaled before adding, so that the sum does not leave fp16 where the mean does not."""
    return xs[0] if len(xs) == 1 else _many([ops.mul(x, 1.0 / len(xs)) for x in xs], ops.add)


@onnx_op("Neg", since=(1, 6, 13))
def neg(node: Node, x: Number) -> Tensor:
    return _bytes(node, node.follow(ops.mul(x, -1.0), ranges.neg))


@onnx_op("Abs", since=(1, 6, 13))
def absolute(node: Node, x: Number) -> Tensor:
    return node.follow(ops.abs(x), ranges.absolute)


@onnx_op("Sqrt", since=(1, 6, 13))
def sqrt(node: Node, x: Tensor) -> Tensor:
    return ops.sqrt(x)


@onnx_op("Reciprocal", since=(1, 6, 13))
def reciprocal(node: Node, x: Tensor) -> Tensor:
    return ops.inverse(x, 0.0)


@onnx_op("Exp", since=(1, 6, 13))
def exp(node: Node, x: Tensor) -> Tensor:
    return ops.exp(x)


@onnx_op("Log", since=(1, 6, 13))
def log(node: Node, x: Tensor) -> Tensor:
    return ops.log(x, 0.0)


@onnx_op("Floor", since=(1, 6, 13))
def floor(node: Node, x: Tensor) -> Tensor:
    return ops.floor(x)


@onnx_op("Ceil", since=(1, 6, 13))
def ceil(node: Node, x: Tensor) -> Tensor:
    return ops.ceil(x)


@onnx_op("Round", since=(11, 22))
def round_even(node: Node, x: Tensor) -> Tensor:
    """Halves go to the even neighbour; the engine's own round does not."""
    return ops.round_half_even(x)


@onnx_op("Sign", since=(9, 13))
def sign(node: Node, x: Number) -> Tensor:
    return node.prove(ops.sign(x), (-1, 1))
