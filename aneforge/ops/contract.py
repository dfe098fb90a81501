"""Products with constant matrices along one axis: the engine's wide accumulator put to use for sums, selections,
resampling.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Refused
from ..ir import Tensor, const
from . import convolution as cv
from . import elementwise as e
from . import matrix as mx
from . import shape as s
from .base import Operand, axis_of, broadcast, operand
from .masks import broadcast_to

LONGEST = 16384
"""Extent of width, height and matmul axes that every engine takes (ane-guide app. A)."""
MATRIX_LIMIT = 4096
"""Extent up to which a square constant matrix is still a reasonable way to select or to accumulate."""


def rows(x: Tensor) -> Tensor:
    """x as a matrix of its last axis; as a batch of matrices when one of them would be longer than an engine takes."""
    if x.rank == 2:
        return x
    count = math.prod(x.shape[:-1])
    if count <= LONGEST or x.rank < 3:
        return s.reshape(x, (count, x.shape[-1]))
    lead = 1
    for d in x.shape[:-1]:
        if lead * d > LONGEST:
            break
        lead *= d
    return s.reshape(x, (lead, count // lead, x.shape[-1]))


def contract_axis(x: Tensor, axis: int, matrix: NDArray[Any]) -> Tensor:
    """y[.., o, ..] = sum over i of matrix[o, i] * x[.., i, ..], along `axis`.

    Accumulates wide (Q06 does not apply; results beyond 32752 are infinite, Q04). The last axis: a matmul. Any other:
    a 1x1 convolution with that axis as the channel, which needs no transpose.
    """
    at = axis_of("contract_axis", "axis", axis, x.rank)
    out, n = matrix.shape
    if n != x.shape[at]:
        raise ValueError(f"contract_axis: matrix {matrix.shape} does not fit axis {at} of {x.shape}")
    before, after = x.shape[:at], x.shape[at + 1 :]
    shape = (*before, out, *after)
    if math.prod(after) == 1:
        flat = x if not after else s.reshape(x, (*before, n))
        return reshape_if(mx.matmul(rows(flat), matrix, transpose_y=True), shape)
    height = math.prod(after[:-1])
    image = reshape_if(x, (math.prod(before), n, height, after[-1]))
    return reshape_if(cv.conv(image, matrix.reshape(out, n, 1, 1)), shape)


def reshape_if(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """reshape, or x itself where it has that shape; scalars come and go by single axes: MIL has no reshape to none."""
    if x.shape == shape:
        return x
    if not shape:
        return s.squeeze(x, tuple(range(x.rank)))
    return s.reshape(x, shape) if x.rank else s.expand_dims(x, tuple(range(len(shape))))


def select_axis(x: Tensor, axis: int, indices: NDArray[Any]) -> Tensor:
    """Elements `indices` (one axis, known) along `axis`, by a product with a 0/1 matrix: every product is exact.

    Halves are accumulated and doubled afterwards, so that values up to 65504 survive the accumulator's limit (Q04).
    """
    at = axis_of("select_axis", "axis", axis, x.rank)
    n = x.shape[at]
    if max(n, len(indices)) > MATRIX_LIMIT:
        raise Refused("limit", f"selecting {len(indices)} of {n} elements would need a matrix of {len(indices)} x {n}")
    matrix = np.zeros((len(indices), n), np.float32)
    matrix[np.arange(len(indices)), indices] = 0.5
    return e.mul(contract_axis(x, at, matrix), 2.0)


def resize_matmul(x: Tensor, axis: int, matrix: NDArray[Any]) -> Tensor:
    """Resampling along one axis by its matrix [out, in]: exact for every ONNX mode, on every engine (Q46)."""
    return contract_axis(x, axis, np.asarray(matrix))


@lru_cache(maxsize=64)
def _triangle(n: int, exclusive: bool, reverse: bool) -> NDArray[np.float32]:
    lower = np.tril(np.ones((n, n), np.float32), -1 if exclusive else 0)  # row o sums the columns i <= o
    return np.ascontiguousarray(lower.T if reverse else lower) * np.float32(0.5)


def running_sum(x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Cumulative sum along `axis` by a triangular matrix of ones (halves, then doubled: sums up to 65504)."""
    at = axis_of("running_sum", "axis", axis, x.rank)
    n = x.shape[at]
    if n > MATRIX_LIMIT:
        raise Refused("limit", f"a running sum over {n} elements would need a matrix of {n} x {n}")
    return e.mul(contract_axis(x, at, _triangle(n, exclusive, reverse)), 2.0)


def matmul_any(x: Operand, y: Operand) -> Tensor:
    """numpy's matmul for any ranks, constants on either side, batches that broadcast.

    A constant matrix on the right becomes [N, K] rows; one on the left becomes a 1x1 convolution; leading axes are
    merged where rank 5 would come up, which the engine refuses.
    """
    a, b = operand("matmul", "x", x), operand("matmul", "y", y)
    if a.rank == 0 or b.rank == 0:
        raise ValueError(f"matmul: x {a.shape} and y {b.shape} are no scalars")
    drop_row, drop_column = a.rank == 1, b.rank == 1
    if drop_row:
        a = _const_or_reshape(a, (1, a.shape[0]))
    if drop_column:
        b = _const_or_reshape(b, (b.shape[0], 1))
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"matmul: x {a.shape} and y {b.shape} do not fit")
    batch = broadcast("matmul", a.shape[:-2], b.shape[:-2])
    m, n = a.shape[-2], b.shape[-1]
    if b.is_const and math.prod(b.shape[:-2]) == 1:
        weight = b.value.reshape(b.shape[-2:]).T
        out = reshape_if(mx.matmul(rows(a), weight, transpose_y=True), (*batch, m, n))
    elif a.is_const and math.prod(a.shape[:-2]) == 1:
        out = reshape_if(contract_axis(b, -2, a.value.reshape(a.shape[-2:])), (*batch, m, n))
    else:
        out = _batched(a, b, batch)
    shape = (*batch, *(() if drop_row else (m,)), *(() if drop_column else (n,)))
    return reshape_if(out, shape)


def _const_or_reshape(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return const(x.value.reshape(shape), x.dtype) if x.is_const else s.reshape(x, shape)


def _batched(a: Tensor, b: Tensor, batch: tuple[int, ...]) -> Tensor:
    """Batched product of two tensors, leading axes merged to rank 4 at most."""
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    left = (1,) * (len(batch) - (a.rank - 2)) + a.shape[:-2]
    right = (1,) * (len(batch) - (b.rank - 2)) + b.shape[:-2]
    if len(batch) > 2:
        if left != right:
            a, left = broadcast_to(a, (*batch, m, k)), batch
            b, right = broadcast_to(b, (*batch, k, n)), batch
        a, b = _const_or_reshape(a, (math.prod(batch), m, k)), _const_or_reshape(b, (math.prod(batch), k, n))
        return s.reshape(mx.matmul(a, b), (*batch, m, n))
    if a.rank != b.rank:
        a = a if a.shape == (*left, m, k) else _const_or_reshape(a, (*left, m, k))
        b = b if b.shape == (*right, k, n) else _const_or_reshape(b, (*right, k, n))
    return mx.matmul(a, b)
