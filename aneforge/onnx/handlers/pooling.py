"""MaxPool, AveragePool, LpPool and the global pools."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from ..node import Node
from ..registry import Number, onnx_op
from ..windows import Window, window
from .arithmetic import pairwise

MOST_TAPS = 128
"""Taps that a window is taken apart into."""


def _windows(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    pads: Sequence[int] | None,
    auto_pad: str,
    ceil: bool,
) -> tuple[Window, list[int]]:
    """The window, and how many there are along each axis: the operator's text, whatever shape inference says."""
    if x.rank < 3:
        raise Refused("rank", f"a pool of rank {x.rank}; there is no spatial axis")
    w = window(x.shape[2:], kernel, strides, dilations, pads, auto_pad)
    if auto_pad.startswith("SAME"):
        if max(w.dilations) > 1:
            raise Refused("attribute form", "auto_pad of a dilated pool, where runtimes forget the dilation")
        if any((-(-d // s) - 1) * s + k < d for d, s, k in zip(x.shape[2:], w.strides, w.kernel, strict=True)):
            raise Refused(
                "attribute form", "auto_pad of windows with gaps between them, where runtimes shift the windows"
            )
    if any(max(pair) >= reach for pair, reach in zip(w.pads, w.reach, strict=True)):
        raise Refused("attribute form", f"pads {w.pads} are as large as the window: some windows hold nothing")
    outs = [
        ops.onnx_windows(d, k, s, e, *p, ceil)
        for d, k, s, e, p in zip(x.shape[2:], w.kernel, w.strides, w.dilations, w.pads, strict=True)
    ]
    if ceil and auto_pad != "NOTSET":
        floor = [
            ops.onnx_windows(d, k, s, e, *p, False)
            for d, k, s, e, p in zip(x.shape[2:], w.kernel, w.strides, w.dilations, w.pads, strict=True)
        ]
        if floor != outs:
            raise Refused("attribute form", "auto_pad together with ceil_mode, where the two disagree")
    if min(outs) < 1:
        raise Refused("attribute form", f"the window {w.kernel} does not fit into {x.shape[2:]}")
    return w, outs


def _pool(x: Tensor, kind: str, w: Window, outs: list[int], ceil: bool, include: bool) -> Tensor:
    if max(w.dilations) > 1:
        return _pool_taps(x, kind, w, outs, include)
    if x.rank == 5:
        return _pool_volume(x, kind, w, ceil, include)
    return ops.pool_any(x, kind, w.kernel, w.strides, w.pads, ceil, include)


def _pool_volume(x: Tensor, kind: str, w: Window, ceil: bool, include: bool) -> Tensor:
    """Three axes as two pools, over H and W, then over D.

    A maximum of maxima; a mean of means, since the number of cells in a window is a product over the axes.
    """
    n, c, d, h, width = x.shape
    flat = ops.reshape(x, (n, c * d, h, width))
    flat = ops.pool_any(flat, kind, w.kernel[1:], w.strides[1:], w.pads[1:], ceil, include)
    h, width = flat.shape[2:]
    deep = ops.reshape(flat, (n, c, d, h * width))
    deep = ops.pool_any(deep, kind, (w.kernel[0], 1), (w.strides[0], 1), [w.pads[0], (0, 0)], ceil, include)
    return ops.reshape(deep, (n, c, deep.shape[2], h, width))


def _pool_taps(x: Tensor, kind: str, w: Window, outs: list[int], include: bool) -> Tensor:
    """A dilated window, tap by tap."""
    extents = x.shape[2:]
    taps = _taps(x, w, outs, -65504.0 if kind == "max" else 0.0)
    if kind == "max":
        return pairwise(taps, ops.maximum)
    counts = np.ones((), np.float64)
    for axis, (o, extent) in enumerate(zip(outs, extents, strict=True)):
        at = np.arange(o)[:, None] * w.strides[axis] - w.pads[axis][0]
        cell = at + np.arange(w.kernel[axis])[None, :] * w.dilations[axis]
        low, high = (-w.pads[axis][0], extent + w.pads[axis][1]) if include else (0, extent)
        inside = ((cell >= low) & (cell < high)).sum(1).astype(np.float64)
        counts = counts[..., None] * inside
    if not counts.all():
        raise Refused("attribute form", "some windows hold nothing")
    # Scaled before they are added: the sum of the taps may leave fp16 where their mean does not.
    whole = 1.0 / len(taps)
    mean = pairwise([ops.mul(t, whole) for t in taps], ops.add)
    share = len(taps) / counts
    return mean if (share == 1).all() else ops.mul(mean, share[None, None])


def _taps(x: Tensor, w: Window, outs: list[int], fill: float) -> list[Tensor]:
    """What stands at each place of the windows, [*x.shape[:2], *outs]: a strided slice of the padded input."""
    if math.prod(w.kernel) > MOST_TAPS:
        raise Refused("limit", f"a window of {math.prod(w.kernel)} taps, one by one; up to {MOST_TAPS} have a form")
    ends = [
        max(0, (o - 1) * s + r - d - p[0])
        for o, s, r, d, p in zip(outs, w.strides, w.reach, x.shape[2:], w.pads, strict=True)
    ]
    cells = [(0, 0), (0, 0), *((p[0], e) for p, e in zip(w.pads, ends, strict=True))]
    padded = ops.pad_any(x, cells, "constant", fill) if any(map(any, cells)) else x
    taps = []
    for offsets in itertools.product(*(range(k) for k in w.kernel)):
        starts = [0, 0, *(o * d for o, d in zip(offsets, w.dilations, strict=True))]
        taps.append(ops.slice_box(padded, starts, [1, 1, *w.strides], [*x.shape[:2], *outs]))
    return taps


@onnx_op("MaxPool", since=(1, 8, 10, 11, 12, 22), own_shape=True)
def max_pool(
    node: Node,
    x: Number,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """One to three spatial axes, dilated too. Its second output, the indices, has no engine form."""
    w, outs = _windows(x, kernel_shape, strides, dilations, pads, auto_pad, bool(ceil_mode))
    return node.prove(_pool(x, "max", w, outs, bool(ceil_mode), False), node.range(0))


@onnx_op("AveragePool", since=(1, 7, 10, 11, 19, 22), own_shape=True)
def average_pool(
    node: Node,
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """The cells that count are those of the input, and with count_include_pad those of the declared pads: never what
    ceil_mode adds beyond them."""
    w, outs = _windows(x, kernel_shape, strides, dilations, pads, auto_pad, bool(ceil_mode))
    return _pool(x, "avg", w, outs, bool(ceil_mode), bool(count_include_pad))


@onnx_op("LpPool", since=(1, 2, 11, 18, 22), own_shape=True)
def lp_pool(
    node: Node,
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    p: float = 2,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """p = 1 and 2: the mean over whole windows (pads count as zeros) times their size. Other whole p: each tap by the
    greatest of its window, so that no power vanishes in fp16."""
    w, outs = _windows(x, kernel_shape, strides, dilations, pads, auto_pad, bool(ceil_mode))
    _whole_power(p)
    if p > 2:
        taps = _taps(ops.abs(x), w, outs, 0.0)
        peak = pairwise(taps, ops.maximum)
        scale = ops.inverse(ops.maximum(peak, ops.TINY), 0.0)
        return _root(pairwise([ops.power(ops.mul(t, scale), p) for t in taps], ops.add), peak, p)
    size = float(math.prod(w.kernel))
    # Zero pads up to the last cell that a window touches make every window whole: then a mean is a sum over its size.
    ends = [
        max(0, (o - 1) * s + r - d - q[0])
        for o, s, r, d, q in zip(outs, w.strides, w.reach, x.shape[2:], w.pads, strict=True)
    ]
    cells = [(0, 0), (0, 0), *((q[0], e) for q, e in zip(w.pads, ends, strict=True))]
    whole = Window(w.kernel, w.strides, w.dilations, [(0, 0)] * len(outs))

    def mean(t: Tensor) -> Tensor:
        padded = ops.pad_any(t, cells) if any(map(any, cells)) else t
        return _pool(padded, "avg", whole, outs, False, False)

    if p == 1:
        return ops.mul(mean(ops.abs(x)), size)
    scaled, peak, _ = ops.scaled_by_peak(x, tuple(range(1, x.rank)))
    return ops.mul(ops.mul(ops.sqrt(mean(ops.mul(scaled, scaled))), math.sqrt(size)), peak)


def _root(total: Tensor, peak: Tensor, p: float) -> Tensor:
    """peak * total ** (1 / p), for powers of what was scaled by the peak: total is 1 or more, or all is 0."""
    return ops.mul(ops.mul(ops.pow(ops.maximum(total, ops.TINY), 1.0 / p), ops.maximum(peak, ops.TINY)), ops.sign(peak))


def _whole_power(p: float) -> None:
    if p not in range(1, 9):
        raise Refused("attribute form", f"p = {p}; whole numbers from 1 to 8 have a form")


def _spatial(x: Tensor) -> tuple[int, ...]:
    if x.rank < 2:
        raise Refused("rank", f"a global pool of rank {x.rank}")
    return tuple(range(2, x.rank))


@onnx_op("GlobalAveragePool", since=(1, 22))
def global_average_pool(node: Node, x: Tensor) -> Tensor:
    """Mean over every axis after the channel, kept as 1."""
    return ops.reduce_mean_wide(x, _spatial(x), True) if x.rank > 2 else x


@onnx_op("GlobalMaxPool", since=(1, 22))
def global_max_pool(node: Node, x: Tensor) -> Tensor:
    """Maximum over every axis after the channel, kept as 1."""
    return ops.reduce_max(x, _spatial(x), True) if x.rank > 2 else x


@onnx_op("GlobalLpPool", since=(1, 2, 22))
def global_lp_pool(node: Node, x: Tensor, *, p: float = 2) -> Tensor:
    """Whole p; from 3 on scaled by the greatest, whose power is 1."""
    _whole_power(p)
    axes = _spatial(x)
    if not axes:
        return ops.abs(x)
    if p > 2:
        scaled, _, _ = ops.scaled_by_peak(ops.abs(x), axes)
        total = ops.reduce_sum_wide(ops.power(scaled, p), axes, True)
        return _root(total, ops.reduce_max(ops.abs(x), axes, True), p)
    return ops.reduce_l1(x, axes, True) if p == 1 else ops.reduce_l2(x, axes, True)
