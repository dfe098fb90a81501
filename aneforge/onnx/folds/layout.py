"""Moving elements without looking at them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..shapes import reshape_target, slices, split_sizes, unambiguous, wrap
from ..tensors import Array
from .table import Call, Unfoldable, axes_from, folds, scalar


@folds("Reshape")
def _reshape(
    call: Call,
    x: Array,
    target: Array | None = None,
    allowzero: int = 0,
    shape: Sequence[int] | None = None,
    consumed_inputs: Any = None,
) -> Array:
    call.only_before(5, shape, consumed_inputs)
    want = axes_from(shape, target)
    if want is None:
        raise Unfoldable
    return x.reshape(reshape_target(x.shape, want, bool(allowzero)))


@folds("Flatten")
def _flatten(call: Call, x: Array, axis: int = 1) -> Array:
    at = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:at]), math.prod(x.shape[at:]))


@folds("Transpose")
def _transpose(call: Call, x: Array, perm: Sequence[int] | None = None) -> Array:
    return x.transpose(perm)


@folds("Squeeze")
def _squeeze(call: Call, x: Array, given: Array | None = None, axes: Sequence[int] | None = None) -> Array:
    at = axes_from(axes, given)
    return np.squeeze(x, None if at is None else tuple(at))


@folds("Unsqueeze")
def _unsqueeze(call: Call, x: Array, given: Array | None = None, axes: Sequence[int] | None = None) -> Array:
    return np.expand_dims(x, tuple(axes_from(axes, given) or ()))


@folds("Concat")
def _concat(call: Call, *xs: Array, axis: int = 1) -> Array:
    call.affords([sum(x.size for x in xs)], xs[0].dtype)
    return np.concatenate(xs, axis)


@folds("Split")
def _split(
    call: Call,
    x: Array,
    given: Array | None = None,
    axis: int | None = None,
    split: Sequence[int] | None = None,
    num_outputs: int = 0,
) -> list[Array]:
    """Version 1 names no default axis."""
    if axis is None:
        if call.version < 2:
            raise Unfoldable
        axis = 0
    sizes = split_sizes(x.shape[wrap(axis, x.ndim)], axes_from(split, given), num_outputs or call.n_outputs)
    return np.split(x, np.cumsum(sizes)[:-1], axis)


@folds("Slice")
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
    first = axes_from(starts, s) or []
    cuts = slices(x.shape, first, axes_from(ends, e) or [], axes_from(axes, a), axes_from(None, t))
    return x[tuple(slice(b, b + n * k if b + n * k >= 0 else None, k) for b, n, k in cuts)]


@folds("Expand")
def _expand(call: Call, x: Array, shape: Array) -> Array:
    want = np.broadcast_shapes(x.shape, tuple(int(d) for d in shape))
    return np.ascontiguousarray(np.broadcast_to(x, call.affords(want, x.dtype)))


@folds("Tile")
def _tile(call: Call, x: Array, reps: Array, axis: Array | None = None) -> Array:
    """Before opset 6: a number of tiles, and an axis."""
    call.only_before(6, axis)
    if axis is not None:
        at, count = wrap(int(scalar(axis)), x.ndim), int(scalar(reps))
        if at not in (scalar(axis), scalar(axis) + x.ndim) or count != scalar(reps):
            raise Unfoldable
        times = [count if i == at else 1 for i in range(x.ndim)]
    else:
        times = [int(r) for r in reps]
    if x.ndim != len(times):
        raise Unfoldable
    call.affords([d * r for d, r in zip(x.shape, times, strict=True)], x.dtype)
    return np.tile(x, times)


@folds("Trilu")
def _trilu(call: Call, x: Array, k: Array | None = None, upper: int = 1) -> Array:
    offset = 0 if k is None else int(k.reshape(-1)[0])
    return np.triu(x, offset) if upper else np.tril(x, offset)


@folds("Pad")
def _pad(
    call: Call,
    x: Array,
    cells: Array | None = None,
    constant: Array | None = None,
    along: Array | None = None,
    mode: str = "constant",
    pads: Sequence[int] | None = None,
    paddings: Sequence[int] | None = None,
    value: float = 0.0,
) -> Array:
    """Pads as attributes (`paddings` in 1, `pads` in 2) or as inputs; negative ones cut."""
    call.only_before(2, paddings)
    call.only_before(11, pads)
    flat = axes_from(pads if paddings is None else unambiguous(paddings), cells)
    chosen = [wrap(a, x.ndim) for a in axes_from(None, along) or range(x.ndim)]
    if flat is None or len(flat) != 2 * len(chosen) or len(set(chosen)) != len(chosen):
        raise Unfoldable
    counts = [(0, 0)] * x.ndim
    for i, axis in enumerate(chosen):
        counts[axis] = (flat[i], flat[i + len(chosen)])
    if mode != "constant" and min(map(min, counts), default=0) < 0:
        raise Unfoldable
    for axis, (before, after) in enumerate(counts):
        if x.shape[axis] + min(0, before) + min(0, after) < 0:
            raise Unfoldable
        kept = slice(max(0, -before), x.shape[axis] - max(0, -after))
        x = x[tuple(kept if i == axis else slice(None) for i in range(x.ndim))]
    cells_ = [(max(0, b), max(0, a)) for b, a in counts]
    call.affords([d + b + a for d, (b, a) in zip(x.shape, cells_, strict=True)], x.dtype)
    if mode == "constant":
        fill = np.asarray(value if constant is None or not constant.size else scalar(constant)).astype(x.dtype)
        return np.pad(x, cells_, constant_values=fill)
    if any(max(pair) > (d - 1 if mode == "reflect" else d) for d, pair in zip(x.shape, cells_, strict=True)):
        raise Unfoldable
    modes = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
    return np.pad(x, cells_, mode=modes[mode])  # type: ignore[call-overload, no-any-return]


@folds("DepthToSpace")
def _depth_to_space(call: Call, x: Array, blocksize: int, mode: str = "DCR") -> Array:
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        return x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, -1, h * b, w * b)
    if mode != "CRD":
        raise Unfoldable
    return x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, -1, h * b, w * b)


@folds("SpaceToDepth")
def _space_to_depth(call: Call, x: Array, blocksize: int, mode: str = "DCR") -> Array:
    n, c, h, w = x.shape
    b = blocksize
    blocks = x.reshape(n, c, h // b, b, w // b, b)
    if mode not in ("DCR", "CRD"):
        raise Unfoldable
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return blocks.transpose(order).reshape(n, c * b * b, h // b, w // b)


@folds("CenterCropPad")
def _center_crop_pad(call: Call, x: Array, shape: Array, axes: Sequence[int] | None = None) -> Array:
    """The odd cell of a crop goes at the end, that of a pad as well."""
    chosen = [wrap(a, x.ndim) for a in (axes if axes is not None else range(x.ndim))]
    for axis, want in zip(chosen, shape.tolist(), strict=True):
        extent = x.shape[axis]
        before = (abs(want - extent)) // 2
        if want < extent:
            x = x[tuple(slice(before, before + want) if i == axis else slice(None) for i in range(x.ndim))]
        elif want > extent:
            call.affords([x.size // max(1, extent) * want], x.dtype)
            x = np.pad(x, [(before, want - extent - before) if i == axis else (0, 0) for i in range(x.ndim)])
    return x
