"""One numpy function for each operator that is computed at import. Called by `folding`.

    @_folds("Size")
    def _size(call: Call, x: Array) -> Array: ...

Inputs come in the operator's order (None: absent), attributes as keywords; an attribute that a function does not take
is an error, and the node is then computed elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .shapes import reshape_target, shape_of, slices, split_sizes, wrap
from .tensors import Array, numpy_dtype


class Unfoldable(Exception):
    """This node is not computed at import."""


_Fold = Callable[..., Any]
TABLE: dict[str, _Fold] = {}


class Call:
    """What a table function is told about the node, beside inputs and attributes."""

    def __init__(self, version: int, limit: int, n_outputs: int) -> None:
        self.version, self.limit, self.n_outputs = version, limit, n_outputs

    def affords(self, shape: Sequence[int], dtype: np.dtype[Any]) -> tuple[int, ...]:
        """`shape`, if an array of it stays within the budget."""
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > self.limit:
            raise Unfoldable
        return tuple(shape)


# ---------------------------------------------------------------- the table


def _folds(*names: str) -> Callable[[_Fold], _Fold]:
    def register(function: _Fold) -> _Fold:
        for name in names:
            TABLE[name] = function
        return function

    return register


def _plain_unary(compute: Callable[[Array], Any]) -> _Fold:
    def run(call: Call, x: Array) -> Array:
        return np.asarray(compute(x)).astype(x.dtype, copy=False)

    return run


def _plain_binary(compute: Callable[[Array, Array], Any], keep: bool = True) -> _Fold:
    def run(call: Call, x: Array, y: Array) -> Array:
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
    "Relu": lambda x: np.maximum(x, 0),
    "Reciprocal": lambda x: 1 / x,
    "Sigmoid": lambda x: 0.5 * (1 + np.tanh(0.5 * x.astype(np.float64))),
}.items():
    TABLE[_name] = _plain_unary(_function)  # type: ignore[arg-type]

for _name, _compute in {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
}.items():
    TABLE[_name] = _plain_binary(_compute)

for _name, _compute in {
    "Equal": np.equal,
    "Less": np.less,
    "Greater": np.greater,
    "LessOrEqual": np.less_equal,
    "GreaterOrEqual": np.greater_equal,
}.items():
    TABLE[_name] = _plain_binary(_compute, keep=False)

for _name, _test in {"IsNaN": np.isnan}.items():
    TABLE[_name] = lambda call, x, _test=_test: _test(x)


@_folds("Div")
def _div(call: Call, x: Array, y: Array) -> Array:
    call.affords(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    if x.dtype.kind not in "iu":
        return np.asarray(x / y).astype(x.dtype, copy=False)
    if not np.all(y):
        raise Unfoldable
    quotient = np.floor_divide(x, y)  # rounds down; ONNX truncates
    return np.asarray(quotient + ((x % y != 0) & ((x < 0) != (y < 0)))).astype(x.dtype, copy=False)


@_folds("Mod")
def _mod(call: Call, x: Array, y: Array, fmod: int = 0) -> Array:
    if x.dtype.kind in "iu" and not np.all(y):
        raise Unfoldable
    return np.asarray(np.fmod(x, y) if fmod else np.mod(x, y)).astype(x.dtype, copy=False)


@_folds("Pow")
def _pow(call: Call, x: Array, y: Array) -> Array:
    if x.dtype.kind in "iu" and y.dtype.kind == "f":
        raise Unfoldable  # implementations differ in how they round
    return np.asarray(np.power(x, y)).astype(x.dtype, copy=False)


def _many(call: Call, arrays: Sequence[Array], combine: Callable[[Array, Array], Any]) -> Array:
    out = arrays[0]
    call.affords(np.broadcast_shapes(*(a.shape for a in arrays)), out.dtype)
    for other in arrays[1:]:
        out = np.asarray(combine(out, other))
    return out.astype(arrays[0].dtype, copy=False)


@_folds("Max")
def _max(call: Call, *xs: Array) -> Array:
    return _many(call, xs, np.maximum)


@_folds("Min")
def _min(call: Call, *xs: Array) -> Array:
    return _many(call, xs, np.minimum)


@_folds("Sum")
def _sum(call: Call, *xs: Array) -> Array:
    return _many(call, xs, np.add)


@_folds("Clip")
def _clip(
    call: Call,
    x: Array,
    lo: Array | None = None,
    hi: Array | None = None,
    min: float | None = None,
    max: float | None = None,
) -> Array:
    out = x
    for bound, limit in ((lo if lo is not None else min, np.maximum), (hi if hi is not None else max, np.minimum)):
        if bound is not None:
            out = limit(out, np.asarray(bound, x.dtype))
    return np.asarray(out).astype(x.dtype, copy=False)


@_folds("MatMul")
def _matmul(call: Call, x: Array, y: Array) -> Array:
    if x.size * (y.shape[-1] if y.ndim > 1 else 1) > 1 << 28:
        raise Unfoldable
    return np.asarray(np.matmul(x, y)).astype(x.dtype, copy=False)


@_folds("Where")
def _where(call: Call, c: Array, x: Array, y: Array) -> Array:
    call.affords(np.broadcast_shapes(c.shape, x.shape, y.shape), x.dtype)
    return np.where(c, x, y)


@_folds("Cast")
def _cast(call: Call, x: Array, to: int = 0, saturate: int = 1, round_mode: str = "up") -> Array:
    return cast(x, numpy_dtype(to))


@_folds("CastLike")
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


@_folds("Constant")
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


@_folds("ConstantOfShape")
def _constant_of_shape(call: Call, shape: Array, value: Array | None = None) -> Array:
    fill = np.zeros(1, np.float32) if value is None else value
    want = call.affords([int(d) for d in shape], fill.dtype)
    return np.full(want, fill.reshape(-1)[0], fill.dtype)


@_folds("Range")
def _range(call: Call, start: Array, limit: Array, delta: Array) -> Array:
    first, last, step = start.reshape(-1)[0], limit.reshape(-1)[0], delta.reshape(-1)[0]
    if step == 0:
        raise Unfoldable
    count = max(0, math.ceil((float(last) - float(first)) / float(step)))
    call.affords([count], start.dtype)
    return np.asarray(first + np.arange(count, dtype=start.dtype) * step).astype(start.dtype, copy=False)


@_folds("Shape")
def _shape(call: Call, x: Array, start: int = 0, end: int | None = None) -> Array:
    return shape_of(x.shape, start, end)


@_folds("Size")
def _size(call: Call, x: Array) -> Array:
    return np.asarray(x.size, np.int64)


# ---------------------------------------------------------------- layout


@_folds("Reshape")
def _reshape(call: Call, x: Array, shape: Array, allowzero: int = 0) -> Array:
    return x.reshape(reshape_target(x.shape, [int(d) for d in shape], bool(allowzero)))


@_folds("Flatten")
def _flatten(call: Call, x: Array, axis: int = 1) -> Array:
    at = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:at]), math.prod(x.shape[at:]))


@_folds("Transpose")
def _transpose(call: Call, x: Array, perm: Sequence[int] | None = None) -> Array:
    return x.transpose(perm)


def _axes(attribute: Sequence[int] | None, given: Array | None) -> list[int] | None:
    if given is not None:
        return [int(a) for a in given.reshape(-1)]
    return None if attribute is None else list(attribute)


@_folds("Squeeze")
def _squeeze(call: Call, x: Array, given: Array | None = None, axes: Sequence[int] | None = None) -> Array:
    at = _axes(axes, given)
    return np.squeeze(x, None if at is None else tuple(at))


@_folds("Unsqueeze")
def _unsqueeze(call: Call, x: Array, given: Array | None = None, axes: Sequence[int] | None = None) -> Array:
    return np.expand_dims(x, tuple(_axes(axes, given) or ()))


@_folds("Concat")
def _concat(call: Call, *xs: Array, axis: int = 1) -> Array:
    call.affords([sum(x.size for x in xs)], xs[0].dtype)
    return np.concatenate(xs, axis)


@_folds("Split")
def _split(
    call: Call,
    x: Array,
    given: Array | None = None,
    axis: int = 0,
    split: Sequence[int] | None = None,
    num_outputs: int = 0,
) -> list[Array]:
    sizes = split_sizes(x.shape[wrap(axis, x.ndim)], _axes(split, given), num_outputs or call.n_outputs)
    return np.split(x, np.cumsum(sizes)[:-1], axis)


@_folds("Slice")
def _slice(
    call: Call,
    x: Array,
    s: Array | None = None,
    e: Array | None = None,
    a: Array | None = None,
    t: Array | None = None,
    starts: Sequence[int] = (),
    ends: Sequence[int] = (),
    axes: Sequence[int] | None = None,
) -> Array:
    first = _axes(starts, s) or []
    cuts = slices(x.shape, first, _axes(ends, e) or [], _axes(axes, a), _axes(None, t))
    return x[tuple(slice(b, b + n * k if b + n * k >= 0 else None, k) for b, n, k in cuts)]


@_folds("Gather")
def _gather(call: Call, x: Array, indices: Array, axis: int = 0) -> Array:
    call.affords([x.size // max(1, x.shape[axis]) * indices.size], x.dtype)
    return np.take(x, indices, axis)  # numpy checks the bounds, and counts negative ones from the end as ONNX does


@_folds("GatherElements")
def _gather_elements(call: Call, x: Array, indices: Array, axis: int = 0) -> Array:
    extent = x.shape[axis]
    if np.any((indices < -extent) | (indices >= extent)):
        raise Unfoldable
    return np.take_along_axis(x, np.where(indices < 0, indices + extent, indices), axis)


@_folds("Expand")
def _expand(call: Call, x: Array, shape: Array) -> Array:
    want = np.broadcast_shapes(x.shape, tuple(int(d) for d in shape))
    return np.ascontiguousarray(np.broadcast_to(x, call.affords(want, x.dtype)))


@_folds("Tile")
def _tile(call: Call, x: Array, reps: Array) -> Array:
    if x.ndim != reps.size:
        raise Unfoldable
    call.affords([d * int(r) for d, r in zip(x.shape, reps, strict=True)], x.dtype)
    return np.tile(x, [int(r) for r in reps])


@_folds("NonZero")
def _nonzero(call: Call, x: Array) -> Array:
    return np.stack(np.nonzero(x)).astype(np.int64) if x.ndim else np.zeros((0, int(bool(x))), np.int64)


@_folds("Trilu")
def _trilu(call: Call, x: Array, k: Array | None = None, upper: int = 1) -> Array:
    offset = 0 if k is None else int(k.reshape(-1)[0])
    return np.triu(x, offset) if upper else np.tril(x, offset)


# ---------------------------------------------------------------- reductions


def _reduce(compute: Callable[[Array, tuple[int, ...] | None, bool], Any]) -> _Fold:
    def run(
        call: Call,
        x: Array,
        given: Array | None = None,
        axes: Sequence[int] | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Array:
        at = _axes(axes, given)
        if not at and noop_with_empty_axes:
            raise Unfoldable  # not the identity for the reductions that square or take absolute values
        out = compute(x, tuple(at) if at else None, bool(keepdims))
        return np.asarray(out).astype(x.dtype, copy=False)

    return run


for _name, _reduction in {
    "ReduceSum": lambda x, a, k: np.sum(x, a, dtype=x.dtype if x.dtype.kind in "iu" else None, keepdims=k),
    "ReduceProd": lambda x, a, k: np.prod(x, a, dtype=x.dtype if x.dtype.kind in "iu" else None, keepdims=k),
    "ReduceMax": lambda x, a, k: np.max(x, a, keepdims=k),
    "ReduceMin": lambda x, a, k: np.min(x, a, keepdims=k),
}.items():
    TABLE[_name] = _reduce(_reduction)


@_folds("ReduceMean")
def _reduce_mean(call: Call, x: Array, *inputs: Array, **attributes: Any) -> Array:
    if x.dtype.kind != "f":
        raise Unfoldable  # whether the mean of integers truncates is not said
    return np.asarray(_reduce(lambda x, a, k: np.mean(x, a, keepdims=k))(call, x, *inputs, **attributes))


# ---------------------------------------------------------------- quantized weights


@_folds("DequantizeLinear")
def _dequantize(
    call: Call,
    x: Array,
    scale: Array,
    zero: Array | None = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Array:
    dtype = scale.dtype if not output_dtype else numpy_dtype(output_dtype)
    if dtype is None or dtype.name not in ("float32", "float16") or scale.dtype != dtype:
        raise Unfoldable
    if not (x.dtype.kind in "iu" or x.dtype.name in ("int4", "uint4", "int2", "uint2")):
        raise Unfoldable

    def spread(parameter: Array) -> Array:
        if parameter.size == 1 and parameter.ndim <= 1 and not block_size:
            return parameter.reshape(())
        at = wrap(axis, x.ndim)
        if block_size:
            return np.repeat(parameter, block_size, at)[tuple(slice(0, d) for d in x.shape)]
        return parameter.reshape([-1 if i == at else 1 for i in range(x.ndim)])

    whole = x.astype(np.int64) - (0 if zero is None else spread(zero.astype(np.int64)))
    return np.asarray(whole.astype(np.float32) * spread(scale).astype(np.float32)).astype(dtype, copy=False)
