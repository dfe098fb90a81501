"""Reductions, the softmax family, running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from .. import ranges
from ..node import FLOATS, MAX_RANK, Node, reshaped, whole, wholes
from ..ranges import Range
from ..registry import Any_, Known, onnx_op
from ..shapes import wrap
from ..tensors import Array

Identity = Callable[[Tensor], Tensor]
Reduction = Callable[[Tensor, tuple[int, ...], bool], Tensor]


def _reduce(
    op: str,
    since: tuple[int, ...],
    reduction: Reduction,
    over_nothing: Identity,
    noop: Identity | None,
    spans: Callable[[Range, int], Range] | None = None,
    rounds: bool = False,
) -> None:
    """One of the Reduce operators.

    Args:
        over_nothing: what it is for a scalar.
        noop: what it is with noop_with_empty_axes and no axes; None where texts and implementations disagree.
        spans: what holds for a reduction of so many values of an interval; None: not of integers.
        rounds: it rounds floats: nothing is said of them.
    """

    def proved(node: Node, y: Tensor, count: int) -> Tensor:
        span, dtype = node.range(0), node.dtype(0)
        whole = dtype is not None and dtype.kind in "iu"
        return node.prove(y, None if span is None or spans is None or (rounds and not whole) else spans(span, count))

    @onnx_op(op, since=since)
    def reduce(
        node: Node,
        x: Any_,
        given: Known | None = None,
        *,
        axes: Sequence[int] | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor | Array:
        wanted = wholes(given) if given is not None else list(axes or ())
        if not wanted and noop_with_empty_axes:
            if noop is None:
                raise Refused("attribute form", "noop_with_empty_axes without axes")
            return proved(node, noop(node.number(0)), 1)
        if len(shape := node.shape(0)) > MAX_RANK:
            over = tuple(sorted({wrap(a, len(shape)) for a in wanted})) or tuple(range(len(shape)))
            return _blockwise(node, shape, over, keepdims == 1, reduction)
        x = node.number(0)
        over = tuple(sorted({wrap(a, x.rank) for a in wanted})) or tuple(range(x.rank))
        if not over:
            return proved(node, over_nothing(x), 1)
        scalar = keepdims != 1 and len(over) == x.rank
        y = reshaped(reduction(x, over, True), ()) if scalar else reduction(x, over, keepdims == 1)
        return proved(node, y, math.prod(x.shape[i] for i in over))


def _blockwise(
    node: Node, shape: tuple[int, ...], over: tuple[int, ...], keep: bool, reduction: Reduction
) -> Tensor | Array:
    """A reduction beyond rank 5: neighbouring axes that are all reduced, or none of them, as one."""
    dtype = node.dtype(0)
    if dtype is None or dtype.name not in FLOATS:
        raise Refused("data type", f"it is of {dtype}; the engine computes in fp16")
    blocks: list[tuple[bool, int]] = []
    for axis, extent in enumerate(shape):
        if extent > 1 and blocks and blocks[-1][0] == (axis in over):
            blocks[-1] = (blocks[-1][0], blocks[-1][1] * extent)
        elif extent > 1:
            blocks.append((axis in over, extent))
    if not any(gone for gone, _ in blocks):
        blocks.append((True, 1))  # every axis that goes has one element
    if len(blocks) > MAX_RANK:
        raise Refused("rank", f"axes {list(over)} of {list(shape)}, {len(blocks)} apart from one another")
    merged = reshaped(node.elements(0), tuple(extent for _, extent in blocks) or (1,))
    y = reduction(merged, tuple(i for i, (gone, _) in enumerate(blocks) if gone), True)
    return node.shaped(y, tuple(1 if i in over else d for i, d in enumerate(shape) if keep or i not in over))


def _same(x: Tensor) -> Tensor:
    return x


def _square(x: Tensor) -> Tensor:
    return ops.mul(x, x)


def _log(x: Tensor) -> Tensor:
    return ops.log(x, 0.0)


def _one_of(span: Range, count: int) -> Range:
    return span


_reduce("ReduceSum", (1, 11, 13), ops.reduce_sum_wide, _same, _same, ranges.times, rounds=True)
_reduce("ReduceMean", (1, 11, 13, 18), ops.reduce_mean_wide, _same, _same)
_reduce("ReduceMax", (1, 11, 12, 13, 18, 20), ops.reduce_max, _same, _same, _one_of)
_reduce("ReduceMin", (1, 11, 12, 13, 18, 20), ops.reduce_min, _same, _same, _one_of)
_reduce("ReduceProd", (1, 11, 13, 18), ops.product, _same, _same)
_reduce("ReduceL1", (1, 11, 13, 18), ops.reduce_l1, ops.abs, None)
_reduce("ReduceL2", (1, 11, 13, 18), ops.reduce_l2, ops.abs, None)
_reduce("ReduceSumSquare", (1, 11, 13, 18), ops.sum_square, _square, None)
_reduce("ReduceLogSum", (1, 11, 13, 18, 28), ops.log_sum, _log, None)
_reduce("ReduceLogSumExp", (1, 11, 13, 18, 28), ops.logsumexp, _same, None)


def _along(node: Node, x: Tensor, axis: int | None, compute: Callable[[Tensor, int], Tensor]) -> Tensor:
    """The softmax family: one axis from version 13 on; before, everything from the axis (default 1) on, flattened."""
    if x.rank == 0:
        raise Refused("rank", "a scalar has no axis")
    if node.since >= 13:
        return compute(x, wrap(-1 if axis is None else axis, x.rank))
    at = 1 if axis is None else axis
    at = at + x.rank if at < 0 else at
    if at == x.rank - 1 or (math.prod(x.shape[at + 1 :]) == 1 and at < x.rank):
        return compute(x, at)
    flat = ops.reshape(x, (math.prod(x.shape[:at]), math.prod(x.shape[at:])))
    return ops.reshape(compute(flat, 1), x.shape)


@onnx_op("Softmax", since=(1, 11, 13))
def softmax(node: Node, x: Tensor, *, axis: int | None = None) -> Tensor:
    return _along(node, x, axis, ops.softmax)


@onnx_op("LogSoftmax", since=(1, 11, 13))
def log_softmax(node: Node, x: Tensor, *, axis: int | None = None) -> Tensor:
    return _along(node, x, axis, ops.log_softmax)


@onnx_op("Hardmax", since=(1, 11, 13))
def hardmax(node: Node, x: Tensor, *, axis: int | None = None) -> Tensor:
    """1 at the first greatest element."""
    return _along(node, x, axis, ops.hardmax)


@onnx_op("CumSum", since=(11, 14))
def cumsum(node: Node, x: Tensor, axis: Known, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return ops.running_sum(x, wrap(whole(axis, "axis"), x.rank), bool(exclusive), bool(reverse))


@onnx_op("CumProd", since=(26,))
def cumprod(node: Node, x: Tensor, axis: Known, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return ops.running_product(x, wrap(whole(axis, "axis"), x.rank), bool(exclusive), bool(reverse))
