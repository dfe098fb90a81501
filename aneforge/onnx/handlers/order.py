"""Operators that ask which element is greatest: their indices are small whole numbers."""

from __future__ import annotations

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from ..node import Node, reshaped, whole
from ..ranges import COUNTED
from ..registry import Known, Number, onnx_op
from ..shapes import wrap


def _arg(node: Node, x: Tensor, axis: int, keepdims: int, last: int, smallest: bool) -> Tensor:
    if x.rank == 0:
        raise Refused("rank", "a scalar has no axis")
    at = wrap(axis, x.rank)
    scalar = keepdims != 1 and x.rank == 1
    y = ops.argmax_first(x, at, keepdims == 1 or scalar, smallest, bool(last))
    return node.prove(reshaped(y, ()) if scalar else y, (0, x.shape[at] - 1))


@onnx_op("ArgMax", since=(1, 11, 12, 13))
def argmax(node: Node, x: Number, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Of fp16 numbers: what rounds to the same counts as equal."""
    return _arg(node, x, axis, keepdims, select_last_index, False)


@onnx_op("ArgMin", since=(1, 11, 12, 13))
def argmin(node: Node, x: Number, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _arg(node, x, axis, keepdims, select_last_index, True)


@onnx_op("TopK", since=(1, 10, 11, 24))
def topk(
    node: Node,
    x: Number,
    count: Known | None = None,
    *,
    k: int | None = None,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,
) -> list[Tensor | None]:
    """In order, also where none is asked for. Equal elements come by index."""
    n = k if count is None else whole(count, "K")
    if x.rank == 0 or n is None:
        raise Refused("attribute form", "TopK without an axis, or without K")
    at = wrap(axis, x.rank)
    extent = x.shape[at]
    if not 1 <= n <= extent:
        raise Refused("limit" if n == 0 else "attribute form", f"the first {n} of {extent} elements")
    if not node.wanted(1) and _has_text(node, n):
        native = ops.topk(x, n, at, not largest, True, False)[0]
        return [node.prove(native, node.range(0)), None]
    if extent > COUNTED:
        raise Refused("limit", f"TopK over {extent} elements: fp16 counts to {COUNTED}")
    values, indices = ops.first_k(x, n, at, bool(largest), node.wanted(0), node.wanted(1))
    if values is not None:
        node.prove(values, node.range(0))
    if indices is not None:
        node.prove(indices, (0, extent - 1))
    return [values, indices]


def _has_text(node: Node, k: int) -> bool:
    """Whether the target has an operation for the values. Indices cannot leave it: they are int32, without a cast."""
    target = node.scope.target
    return target.supports("topk") is None and k not in target.limits.topk_refused_k
