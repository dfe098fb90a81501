"""Slices, selections and pads of any axis, in forms that the engine has.

A slice at an offset along the last axis is a hazard on older engines (Q08, Q09); where a form can avoid it, it does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..ir import Tensor, const
from . import shape as s
from .base import axis_of, whole
from .contract import MATRIX_LIMIT, reshape_if, select_axis
from .masks import as_bool, as_mask, broadcast_to, filled

MOST_RUNS = 64
MANY_RUNS = 8
"""A selection of up to so many consecutive pieces is slices and a concat; a longer one is a product."""


def flatten(x: Tensor, axis: int = 1) -> Tensor:
    """[product before `axis`, product from it on]; axis may equal the rank (ONNX Flatten)."""
    at = axis + x.rank if axis < 0 else axis
    return reshape_if(x, (math.prod(x.shape[:at]), math.prod(x.shape[at:])))


def transpose_if(x: Tensor, perm: Sequence[int]) -> Tensor:
    """transpose, or x itself where nothing moves."""
    return x if tuple(perm) == tuple(range(x.rank)) else s.transpose(x, perm)


def move_axis(x: Tensor, source: int, target: int) -> Tensor:
    """numpy's moveaxis for one axis."""
    order = [i for i in range(x.rank) if i != source % x.rank]
    order.insert(target % x.rank, source % x.rank)
    return transpose_if(x, order)


def slice_axis(x: Tensor, axis: int, begin: int, size: int) -> Tensor:
    """`size` elements from `begin` along one axis."""
    at = axis_of("slice_axis", "axis", axis, x.rank)
    if (begin, size) == (0, x.shape[at]):
        return x
    start = [begin if i == at else 0 for i in range(x.rank)]
    return s.slice_by_size(x, start, [size if i == at else d for i, d in enumerate(x.shape)])


def strided_slice(x: Tensor, axis: int, start: int, step: int, count: int) -> Tensor:
    """x[start], x[start + step], … (`count` of them) along `axis`; `step` may be negative.

    Steps become an axis of their own, of which one index is taken: of the first where possible, which is a slice
    without offset.
    """
    at = axis_of("strided_slice", "axis", axis, x.rank)
    begin, step, n = whole("strided_slice", "start", start), whole("strided_slice", "step", step), x.shape[at]
    last = begin + (count - 1) * step
    if count < 1 or step == 0 or not (0 <= begin < n and 0 <= last < n):
        raise ValueError(f"strided_slice: {count} elements from {begin} by {step} are outside axis {at} of {x.shape}")
    if count == 1 or step == 1:
        return slice_axis(x, at, begin, count)
    if step < 0:
        return s.reverse(strided_slice(x, at, last, -step, count), (at,))
    over = begin + count * step - n  # cells that the last whole step reaches beyond the end
    offset = max(0, over)
    if offset > min(step - 1, begin):
        pads = [(0, over) if i == at else (0, 0) for i in range(x.rank)]
        x, offset = pad_any(x, pads), 0
    window = slice_axis(x, at, begin - offset, count * step)
    before, after = math.prod(x.shape[:at]), math.prod(x.shape[at + 1 :])
    if after == 1:
        taken = slice_axis(s.reshape(window, (before, count, step)), 2, offset, 1)
    else:
        taken = slice_axis(s.reshape(window, (before, count, step, after)), 2, offset, 1)
    return s.reshape(taken, (*x.shape[:at], count, *x.shape[at + 1 :]))


def slice_box(x: Tensor, starts: Sequence[int], steps: Sequence[int], counts: Sequence[int]) -> Tensor:
    """counts[i] elements from starts[i] by steps[i] along every axis. One slice for the plain axes, then the stepped
    ones.
    """
    if x.dtype == "bool":
        return as_bool(slice_box(as_mask(x), starts, steps, counts))
    plain = [steps[i] == 1 or counts[i] == 1 for i in range(x.rank)]
    begin = [b if p else 0 for b, p in zip(starts, plain, strict=True)]
    size = [c if p else d for c, p, d in zip(counts, plain, x.shape, strict=True)]
    if size != list(x.shape):
        x = s.slice_by_size(x, begin, size)
    for i, p in enumerate(plain):
        if not p:
            x = strided_slice(x, i, starts[i], steps[i], counts[i])
    return x


def concat_any(values: Sequence[Tensor], axis: int) -> Tensor:
    """concat; of one value, the value; of bools, through masks."""
    if len(values) == 1:
        return values[0]
    if values[0].dtype == "bool":
        return as_bool(s.concat([as_mask(v) for v in values], axis))
    return s.concat(values, axis)


