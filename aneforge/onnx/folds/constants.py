"""Casts, and what needs little or no input: constants, ranges, shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..shapes import shape_of
from ..tensors import Array, numpy_dtype
from .table import Call, Unfoldable, folds, scalar


@folds("Cast")
def _cast(call: Call, x: Array, to: int | str = 0, saturate: int = 1, round_mode: str = "up") -> Array:
    if isinstance(to, str):  # before opset 6
        call.only_before(6, to)
        names = {"DOUBLE": "float64", "FLOAT": "float32", "BOOL": "bool"}
        name = names.get(to.upper(), to.lower())
        if name not in ("float64", "float32", "float16", "bool", *(f"{u}int{b}" for u in ("", "u") for b in _BITS)):
            raise Unfoldable
        return cast(x, np.dtype(name))
    return cast(x, numpy_dtype(to))


_BITS = (8, 16, 32, 64)


@folds("CastLike")
def _cast_like(call: Call, x: Array, like: Array, saturate: int = 1, round_mode: str = "up") -> Array:
    return cast(x, like.dtype)


def cast(x: Array, dtype: np.dtype[Any] | None) -> Array:
    """ONNX Cast between floats, integers and bools. What no two implementations agree on is Unfoldable."""
    plain = "biuf"
    if dtype is None or dtype.kind not in plain or x.dtype.kind not in plain:
        if dtype is not None and {dtype.name, x.dtype.name} <= {"bfloat16", "float32", "float16", "float64"}:
            return x.astype(dtype)
        raise Unfoldable
    if dtype.kind in "iu" and x.dtype.kind == "f":
        whole = np.trunc(x.astype(np.float64))
        info = np.iinfo(dtype)
        if not np.all((whole >= float(info.min)) & (whole <= float(info.max)) & (np.abs(whole) < 2.0**63)):
            raise Unfoldable
        return whole.astype(dtype)
    if dtype.kind == "b":
        return np.asarray(x != 0)
    return x.astype(dtype)


@folds("BitCast")
def _bit_cast(call: Call, x: Array, to: int) -> Array:
    dtype = numpy_dtype(to)
    if dtype is None or object in (dtype, x.dtype) or dtype.itemsize != x.dtype.itemsize:
        raise Unfoldable
    return np.ascontiguousarray(x).reshape(x.shape).view(dtype)


@folds("Constant")
def _constant(
    call: Call,
    value: Any = None,
    sparse_value: Any = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
) -> Array:
    for given in (value, sparse_value):
        if given is not None:
            return np.asarray(given)
    floats = value_float if value_float is not None else value_floats
    if floats is not None:
        return np.asarray(floats, np.float32)
    whole = value_int if value_int is not None else value_ints
    if whole is not None:
        return np.asarray(whole, np.int64)
    text = value_string if value_string is not None else value_strings
    if text is not None:
        return np.asarray(text, object)
    raise Unfoldable


@folds("ConstantOfShape")
def _constant_of_shape(call: Call, shape: Array, value: Array | None = None) -> Array:
    fill = np.zeros(1, np.float32) if value is None else value
    want = call.affords([int(d) for d in shape], fill.dtype)
    return np.full(want, fill.reshape(-1)[0], fill.dtype)


@folds("Range")
def _range(call: Call, start: Array, limit: Array, delta: Array) -> Array:
    first, last, step = start.reshape(-1)[0], limit.reshape(-1)[0], delta.reshape(-1)[0]
    if step == 0:
        raise Unfoldable
    count = max(0, math.ceil((float(last) - float(first)) / float(step)))
    call.affords([count], start.dtype)
    return np.asarray(first + np.arange(count, dtype=start.dtype) * step).astype(start.dtype, copy=False)


@folds("Shape")
def _shape(call: Call, x: Array, start: int = 0, end: int | None = None) -> Array:
    return shape_of(x.shape, start, end)


@folds("Size")
def _size(call: Call, x: Array) -> Array:
    return np.asarray(x.size, np.int64)


@folds("EyeLike")
def _eye_like(call: Call, x: Array, dtype: int = 0, k: int = 0) -> Array:
    kind = numpy_dtype(dtype) if dtype else x.dtype
    if kind is None or kind == np.dtype(object):
        raise Unfoldable
    rows, columns = call.affords(x.shape, np.dtype(np.float64))
    return np.eye(rows, columns, k).astype(kind)


@folds("OneHot")
def _one_hot(call: Call, indices: Array, depth: Array, values: Array, axis: int = -1) -> Array:
    """Indices beyond the depth give a row of the off value; negative ones count from the end, from opset 11 on."""
    n, ids = int(scalar(depth)), indices.astype(np.int64)
    if n < 1 or np.any(ids != indices) or (call.version < 11 and np.any(ids < 0)):
        raise Unfoldable
    at = axis + indices.ndim + 1 if axis < 0 else axis
    call.affords([n, indices.size], values.dtype)
    ids = np.expand_dims(np.where(ids < 0, ids + n, ids), at)
    steps = np.arange(n).reshape([n if i == at else 1 for i in range(ids.ndim)])
    return np.asarray(np.where(ids == steps, values[1], values[0]))
