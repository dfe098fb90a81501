"""Gemm, MatMul, Einsum."""

from __future__ import annotations

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor, const
from ..node import Node, finite, reshaped
from ..node import broadcast as joint
from ..registry import Value, onnx_op


@onnx_op("MatMul", since=(1, 9, 13))
def matmul(node: Node, x: Value, y: Value) -> Tensor:
    """numpy's matmul: vectors, broadcasting batches, a constant on either side."""
    return product(_operand(node, x, 0), _operand(node, y, 1))


def _operand(node: Node, x: Value, i: int) -> Tensor:
    if isinstance(x, np.ndarray):
        finite(x, repr(node.view.inputs[i]))
    return node.tensor(i)


def product(x: Tensor, y: Tensor) -> Tensor:
    """matmul_any, with refusals instead of errors for shapes that do not fit."""
    if x.rank == 0 or y.rank == 0 or x.shape[-1] != y.shape[max(0, y.rank - 2)]:
        raise Refused("attribute form", f"the shapes {x.shape} and {y.shape} do not fit")
    joint(x.shape[:-2], y.shape[:-2])
    if x.rank == y.rank == 1:
        return reshaped(ops.matmul_any(reshaped(x, (1, *x.shape)), y), ())
    return ops.matmul_any(x, y)


@onnx_op("Gemm", since=(1, 6, 7, 9, 11, 13))
def gemm(
    node: Node,
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 0,
) -> Tensor:
    """alpha A' B' + beta C; C broadcasts to the product, from the right (before version 7 only where `broadcast` says
    so). Factors go into constants where they can."""
    if broadcast and not node.before(7):
        raise Refused("attribute form", "the attribute 'broadcast' ended with opset 6")
    left, right = _matrix(node, a, 0, transA), _matrix(node, b, 1, transB)
    factor = alpha
    if isinstance(right, np.ndarray) and factor != 1.0:
        right, factor = right.astype(np.float64) * factor, 1.0
    elif isinstance(left, np.ndarray) and factor != 1.0:
        left, factor = left.astype(np.float64) * factor, 1.0
    y = product(_tensor(left), _tensor(right))
    if factor != 1.0:
        y = ops.mul(y, factor)
    if c is None or beta == 0:
        return y
    if joint(y.shape, c.shape) != y.shape or (node.before(7) and not broadcast and c.shape != y.shape):
        raise Refused("attribute form", f"C of shape {c.shape} does not broadcast to {y.shape}")
    if isinstance(c, np.ndarray):
        node.const(c, node.view.inputs[2])
        return ops.add(y, const(c if beta == 1.0 else c.astype(np.float64) * beta))
    return ops.add(y, c if beta == 1.0 else ops.mul(c, beta))


def _matrix(node: Node, x: Value, i: int, transpose: int) -> Value:
    if len(x.shape) != 2:
        raise Refused("rank", f"a matrix of rank {len(x.shape)}")
    if isinstance(x, np.ndarray):
        node.const(finite(x, repr(node.view.inputs[i])), node.view.inputs[i])
        return x.T if transpose else x
    return ops.transpose(x, (1, 0)) if transpose else x


def _tensor(x: Value) -> Tensor:
    return const(x) if isinstance(x, np.ndarray) else x


@onnx_op("Einsum", since=(12, 28))
def einsum(node: Node, *xs: Tensor, equation: str) -> Tensor:
    """Any number of operands, two at a time: diagonals, sums, transposes and matmuls."""
    return ops.einsum_any(equation, *xs)
