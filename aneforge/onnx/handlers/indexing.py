"""Reading by known indices."""

from __future__ import annotations

import math

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor, const
from .. import ranges
from ..node import MAX_RANK, Node, reshaped, whole
from ..registry import Any_, Data, Known, Number, onnx_op
from ..shapes import wrap
from ..tensors import Array


@onnx_op("Gather", since=(1, 11, 13), layout=True)
def gather(node: Node, x: Any_, indices: Known, *, axis: int = 0) -> Tensor | Array:
    """Indices of any rank, negative ones from the end. Beyond rank 5 with the axes before and after as one."""
    given = node.shape(0)
    at = wrap(axis, len(given))
    ids = indices.astype(np.int64)
    _inside(ids, given[at])
    before, after = given[:at], given[at + 1 :]
    if max(len(given), len(given) - 1 + ids.ndim) <= MAX_RANK:
        return _take(node.data(0), ids, at)
    three = reshaped(node.elements(0), (math.prod(before), given[at], math.prod(after)))
    return node.shaped(ops.gather_constant(three, ids.reshape(-1), 1), (*before, *ids.shape, *after))


@onnx_op("GatherND", since=(11, 12, 13), layout=True)
def gather_nd(node: Node, x: Data, indices: Known, *, batch_dims: int = 0) -> Tensor:
    """Known index tuples, as a gather along the merged axes that they count in; the batch counts itself."""
    depth = indices.shape[-1] if indices.ndim else 0
    lead = batch_dims
    if not 1 <= depth <= x.rank - lead or not 0 <= lead < indices.ndim or x.shape[:lead] != indices.shape[:lead]:
        raise Refused("attribute form", f"index tuples {indices.shape} with batch_dims = {lead} for {x.shape}")
    parts = [positive(indices[..., k], x.shape[lead + k]) for k in range(depth)]
    outer = [np.broadcast_to(i, indices.shape[:-1]) for i in np.indices(indices.shape[:-1], sparse=True)[:lead]]
    counted = x.shape[: lead + depth]
    flat = np.ravel_multi_index([*outer, *parts], counted)
    merged = ops.reshape_if(x, (math.prod(counted), *x.shape[lead + depth :]))
    return _take(merged, np.asarray(flat, np.int64), 0)


@onnx_op("GatherElements", since=(11, 13), layout=True)
def gather_elements(node: Node, x: Data, indices: Known, *, axis: int = 0) -> Tensor:
    """out[i, j, k] = x[.., indices[i, j, k], ..] along `axis`."""
    at = wrap(axis, x.rank)
    if indices.ndim != x.rank:
        raise Refused("attribute form", f"indices {indices.shape} for {x.shape}")
    if any(n > d for i, (n, d) in enumerate(zip(indices.shape, x.shape, strict=True)) if i != at):
        raise Refused("attribute form", f"indices {indices.shape} reach beyond {x.shape}")
    return ops.take_along(x, positive(indices, x.shape[at]), at)


@onnx_op("Compress", since=(9, 11, 28), layout=True)
def compress(node: Node, x: Data, condition: Known, *, axis: int | None = None) -> Tensor:
    """The elements along an axis (or of all of them) for which a known condition holds; it may be shorter."""
    ids = np.flatnonzero(condition.reshape(-1))
    at = 0 if axis is None else wrap(axis, x.rank)
    flat = ops.reshape_if(x, (math.prod(x.shape),)) if axis is None else x
    _inside(ids, flat.shape[at])
    return _take(flat, ids, at)


