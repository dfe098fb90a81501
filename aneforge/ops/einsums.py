"""Einsum, as far as it is sums, transposes and matmuls."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..errors import Refused
from ..ir import Tensor, const
from .contract import matmul_any, reshape_if
from .layout import strided_slice, transpose_if
from .masks import broadcast_to
from .shape import expand_dims, reshape, squeeze
from .sums import reduce_sum_wide

_MAX_RANK = 5


def einsum_any(equation: str, *xs: Tensor) -> Tensor:
    """numpy's einsum of any number of operands, two at a time. Diagonals are slices of merged axes.

    Raises:
        Refused: a result with a label twice, operands that do not fit, an intermediate of rank above 5.
    """
    terms, result = _parse(equation.replace(" ", ""), [x.rank for x in xs])
    given = [_diagonals(x, term) for x, term in zip(xs, terms, strict=True)]
    terms = [labels for _, labels in given]
    value, labels = given[0]
    for k in range(1, len(given)):
        later = set(result).union(*terms[k + 1 :])
        value, labels = _contract(value, labels, given[k][0], terms[k], later)
    extra = [i for i, label in enumerate(labels) if label not in result]
    if extra:
        value = _sum(value, extra)
        labels = [label for label in labels if label in result]
    return transpose_if(value, [labels.index(label) for label in result])


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


def _diagonals(x: Tensor, term: list[str]) -> tuple[Tensor, list[str]]:
    """x with one axis for each label, and the labels. Elements with equal indices of a pair of axes of n stand n + 1
    apart once both axes are one."""
    labels = list(term)
    while len(set(labels)) != len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        i, j = [k for k, label in enumerate(labels) if label == twice][:2]
        n = x.shape[i]
        if x.shape[j] != n:
            raise Refused("attribute form", f"the label {twice!r} stands for {n} and {x.shape[j]}")
        rest = [k for k in range(x.rank) if k not in (i, j)]
        lead = tuple(x.shape[k] for k in rest)
        moved = reshape_if(transpose_if(x, [i, j, *rest]), (n * n, *lead))
        x = strided_slice(moved, 0, 0, n + 1, n) if n > 1 else moved
        labels = [twice, *(labels[k] for k in rest)]
    return x, labels


def _contract(a: Tensor, la: list[str], b: Tensor, lb: list[str], later: set[str]) -> tuple[Tensor, list[str]]:
    """One product of two operands, as a batched matmul: labels [batch, left, right]."""
    a, la = _drop(a, la, set(lb) | later)
    b, lb = _drop(b, lb, set(la) | later)
    extent_a, extent_b = dict(zip(la, a.shape, strict=True)), dict(zip(lb, b.shape, strict=True))
    shared = [label for label in la if label in extent_b]
    for label in shared:
        if extent_a[label] != extent_b[label]:
            if 1 not in (extent_a[label], extent_b[label]) or not label.isdigit():  # an ellipsis broadcasts
                raise Refused(
                    "attribute form", f"the label {label!r} stands for {extent_a[label]} and {extent_b[label]}"
                )
            extent = max(extent_a[label], extent_b[label])
            if extent_a[label] == 1:
                a = broadcast_to(a, [extent if name == label else d for name, d in zip(la, a.shape, strict=True)])
                extent_a[label] = extent
            else:
                b = broadcast_to(b, [extent if name == label else d for name, d in zip(lb, b.shape, strict=True)])
                extent_b[label] = extent
    batch = [label for label in shared if label in later]
    summed = [label for label in shared if label not in later]
    left = [label for label in la if label not in shared]
    right = [label for label in lb if label not in shared]
    x = _fold(a, la, [batch, left, summed])
    y = _fold(b, lb, [batch, summed, right])
    extents = {**extent_a, **extent_b}
    labels = [*batch, *left, *right]
    if len(labels) > _MAX_RANK:
        raise Refused("rank", f"an intermediate product of rank {len(labels)}")
    return _reshaped(matmul_any(x, y), tuple(extents[label] for label in labels)), labels


def _drop(x: Tensor, labels: list[str], kept: set[str]) -> tuple[Tensor, list[str]]:
    gone = [i for i, label in enumerate(labels) if label not in kept]
    if not gone:
        return x, labels
    return _sum(x, gone), [label for label in labels if label in kept]


def _sum(x: Tensor, axes: list[int]) -> Tensor:
    if len(axes) == x.rank:
        return _reshaped(reduce_sum_wide(x, axes, True), ())
    return reduce_sum_wide(x, axes, False)


def _fold(x: Tensor, labels: list[str], groups: list[list[str]]) -> Tensor:
    """x with its axes in the order of `groups`, each group merged into one axis."""
    extents = dict(zip(labels, x.shape, strict=True))
    order = [labels.index(label) for group in groups for label in group]
    shape = tuple(math.prod(extents[label] for label in group) for group in groups)
    if x.is_const:
        return const(np.ascontiguousarray(x.value.transpose(order)).reshape(shape))
    return reshape_if(transpose_if(x, order), shape)


def _reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """x in another shape; scalars come and go by single axes, since MIL has no reshape to none."""
    if x.shape == shape:
        return x
    if not shape:
        return squeeze(x, tuple(range(x.rank)))
    return reshape(expand_dims(x, (0,)) if x.rank == 0 else x, shape)
