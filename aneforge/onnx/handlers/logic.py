"""Comparisons, logic and Where. An ONNX bool is a bool of the program, or an fp16 mask of 0 and 1."""

from __future__ import annotations

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor, const
from .. import ranges
from ..node import Node
from ..node import broadcast as joint
from ..registry import Any_, Bool, Data, Mask, Number, onnx_op
from .arithmetic import aligned


@onnx_op("Greater", since=(1, 7, 9, 13))
def greater(node: Node, x: Number, y: Number, *, broadcast: int = 0, axis: int | None = None) -> Bool:
    return ops.greater(x, aligned(node, x, y, broadcast, axis))


@onnx_op("Less", since=(1, 7, 9, 13))
def less(node: Node, x: Number, y: Number, *, broadcast: int = 0, axis: int | None = None) -> Bool:
    return ops.less(x, aligned(node, x, y, broadcast, axis))


@onnx_op("GreaterOrEqual", since=(12, 16))
def greater_or_equal(node: Node, x: Number, y: Number) -> Bool:
    joint(x.shape, y.shape)
    return ops.greater_equal(x, y)


@onnx_op("LessOrEqual", since=(12, 16))
def less_or_equal(node: Node, x: Number, y: Number) -> Bool:
    joint(x.shape, y.shape)
    return ops.less_equal(x, y)


@onnx_op("Equal", since=(1, 7, 11, 13, 19))
def equal(node: Node, x: Data, y: Data, *, broadcast: int = 0, axis: int | None = None) -> Bool:
    """Of floats, of bools as masks, or of integers proved small."""
    return ops.equal(x, aligned(node, x, y, broadcast, axis))


@onnx_op("And", since=(1, 7))
def logical_and(node: Node, x: Mask, y: Mask, *, broadcast: int = 0, axis: int | None = None) -> Mask:
    return ops.mask_and(x, aligned(node, x, y, broadcast, axis))


@onnx_op("Or", since=(1, 7))
def logical_or(node: Node, x: Mask, y: Mask, *, broadcast: int = 0, axis: int | None = None) -> Mask:
    return ops.mask_or(x, aligned(node, x, y, broadcast, axis))


@onnx_op("Xor", since=(1, 7))
def logical_xor(node: Node, x: Mask, y: Mask, *, broadcast: int = 0, axis: int | None = None) -> Mask:
    return ops.mask_xor(x, aligned(node, x, y, broadcast, axis))


@onnx_op("Not", since=(1,))
def logical_not(node: Node, x: Any_) -> Tensor:
    """A bool of the program stays one."""
    if isinstance(x, Tensor) and x.dtype == "bool":
        return ops.logical_not(x)
    return ops.mask_not(node.mask(0))


@onnx_op("Where", since=(9, 16))
def where(node: Node, condition: Bool, x: Data, y: Data) -> Tensor:
    """A selection, never a product with the mask: what is not chosen may be infinite."""
    if node.dtype(1) != node.dtype(2):
        raise Refused("data type", f"the branches are {node.dtype(1)} and {node.dtype(2)}")
    shape = joint(condition.shape, x.shape, y.shape)
    if condition.is_const:
        condition = const(np.broadcast_to(condition.value, shape))
    elif condition.shape != shape:
        condition = ops.as_bool(ops.broadcast_to(ops.as_mask(condition), shape))
    spans = ranges.known([node.range(1), node.range(2)])
    return node.prove(ops.where(condition, x, y), None if spans is None else ranges.union(*spans))