def _runs(indices: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """(first, step, count) of consecutive pieces with step 1, 0 or -1."""
    out: list[tuple[int, int, int]] = []
    for index in indices.tolist():
        if out:
            first, step, count = out[-1]
            if count == 1 and index - first in (-1, 0, 1):
                out[-1] = (first, index - first, 2)
                continue
            if count > 1 and index == first + step * count:
                out[-1] = (first, step, count + 1)
                continue
        out.append((index, 1, 1))
    return out


def _run(x: Tensor, axis: int, first: int, step: int, count: int) -> Tensor:
    if count == 1 or step == 1:
        return slice_axis(x, axis, first, count)
    if step == 0:
        return broadcast_to(slice_axis(x, axis, first, 1), [count if i == axis else d for i, d in enumerate(x.shape)])
    return s.reverse(slice_axis(x, axis, first - count + 1, count), (axis,))


def gather_constant(x: Tensor, indices: NDArray[np.int64] | Sequence[int] | int, axis: int = 0) -> Tensor:
    """numpy's take with known indices of any rank, negative ones counted from the end.

    One evenly spaced run: a slice. A few runs along another axis than the last: slices and a concat. Else a product
    with a 0/1 matrix, which is exact; concatenated slices of the last axis give wrong elements on older engines (Q09).

    Raises:
        ValueError: an index outside the axis.
    """
    at = axis_of("gather", "axis", axis, x.rank)
    n = x.shape[at]
    ids = np.asarray(indices, np.int64)
    if ids.size == 0 or ids.min() < -n or ids.max() >= n:
        raise ValueError(f"gather: indices {ids.tolist()} are outside axis {at} of {x.shape}")
    flat = np.where(ids < 0, ids + n, ids).reshape(-1)
    shape = (*x.shape[:at], *ids.shape, *x.shape[at + 1 :])
    if x.dtype == "bool":
        return reshape_if(as_bool(_take(as_mask(x), at, flat)), shape)
    return reshape_if(_take(x, at, flat), shape)


def _take(x: Tensor, at: int, flat: NDArray[np.int64]) -> Tensor:
    steps = np.diff(flat)
    if len(flat) == 1 or (steps == steps[0]).all():
        step = int(steps[0]) if len(flat) > 1 else 1
        return (
            _run(x, at, int(flat[0]), 0, len(flat))
            if step == 0
            else strided_slice(x, at, int(flat[0]), step, len(flat))
        )
    runs = _runs(flat)
    last = math.prod(x.shape[at + 1 :]) == 1
    huge = max(x.shape[at], len(flat)) > MATRIX_LIMIT
    if not last and (len(runs) <= MANY_RUNS or (huge and len(runs) <= MOST_RUNS)):
        return s.concat([_run(x, at, *run) for run in runs], at)
    if huge and len(runs) <= MOST_RUNS:  # too long for a matrix: as the rows of [n, the rest], where slices are safe
        n, rest = x.shape[at], math.prod(x.shape[:at])
        rows = s.reshape(x, (rest, n))
        rows = s.reshape(x, (n, 1)) if rest == 1 else s.transpose(rows, (1, 0))
        taken = s.concat([_run(rows, 0, *run) for run in runs], 0)
        back = taken if rest == 1 else s.transpose(taken, (1, 0))
        return s.reshape(back, (*x.shape[:at], len(flat), *x.shape[at + 1 :]))
    return select_axis(x, at, flat)


def pad_any(x: Tensor, pads: Sequence[tuple[int, int]], mode: str = "constant", value: float = 0.0) -> Tensor:
    """Cells before and after each axis; negative counts cut. Modes: constant, reflect, edge, wrap (numpy's meanings).

    The engine's pad takes H and W only; other axes get constant blocks by concat, two at a time (Q32). Reflection of H
    and W is the engine's own from A14 on (legalization replaces it before); other modes are selections of known
    elements.

    Raises:
        ValueError: nothing left, or more cells than the mode can fill.
    """
    if len(pads) != x.rank:
        raise ValueError(f"pad: {len(pads)} pairs for {x.shape}")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise ValueError(f"pad: no mode {mode!r}")
    if x.dtype == "bool":
        return as_bool(pad_any(as_mask(x), pads, mode, float(bool(value))))
    for axis, (before, after) in enumerate(pads):
        if before < 0 or after < 0:
            cut = (max(0, -before), max(0, -after))
            size = x.shape[axis] - sum(cut)
            if size < 1:
                raise ValueError(f"pad: {(before, after)} leave nothing of axis {axis} of {x.shape}")
            x = slice_axis(x, axis, cut[0], size)
    todo = {axis: (max(0, b), max(0, a)) for axis, (b, a) in enumerate(pads) if b > 0 or a > 0}
    image = {axis: pair for axis, pair in todo.items() if axis >= x.rank - 2}
    if mode == "constant":
        for axis in todo.keys() - image.keys():
            x = _blocks(x, axis, *todo[axis], value)
        return _pad_image(x, image, "constant", value) if image else x
    for axis, (before, after) in todo.items():
        index = np.pad(np.arange(x.shape[axis]), (before, after), mode=mode)  # type: ignore[call-overload]
        if mode == "reflect" and axis in image and max(before, after) < x.shape[axis]:
            x = _pad_image(x, {axis: (before, after)}, "reflect", 0.0)
        else:
            x = gather_constant(x, index, axis)
    return x


def _pad_image(x: Tensor, pads: dict[int, tuple[int, int]], mode: str, value: float) -> Tensor:
    """Pads the last two axes, seen as H and W of a tensor of rank 4."""
    lead = x.shape[:-2]
    four = (1,) * max(0, 4 - x.rank) + x.shape if x.rank <= 4 else (math.prod(lead[:-1]), *x.shape[-3:])
    cells = [*pads.get(x.rank - 2, (0, 0)), *pads.get(x.rank - 1, (0, 0))]
    padded = s.pad(reshape_if(x, four), [0, 0, 0, 0, *cells], mode, value)
    return reshape_if(padded, (*lead, *padded.shape[4 - min(2, x.rank) :]))


def _blocks(x: Tensor, axis: int, before: int, after: int, value: float) -> Tensor:
    def block(count: int) -> Tensor:
        return const(filled(tuple([count if i == axis else d for i, d in enumerate(x.shape)]), value))

    first, last = block(before) if before else None, block(after) if after else None
    if first is not None:
        x = s.concat((first, x), axis)
    return x if last is None else s.concat((x, last), axis)