@onnx_op("ReverseSequence", since=(10, 28), layout=True)
def reverse_sequence(node: Node, x: Data, lengths: Known, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """The first elements of every batch, as many as a known number, back to front: a gather of batch and time."""
    if {batch_axis, time_axis} != {0, 1} or x.rank < 2 or lengths.shape != (x.shape[batch_axis],):
        raise Refused("attribute form", f"axes {batch_axis} and {time_axis}, lengths {lengths.shape} for {x.shape}")
    order = [batch_axis, time_axis, *range(2, x.rank)]
    turned = ops.transpose_if(x, order)
    batches, times = turned.shape[:2]
    counts = lengths.astype(np.int64)[:, None]
    if counts.min() < 0 or counts.max() > times:
        raise Refused("attribute form", f"lengths {lengths.tolist()} for {times} elements")
    steps = np.arange(times)[None, :]
    ids = np.where(steps < counts, counts - 1 - steps, steps)
    if (counts == counts[0]).all():
        return ops.transpose_if(ops.gather_constant(turned, ids[0], 1), order)
    flat = (np.arange(batches)[:, None] * times + ids).reshape(-1)
    merged = ops.reshape(turned, (batches * times, *turned.shape[2:]))
    return ops.transpose_if(ops.reshape(ops.gather_constant(merged, flat, 0), turned.shape), order)


def _take(x: Tensor, ids: Array, axis: int) -> Tensor:
    flat = ops.gather_constant(x, ids.reshape(-1), axis)
    return reshaped(flat, (*x.shape[:axis], *ids.shape, *x.shape[axis + 1 :]))


def positive(ids: Array, extent: int) -> Array:
    """Indices counted from the start.

    Raises:
        Refused: none, or one outside."""
    _inside(ids, extent)
    return np.where(ids < 0, ids + extent, ids).astype(np.int64)


def _inside(ids: Array, extent: int) -> None:
    if ids.size == 0:
        raise Refused("limit", "no indices; the engine has no empty tensors")
    if ids.min() < -extent or ids.max() >= extent:
        raise Refused("attribute form", f"indices between {ids.min()} and {ids.max()} for {extent} elements")


@onnx_op("Trilu", since=(14,))
def trilu(node: Node, x: Data, k: Known | None = None, *, upper: int = 1) -> Tensor:
    """A selection by a constant mask: what is outside may be infinite."""
    if x.rank < 2:
        raise Refused("rank", f"Trilu of rank {x.rank}")
    offset = 0 if k is None else whole(k, "k")
    inside = np.ones(x.shape[-2:], bool)
    inside = np.triu(inside, offset) if upper else np.tril(inside, offset)
    return ops.where(const(np.broadcast_to(inside, x.shape)), x, np.zeros((), np.float32))


@onnx_op("OneHot", since=(9, 11, 28))
def one_hot(node: Node, indices: Number, depth: Any_, values: Known, *, axis: int = -1) -> Tensor:
    """values[1] where an index is that of the place, else values[0]; negative indices count from the end. Indices that
    are floats are truncated."""
    count = node.known(1).reshape(-1)
    if count.size != 1 or values.shape != (2,):
        raise Refused("attribute form", f"a depth of {count.size} elements, values of shape {values.shape}")
    n = int(count[0])
    if not 1 <= n <= ranges.COUNTED:
        raise Refused("limit", f"OneHot of depth {n}: fp16 counts to {ranges.COUNTED}")
    span = ranges.of_array(values)
    if values.dtype.kind not in "iub":
        off, on = (node.const(v.reshape(1), "values") for v in values)
    elif span is None or not ranges.exact(span):
        raise Refused("data type", f"values {values.tolist()}: fp16 counts to {ranges.COUNTED}")
    else:
        off, on = (const(v.reshape(1).astype(np.float32)) for v in values)
    at = wrap(axis, indices.rank + 1)
    _demand_rank(indices.rank + 1)
    x = indices if (d := node.dtype(0)) is not None and d.kind in "iu" else ops.trunc(indices)
    x = ops.where(ops.less(x, 0.0), ops.add(x, float(n)), x)
    places = np.arange(n, dtype=np.float32).reshape([-1 if i == at else 1 for i in range(indices.rank + 1)])
    hit = ops.equal(ops.expand_dims(x, (at,)), places)
    y = ops.as_mask(hit) if values.tolist() == [0, 1] else ops.where(hit, on, off)
    return node.prove(y, span)


def _demand_rank(rank: int) -> None:
    if rank > MAX_RANK:
        raise Refused("rank", f"a result of rank {rank}; the engine has 1 to {MAX_RANK}")
