"""Writing by known indices. The data and the updates may be computed at run time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from ..node import Node, reshaped
from ..registry import Data, Known, onnx_op
from ..shapes import wrap
from ..tensors import Array
from .indexing import positive


def _write(data: Tensor, places: Sequence[Array], updates: Tensor, reduction: str) -> Tensor:
    if reduction not in ops.JOIN:
        raise Refused("attribute form", f"reduction {reduction!r}")
    rest = data.shape[len(places) :]
    flat = reshaped(updates, (math.prod(updates.shape) // math.prod(rest), *rest))
    return ops.write_at(data, [np.asarray(p, np.int64).reshape(-1) for p in places], flat, reduction)


@onnx_op("ScatterElements", since=(11, 13, 16, 18), layout=True)
def scatter_elements(
    node: Node, x: Data, indices: Known, updates: Data, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """x[.., indices[i, j, k], ..] = updates[i, j, k], or joined with what is there."""
    _same_kind(node)
    at = wrap(axis, x.rank)
    if indices.shape != updates.shape or indices.ndim != x.rank:
        raise Refused("attribute form", f"indices {indices.shape} and updates {updates.shape} for {x.shape}")
    if any(n > d for i, (n, d) in enumerate(zip(indices.shape, x.shape, strict=True)) if i != at):
        raise Refused("attribute form", f"indices {indices.shape} reach beyond {x.shape}")
    places = [np.asarray(i) for i in np.indices(indices.shape)]
    places[at] = positive(indices, x.shape[at])
    return _write(x, places, updates, reduction)


@onnx_op("Scatter", since=(9, 11), layout=True)
def scatter(node: Node, x: Data, indices: Known, updates: Data, *, axis: int = 0) -> Tensor:
    """What ScatterElements was called before opset 11."""
    return scatter_elements(node, x, indices, updates, axis=axis)


@onnx_op("ScatterND", since=(11, 13, 16, 18), layout=True)
def scatter_nd(node: Node, x: Data, indices: Known, updates: Data, *, reduction: str = "none") -> Tensor:
    """x[indices[k]] = updates[k], for index tuples that lead into x."""
    _same_kind(node)
    depth = indices.shape[-1] if indices.ndim else 0
    if not 1 <= depth <= x.rank or updates.shape != (*indices.shape[:-1], *x.shape[depth:]):
        raise Refused("attribute form", f"indices {indices.shape} and updates {updates.shape} for {x.shape}")
    return _write(x, [positive(indices[..., k], x.shape[k]) for k in range(depth)], updates, reduction)


def _same_kind(node: Node) -> None:
    if node.dtype(0) != node.dtype(2):
        raise Refused("data type", f"updates of {node.dtype(2)} for {node.dtype(0)}")


@onnx_op("TensorScatter", since=(24,), layout=True)
def tensor_scatter(
    node: Node, past: Data, update: Data, first: Known | None = None, *, axis: int = -2, mode: str = "linear"
) -> Tensor:
    """The update along one axis, in each batch from a known place on; circular: around the end."""
    at = wrap(axis, past.rank)
    extent, n = past.shape[at], update.shape[at] if update.rank == past.rank else 0
    begins = np.zeros(past.shape[0], np.int64) if first is None else first.astype(np.int64)
    fits = update.shape[:at] + update.shape[at + 1 :] == past.shape[:at] + past.shape[at + 1 :] and 1 <= n <= extent
    if at == 0 or mode not in ("linear", "circular") or not fits or begins.shape != past.shape[:1]:
        raise Refused("attribute form", f"{mode} writes of {update.shape} to {past.shape} along axis {at}")
    places = [np.asarray(i) for i in np.indices(update.shape[: at + 1])]
    places[at] = places[at] + begins.reshape(-1, *(1,) * at)
    if mode == "circular":
        places[at] = places[at] % extent
    if begins.min() < 0 or places[at].max() >= extent:
        raise Refused("attribute form", f"writes from {begins.tolist()} on, {n} of {extent} elements")
    return _write(past, places, update, "none")
