"""Elementwise: functions of one operand, arithmetic with broadcasting, comparisons, logic, bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..shapes import aligned as aligned_shape
from ..tensors import Array
from .table import TABLE, Call, Fold, Unfoldable, folds

_SLOW = 1 << 20  # elements that a function of Python's own is called for


def unary(compute: Callable[[Array], Any], until: int = 6) -> Fold:
    """A function of one operand in the operand's dtype. `consumed_inputs`, a hint, went with opset `until`."""

    def run(call: Call, x: Array, consumed_inputs: Any = None) -> Array:
        call.only_before(until, consumed_inputs)
        return np.asarray(compute(x)).astype(x.dtype, copy=False)

    return run


def precise(compute: Callable[[Array], Any]) -> Fold:
    """A function of floats, computed in float64."""

    def run(call: Call, x: Array, consumed_inputs: Any = None) -> Array:
        call.only_before(6, consumed_inputs)
        if x.dtype.kind in "iub":
            raise Unfoldable
        return np.asarray(compute(x.astype(np.float64))).astype(x.dtype, copy=False)

    return run


def aligned(call: Call, x: Array, y: Array, broadcast: int | None, axis: int | None) -> Array:
    """y as it stands to x: from opset 7 on from the right; before, see `shapes.aligned`."""
    call.only_before(7, broadcast, axis)
    return y if call.version >= 7 else y.reshape(aligned_shape(x.shape, y.shape, bool(broadcast), axis))


def binary(compute: Callable[[Array, Array], Any], keep: bool = True) -> Fold:
    """A function of two operands that broadcast; in the first's dtype (`keep`) or in its own."""

    def run(
        call: Call,
        x: Array,
        y: Array,
        broadcast: int | None = None,
        axis: int | None = None,
        consumed_inputs: Any = None,
    ) -> Array:
        call.only_before(6, consumed_inputs)
        y = aligned(call, x, y, broadcast, axis)
        call.affords(np.broadcast_shapes(x.shape, y.shape), x.dtype)
        out = np.asarray(compute(x, y))
        return out.astype(x.dtype, copy=False) if keep else out

    return run


for _name, _function in {
    "Neg": np.negative,
    "Abs": np.abs,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Log": np.log,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Sign": np.sign,
    "Not": np.logical_not,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tanh": np.tanh,
    "Identity": lambda x: x,
    "Reciprocal": lambda x: 1 / x,
    "BitwiseNot": np.invert,
}.items():
    TABLE[_name] = unary(_function)  # type: ignore[arg-type]

for _name, _function in {
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "Cosh": np.cosh,
    "Sinh": np.sinh,
    "Tan": np.tan,
}.items():
    TABLE[_name] = precise(_function)

for _name, _compute in {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
}.items():
    TABLE[_name] = binary(_compute)

for _name, _compute in {
    "Equal": np.equal,
    "Less": np.less,
    "Greater": np.greater,
    "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal,
}.items():
    TABLE[_name] = binary(_compute, keep=False)


def _quotient(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.asarray(x / y)
    if not np.all(y):
        raise Unfoldable
    quotient = np.floor_divide(x, y)  # rounds down; ONNX truncates
    return np.asarray(quotient + ((x % y != 0) & ((x < 0) != (y < 0))))


TABLE["Div"] = binary(_quotient)


def _raised(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.asarray(np.power(x, y))
    if y.dtype.kind in "iu":
        return np.asarray(np.power(x, y))  # numpy raises for negative exponents of integers
    exact = np.power(x.astype(np.float64), y.astype(np.float64))  # whole, or implementations differ in how they round
    if not np.all((exact == np.floor(exact)) & (np.abs(exact) < 2.0**53)):
        raise Unfoldable
    return exact


TABLE["Pow"] = binary(_raised)


@folds("IsNaN")
def _is_nan(call: Call, x: Array) -> Array:
    return np.isnan(x)


@folds("IsInf")
def _is_inf(call: Call, x: Array, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    return (np.isposinf(x) & bool(detect_positive)) | (np.isneginf(x) & bool(detect_negative))


@folds("Erf")
def _erf(call: Call, x: Array) -> Array:
    if x.dtype.kind in "iub" or x.size > _SLOW:
        raise Unfoldable
    exact = np.fromiter(map(math.erf, x.reshape(-1).tolist()), np.float64, x.size)
    return exact.reshape(x.shape).astype(x.dtype)


@folds("BitShift")
def _bit_shift(call: Call, x: Array, y: Array, direction: str) -> Array:
    """From opset 28 on, shifts by more than the width, or by less than nothing, leave the sign alone."""
    call.affords(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    width = 8 * x.dtype.itemsize
    beyond = (y >= width) | (y < 0)
    if np.any(beyond) and call.version < 28:  # C++ leaves it open
        raise Unfoldable
    if direction == "LEFT":
        out = np.where(beyond, 0, np.left_shift(x, np.where(beyond, 0, y)))
    else:
        out = np.right_shift(x, np.where(beyond, width - 1, y))
        out = np.where(beyond & (x >= 0), 0, out)
    return out.astype(x.dtype)


@folds("Mod")
def _mod(call: Call, x: Array, y: Array, fmod: int = 0) -> Array:
    if x.dtype.kind in "iu" and not np.all(y):
        raise Unfoldable
    call.affords(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    return np.asarray(np.fmod(x, y) if fmod else np.mod(x, y)).astype(x.dtype, copy=False)


def _many(call: Call, arrays: Sequence[Array], combine: Callable[[Array, Array], Any], consumed: Any) -> Array:
    call.only_before(6, consumed)
    if call.version < 8 and any(a.shape != arrays[0].shape for a in arrays):
        raise Unfoldable
    out = arrays[0]
    call.affords(np.broadcast_shapes(*(a.shape for a in arrays)), out.dtype)
    for other in arrays[1:]:
        out = np.asarray(combine(out, other))
    return out.astype(arrays[0].dtype, copy=False)


@folds("Max")
def _max(call: Call, *xs: Array, consumed_inputs: Any = None) -> Array:
    return _many(call, xs, np.maximum, consumed_inputs)


@folds("Min")
def _min(call: Call, *xs: Array, consumed_inputs: Any = None) -> Array:
    return _many(call, xs, np.minimum, consumed_inputs)


@folds("Sum")
def _sum(call: Call, *xs: Array, consumed_inputs: Any = None) -> Array:
    return _many(call, xs, np.add, consumed_inputs)


@folds("Mean")
def _mean(call: Call, *xs: Array, consumed_inputs: Any = None) -> Array:
    total = _many(call, [x.astype(np.float64) for x in xs], np.add, consumed_inputs)
    return np.asarray(total / len(xs)).astype(xs[0].dtype)


@folds("Clip")
def _clip(
    call: Call,
    x: Array,
    lo: Array | None = None,
    hi: Array | None = None,
    min: float | None = None,
    max: float | None = None,
    consumed_inputs: Any = None,
) -> Array:
    call.only_before(6, consumed_inputs)
    call.only_before(11, min, max)
    out = x
    for bound, limit in ((lo if lo is not None else min, np.maximum), (hi if hi is not None else max, np.minimum)):
        if bound is not None:
            out = limit(out, np.asarray(bound, x.dtype))
    return np.asarray(out).astype(x.dtype, copy=False)


@folds("Where")
def _where(call: Call, c: Array, x: Array, y: Array) -> Array:
    call.affords(np.broadcast_shapes(c.shape, x.shape, y.shape), x.dtype)
    return np.where(c, x, y)
