"""Reading and writing by indices, searching, sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..shapes import wrap
from ..tensors import Array
from .table import TABLE, Call, Unfoldable, folds, scalar


def _positive(indices: Array, extent: int) -> Array:
    """Indices from the start. ONNX Runtime refuses those outside; the texts call them an error."""
    if np.any((indices < -extent) | (indices >= extent)):
        raise Unfoldable
    return np.where(indices < 0, indices + extent, indices).astype(np.int64)


def _nan_free(x: Array) -> None:
    if x.dtype.kind == "f" and np.isnan(x).any():
        raise Unfoldable  # nobody says how a NaN compares


@folds("Gather")
def _gather(call: Call, x: Array, indices: Array, axis: int = 0) -> Array:
    call.affords([x.size // max(1, x.shape[axis]) * indices.size], x.dtype)
    return np.take(x, indices, axis)  # numpy checks the bounds, and counts negative ones from the end as ONNX does


@folds("GatherElements")
def _gather_elements(call: Call, x: Array, indices: Array, axis: int = 0) -> Array:
    ids = _positive(indices, x.shape[axis])
    at = wrap(axis, x.ndim)
    where: list[Array] = list(
        np.indices(ids.shape, sparse=True)
    )  # the other axes of the indices may be shorter than those of x
    where[at] = ids
    return x[tuple(where)]


@folds("GatherND")
def _gather_nd(call: Call, x: Array, indices: Array, batch_dims: int = 0) -> Array:
    depth, lead = indices.shape[-1], batch_dims
    if x.shape[:lead] != indices.shape[:lead]:
        raise Unfoldable
    parts = [_positive(indices[..., k], x.shape[lead + k]) for k in range(depth)]
    outer = np.indices(indices.shape[:-1], sparse=True)[:lead]
    call.affords((*indices.shape[:-1], *x.shape[lead + depth :]), x.dtype)
    return np.asarray(x[(*outer, *parts)])


_JOIN: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _written(x: Array, where: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """x with `updates` at the places `where`, which broadcast to one shape that leads the updates'."""
    out = x.copy()
    if reduction == "none":
        full = np.broadcast_arrays(*where)
        places = np.ravel_multi_index([f.reshape(-1) for f in full], x.shape[: len(where)])
        if len(np.unique(places)) != places.size:
            raise Unfoldable  # which of them wins is open
        out[where] = updates
    elif x.dtype.kind in "biuf" and reduction in _JOIN:
        _JOIN[reduction].at(out, where, updates)
    else:
        raise Unfoldable
    return out


@folds("ScatterElements", "Scatter")
def _scatter_elements(
    call: Call, x: Array, indices: Array, updates: Array, axis: int = 0, reduction: str = "none"
) -> Array:
    at = wrap(axis, x.ndim)
    if indices.shape != updates.shape or indices.ndim != x.ndim:
        raise Unfoldable
    where: list[Array] = [np.asarray(i) for i in np.indices(indices.shape)]
    where[at] = _positive(indices, x.shape[at])
    return _written(x, tuple(where), updates, reduction)


@folds("ScatterND")
def _scatter_nd(call: Call, x: Array, indices: Array, updates: Array, reduction: str = "none") -> Array:
    depth = indices.shape[-1]
    if updates.shape != (*indices.shape[:-1], *x.shape[depth:]):
        raise Unfoldable
    return _written(x, tuple(_positive(indices[..., k], x.shape[k]) for k in range(depth)), updates, reduction)


@folds("TensorScatter")
def _tensor_scatter(
    call: Call, past: Array, update: Array, at: Array | None = None, axis: int = -2, mode: str = "linear"
) -> Array:
    """Updates along one axis from a place that each batch has of its own."""
    on, first = wrap(axis, past.ndim), np.zeros(past.shape[0], np.int64) if at is None else at
    n, extent = update.shape[on], past.shape[on]
    if on == 0 or mode not in ("linear", "circular") or n > extent or np.any(first < 0):
        raise Unfoldable
    out = past.copy()
    for batch, begin in enumerate(first.tolist()):
        places = begin + np.arange(n)
        if mode == "circular":
            places = places % extent
        elif begin + n > extent:
            raise Unfoldable
        np.moveaxis(out[batch], on - 1, 0)[places] = np.moveaxis(update[batch], on - 1, 0)
    return out


@folds("ReverseSequence")
def _reverse_sequence(call: Call, x: Array, lengths: Array, batch_axis: int = 1, time_axis: int = 0) -> Array:
    if {batch_axis, time_axis} != {0, 1} or lengths.shape != (x.shape[batch_axis],):
        raise Unfoldable
    if np.any((lengths < 0) | (lengths > x.shape[time_axis])):
        raise Unfoldable
    out = x.copy()
    rows, source = np.moveaxis(out, batch_axis, 0), np.moveaxis(x, batch_axis, 0)
    for k, n in enumerate(lengths.tolist()):
        rows[k, :n] = source[k, :n][::-1]
    return out


@folds("Compress")
def _compress(call: Call, x: Array, condition: Array, axis: int | None = None) -> Array:
    return np.compress(condition.reshape(-1), x, axis)


@folds("NonZero")
def _nonzero(call: Call, x: Array) -> Array:
    return np.stack(np.nonzero(x)).astype(np.int64) if x.ndim else np.zeros((0, int(bool(x))), np.int64)


def _arg(pick: Callable[..., Any]) -> Callable[..., Array]:
    def run(call: Call, x: Array, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
        _nan_free(x)
        at = wrap(axis, x.ndim)
        found = pick(np.flip(x, at), at) if select_last_index else pick(x, at)
        found = x.shape[at] - 1 - found if select_last_index else found
        return np.asarray(np.expand_dims(found, at) if keepdims else found, np.int64)

    return run


TABLE["ArgMax"], TABLE["ArgMin"] = _arg(np.argmax), _arg(np.argmin)


@folds("TopK")
def _top_k(
    call: Call, x: Array, given: Array | None = None, k: int = 0, axis: int = -1, largest: int = 1, sorted: int = 1
) -> list[Array]:
    """Equal elements in the order of their indices. Unsorted, the order is open, so the sorted one will do."""
    _nan_free(x)
    at, count = wrap(axis, x.ndim), int(scalar(given)) if given is not None else k
    if not 0 <= count <= x.shape[at]:
        raise Unfoldable
    if largest:  # ascending from the back, so that equal ones come out first index first
        order = np.flip(x.shape[at] - 1 - np.argsort(np.flip(x, at), at, kind="stable"), at)
    else:
        order = np.argsort(x, at, kind="stable")
    chosen = np.take(order, np.arange(count), at)
    return [np.take_along_axis(x, chosen, at), chosen.astype(np.int64)]


@folds("Unique")
def _unique(call: Call, x: Array, axis: int | None = None, sorted: int = 1) -> list[Array]:
    key = x.astype(np.float32) if x.dtype.name == "bfloat16" else x
    if key.dtype.kind not in "biuf":
        raise Unfoldable
    _nan_free(key)
    _, first, inverse, counts = np.unique(key, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        first, inverse, counts = first[order], rank[inverse], counts[order]
    values = x.reshape(-1)[first] if axis is None else np.take(x, first, axis)
    return [values, *(a.astype(np.int64) for a in (first, inverse, counts))][: call.n_outputs]
