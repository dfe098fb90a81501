"""MatMul, Gemm, Einsum, Det."""

from __future__ import annotations

import math

import numpy as np

from ..tensors import Array
from .table import Call, Unfoldable, folds

_WORK = 1 << 28  # multiply-adds that are still done at import


@folds("MatMul")
def _matmul(call: Call, x: Array, y: Array) -> Array:
    if x.size * (y.shape[-1] if y.ndim > 1 else 1) > _WORK:
        raise Unfoldable
    return np.asarray(np.matmul(x, y)).astype(x.dtype, copy=False)


@folds("Gemm")
def _gemm(
    call: Call,
    a: Array,
    b: Array,
    c: Array | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int | None = None,
) -> Array:
    call.only_before(7, broadcast)
    left, right = a.T if transA else a, b.T if transB else b
    if a.dtype.kind in "iu" and (alpha != 1 or beta != 1):
        raise Unfoldable
    if left.shape[0] * right.size > _WORK:
        raise Unfoldable
    out = np.matmul(left, right)
    out = out if alpha == 1 else out * np.asarray(alpha, a.dtype)
    if c is not None and beta != 0:
        if call.version < 7 and not broadcast and c.shape != out.shape:
            raise Unfoldable
        out = out + np.broadcast_to(c if beta == 1 else c * np.asarray(beta, a.dtype), out.shape)
    return np.asarray(out).astype(a.dtype, copy=False)


@folds("Einsum")
def _einsum(call: Call, *xs: Array, equation: str) -> Array:
    text = "".join(equation.split())
    extents: dict[str, int] = {}
    dots = 1
    for term, x in zip(text.partition("->")[0].split(","), xs, strict=True):
        if "..." in term:
            dots = max(dots, x.size)
        else:
            extents |= {name: max(d, extents.get(name, 1)) for name, d in zip(term, x.shape, strict=True)}
    if math.prod(extents.values()) * dots > _WORK:
        raise Unfoldable
    wide = [x if x.dtype.kind in "iuf" else x.astype(np.float32) for x in xs]  # numpy has no einsum of bfloat16
    made = np.asarray(np.einsum(text, *wide, optimize="greedy"))
    return made.astype(xs[0].dtype, copy=False)


@folds("Det")
def _det(call: Call, x: Array) -> Array:
    if x.size * x.shape[-1] > _WORK:
        raise Unfoldable
    return np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)
