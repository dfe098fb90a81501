"""Gemm, MatMul, Einsum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor, const
from ..node import MAX_RANK, Node, finite, reshaped
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
    """Any number of operands, two at a time, without repeated labels in one operand: sums, transposes and matmuls."""
    terms, result = _parse(equation.replace(" ", ""), [x.rank for x in xs])
    value, labels = xs[0], terms[0]
    for k in range(1, len(xs)):
        later = set(result).union(*terms[k + 1 :])
        value, labels = _contract(value, labels, xs[k], terms[k], later)
    extra = [i for i, label in enumerate(labels) if label not in result]
    if extra:
        value = _sum(value, extra)
        labels = [label for label in labels if label in result]
    return ops.transpose_if(value, [labels.index(label) for label in result])


def _parse(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """Labels of every operand and of the result; the ellipsis becomes labels "0", "1", … counted from the right."""
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks) or not ranks:
        raise Refused("attribute form", f"the equation {equation!r} has {len(parts)} terms for {len(ranks)} operands")
    terms, widest = [], 0
    for part, rank in zip(parts, ranks, strict=True):
        before, dots, after = part.partition("...")
        width = rank - len(before) - len(after)
        if width < 0 or (width > 0 and not dots):
            raise Refused("attribute form", f"the term {part!r} of {equation!r} does not fit rank {rank}")
        widest = max(widest, width if dots else 0)
        terms.append([*before, *(str(i) for i in reversed(range(width))), *after])
    if any(len(set(term)) != len(term) for term in terms):
        raise Refused("attribute form", f"a repeated label in one term of {equation!r}: a diagonal has no engine form")
    dots_out = [str(i) for i in reversed(range(widest))]
    if not arrow:
        flat = [label for term in terms for label in term if not label.isdigit()]
        return terms, [*dots_out, *sorted(label for label in set(flat) if flat.count(label) == 1)]
    before, dots, after = right.partition("...")
    if widest and not dots:
        raise Refused("attribute form", f"{equation!r} drops the axes of its ellipsis")
    result = [*before, *(dots_out if dots else []), *after]
    known = {label for term in terms for label in term}
    if len(set(result)) != len(result) or not set(result) <= known:
        raise Refused("attribute form", f"the result of {equation!r} has a label twice, or one of no term")
    return terms, result


def _contract(a: Tensor, la: list[str], b: Tensor, lb: list[str], later: set[str]) -> tuple[Tensor, list[str]]:
    """One product of two operands, as a batched matmul: labels [batch, left, right]."""
    a, la = _drop(a, la, set(lb) | later)
    b, lb = _drop(b, lb, set(la) | later)
    extent_a, extent_b = dict(zip(la, a.shape, strict=True)), dict(zip(lb, b.shape, strict=True))
    shared = [label for label in la if label in extent_b]
    for label in shared:
        if extent_a[label] != extent_b[label]:
            if 1 not in (extent_a[label], extent_b[label]):
                raise Refused(
                    "attribute form", f"the label {label!r} stands for {extent_a[label]} and {extent_b[label]}"
                )
            extent = max(extent_a[label], extent_b[label])
            if extent_a[label] == 1:
                a = ops.broadcast_to(a, [extent if name == label else d for name, d in zip(la, a.shape, strict=True)])
                extent_a[label] = extent
            else:
                b = ops.broadcast_to(b, [extent if name == label else d for name, d in zip(lb, b.shape, strict=True)])
                extent_b[label] = extent
    batch = [label for label in shared if label in later]
    summed = [label for label in shared if label not in later]
    left = [label for label in la if label not in shared]
    right = [label for label in lb if label not in shared]
    x = _fold(a, la, [batch, left, summed])
    y = _fold(b, lb, [batch, summed, right])
    extents = {**extent_a, **extent_b}
    labels = [*batch, *left, *right]
    if len(labels) > MAX_RANK:
        raise Refused("rank", f"an intermediate product of rank {len(labels)}")
    return reshaped(ops.matmul_any(x, y), tuple(extents[label] for label in labels)), labels


def _drop(x: Tensor, labels: list[str], kept: set[str]) -> tuple[Tensor, list[str]]:
    gone = [i for i, label in enumerate(labels) if label not in kept]
    if not gone:
        return x, labels
    return _sum(x, gone), [label for label in labels if label in kept]


def _sum(x: Tensor, axes: list[int]) -> Tensor:
    if len(axes) == x.rank:
        return reshaped(ops.reduce_sum_wide(x, axes, True), ())
    return ops.reduce_sum_wide(x, axes, False)


def _fold(x: Tensor, labels: list[str], groups: list[list[str]]) -> Tensor:
    """x with its axes in the order of `groups`, each group merged into one axis."""
    extents = dict(zip(labels, x.shape, strict=True))
    order = [labels.index(label) for group in groups for label in group]
    shape = tuple(math.prod(extents[label] for label in group) for group in groups)
    if x.is_const:
        return const(np.ascontiguousarray(x.value.transpose(order)).reshape(shape))
    return ops.reshape_if(ops.transpose_if(x, order), shape)
