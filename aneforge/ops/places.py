"""Reading and writing single elements at known places. No engine gathers or scatters (see `indexing`).

Reads are products with 0/1 matrices, of which each holds halves that are doubled afterwards (Q04). Writes bring the
updates to the shape of the data and select by a constant mask, so that what is not written is not touched: it may be
infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Refused
from ..ir import Tensor, const
from . import elementwise as e
from . import matrix as mx
from . import shape as s
from .contract import MATRIX_LIMIT, contract_axis, reshape_if
from .layout import gather_constant, pad_any, transpose_if
from .masks import where

Indices = NDArray[np.int64]
ROUNDS = 8
"""How often one place may be written, one round of writes after the other."""
_MOST = 1 << 22  # elements of a constant that selects

JOIN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "none": lambda old, new: new,
    "add": e.add,
    "mul": e.mul,
    "min": e.minimum,
    "max": e.maximum,
}


def take_along(x: Tensor, indices: Indices, axis: int) -> Tensor:
    """numpy's take_along_axis for indices known and not negative (ONNX GatherElements); along the other axes the
    indices may be shorter than x.

    Where the indices are the same everywhere along the other axes: `gather_constant`. Else one small matrix for each
    place along these, as a batched product.
    """
    rank = x.rank
    corner = [d if i == axis else n for i, (d, n) in enumerate(zip(x.shape, indices.shape, strict=True))]
    if tuple(corner) != x.shape:
        x = s.slice_by_size(x, [0] * rank, corner)
    front = np.moveaxis(indices, axis, 0).reshape(indices.shape[axis], -1)  # [count, others]
    if (front == front[:, :1]).all():
        return gather_constant(x, front[:, 0], axis)
    count, others = front.shape
    n = x.shape[axis]
    if others * count * n > _MOST or max(others, n, count) > 1 << 14:
        raise Refused("limit", f"{count} of {n} elements at {others} places; its matrices are too large")
    matrices = np.zeros((others, count, n), np.float32)
    matrices[np.arange(others)[:, None], np.arange(count), front.T] = 0.5
    order = [i for i in range(rank) if i != axis]
    columns = reshape_if(transpose_if(x, [*order, axis]), (others, n, 1))
    taken = e.mul(mx.matmul(const(matrices), columns), 2.0)
    moved = reshape_if(taken, (*(indices.shape[i] for i in order), count))
    back = [*order, axis]
    return transpose_if(moved, [back.index(i) for i in range(rank)])


def write_at(data: Tensor, places: Sequence[Indices], updates: Tensor, reduction: str = "none") -> Tensor:
    """data with updates[k] joined to data[places[0][k], places[1][k], …], for known places that are not negative.

    Args:
        data: [*lead, *rest].
        places: one flat array of U indices for each axis of `lead`.
        updates: [U, *rest].
        reduction: none, add, mul, min, max.

    Raises:
        Refused: one place is written twice without a reduction, or too often; too many elements for a selection.
    """
    lead = data.shape[: len(places)]
    flat = np.ravel_multi_index([np.asarray(p, np.int64) for p in places], lead)
    rounds = _rounds(flat)
    if reduction == "none" and len(rounds) > 1:
        raise Refused("attribute form", "one place is written twice; which of the two stays is open")
    if len(rounds) > ROUNDS or (len(rounds) > 2 and reduction == "add"):
        if reduction != "add":
            raise Refused("limit", f"one place is written {len(rounds)} times; up to {ROUNDS} have a form")
        return _accumulated(data, flat, updates)
    for chosen in rounds:
        part = updates if len(chosen) == len(flat) else gather_constant(updates, chosen, 0)
        placed = _placed(data.shape, lead, flat[chosen], part)
        mask = np.zeros(lead, bool)
        mask.reshape(-1)[flat[chosen]] = True
        joined = JOIN[reduction](data, placed)
        full = mask.reshape(*lead, *(1,) * (data.rank - len(lead)))
        data = joined if mask.all() else where(const(np.broadcast_to(full, data.shape)), joined, data)
    return data


def _rounds(flat: Indices) -> list[Indices]:
    """Positions in `flat`, split so that no place comes twice in one part; in order."""
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    begins = np.flatnonzero(first)
    nth = np.arange(len(flat)) - np.repeat(begins, np.diff([*begins, len(flat)]))
    return [np.sort(order[nth == k]) for k in range(int(nth.max()) + 1)]


def _placed(shape: tuple[int, ...], lead: tuple[int, ...], flat: Indices, updates: Tensor) -> Tensor:
    """A tensor of `shape` that has the updates at their places, and anything elsewhere."""
    rest = shape[len(lead) :]
    lines = [_in_order_of_first(c) for c in np.unravel_index(flat, lead)]
    if math.prod(len(line) for line in lines) == len(flat):
        grid = np.ravel_multi_index(np.meshgrid(*lines, indexing="ij"), lead)
        if np.array_equal(grid.reshape(-1), flat):  # a box: axis by axis
            box = reshape_if(updates, (*(len(line) for line in lines), *rest))
            for axis, line in enumerate(lines):
                box = _spread(box, axis, line, lead[axis])
            return box
    count = math.prod(lead)
    ids = np.zeros(count, np.int64)
    ids[flat] = np.arange(len(flat))
    written = np.zeros(count, bool)
    written[flat] = True
    last = np.maximum.accumulate(np.where(written, np.arange(count), -1))
    ids = ids[np.where(last < 0, flat.min(), last)]  # elsewhere what stands before it, so that there are few pieces
    rows = reshape_if(updates, (len(flat), math.prod(rest)))
    return reshape_if(gather_constant(rows, ids, 0), shape)


def _in_order_of_first(values: NDArray[Any]) -> Indices:
    unique, first = np.unique(values, return_index=True)
    return np.asarray(unique[np.argsort(first)], np.int64)


def _spread(x: Tensor, axis: int, line: Indices, extent: int) -> Tensor:
    """Element k along `axis` at line[k] of `extent`."""
    n = len(line)
    if np.array_equal(line, np.arange(line[0], line[0] + n)):
        pads = [(int(line[0]), extent - int(line[0]) - n) if i == axis else (0, 0) for i in range(x.rank)]
        return pad_any(x, pads) if n < extent else x
    ids = np.zeros(extent, np.int64)
    ids[line] = np.arange(n)
    return gather_constant(x, ids, axis)


def _accumulated(data: Tensor, flat: Indices, updates: Tensor) -> Tensor:
    """Sums of updates by one product with a matrix that counts, which accumulates wide."""
    lead = data.shape[: data.rank - updates.rank + 1]
    count, n = math.prod(lead), len(flat)
    if max(count, n) > MATRIX_LIMIT:
        raise Refused("limit", f"{n} additions to {count} places would need a matrix of {count} x {n}")
    matrix = np.zeros((count, n), np.float32)
    np.add.at(matrix, (flat, np.arange(n)), 0.5)
    rows = reshape_if(updates, (n, math.prod(updates.shape[1:])))
    total = e.mul(contract_axis(rows, 0, matrix), 2.0)
    return e.add(data, reshape_if(total, data.shape))
