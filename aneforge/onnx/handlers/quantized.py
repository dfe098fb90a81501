"""Operators of com.microsoft between integer codes: floats in between, on the grids of their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor, const
from ..node import Node, broadcast
from ..registry import Any_, Bool, Known, onnx_op
from ..shapes import wrap
from .pooling import average_pool
from .product import product
from .quantization import MS, Grid, codes, demand_fine, grid, operand, shrink


def _floats(node: Node, i: int) -> Tensor:
    """Inputs i, i + 1, i + 2 (codes, scale, zero point) as the floats that they mean."""
    code, dtype = node.count(i), node.dtype(i)
    g = _grid(node, i + 1, dtype)
    return ops.dequantize(code, g.scale, g.zero)


def _grid(node: Node, i: int, dtype: np.dtype[Any] | None) -> Grid:
    """Inputs i, i + 1: scale, and the zero point, which may be absent."""
    zero = node.known(i + 1) if node.has(i + 1) else None
    return grid(node.known(i), zero, zero.dtype if zero is not None else dtype or np.dtype(object), (), 0, 0)


def _codes(node: Node, y: Tensor, i: int, dtype: np.dtype[Any] | None) -> Tensor:
    g = _grid(node, i, dtype)
    return codes(node, ops.scaled(y, 1.0 / g.scale), g)


def _binary(op: str, compute: Callable[[Tensor, Tensor], Tensor]) -> None:
    @onnx_op(op, since=(1,), domain=MS)
    def run(
        node: Node,
        a: Any_,
        a_scale: Known,
        a_zero: Known | None,
        b: Any_,
        b_scale: Known,
        b_zero: Known | None,
        y_scale: Known,
        y_zero: Known | None = None,
    ) -> Tensor:
        x, y = _floats(node, 0), _floats(node, 3)
        broadcast(x.shape, y.shape)
        return _codes(node, compute(x, y), 6, node.dtype(0))


_binary("QLinearAdd", ops.add)
_binary("QLinearMul", ops.mul)


@onnx_op("QLinearSigmoid", since=(1,), domain=MS)
def qlinear_sigmoid(
    node: Node, x: Any_, x_scale: Known, x_zero: Known | None, y_scale: Known, y_zero: Known | None = None
) -> Tensor:
    return _codes(node, ops.sigmoid(_floats(node, 0)), 3, node.dtype(0))


@onnx_op("QLinearLeakyRelu", since=(1,), domain=MS)
def qlinear_leaky_relu(
    node: Node,
    x: Any_,
    x_scale: Known,
    x_zero: Known | None,
    y_scale: Known,
    y_zero: Known | None = None,
    *,
    alpha: float = 0.01,
) -> Tensor:
    return _codes(node, ops.leaky_relu(_floats(node, 0), alpha), 3, node.dtype(0))


@onnx_op("QLinearGlobalAveragePool", since=(1,), domain=MS)
def qlinear_global_average_pool(
    node: Node,
    x: Any_,
    x_scale: Known,
    x_zero: Known,
    y_scale: Known,
    y_zero: Known,
    *,
    channels_last: int = 0,
) -> Tensor:
    given = _floats(node, 0)
    if channels_last or given.rank < 3:
        raise Refused("attribute form", f"channels last, or rank {given.rank}")
    return _codes(node, ops.reduce_mean_wide(given, tuple(range(2, given.rank)), True), 3, node.dtype(0))


@onnx_op("QLinearConcat", since=(1,), domain=MS)
def qlinear_concat(node: Node, y_scale: Known, y_zero: Known, *parts: Any_, axis: int) -> Tensor:
    """Each part with a grid of its own, brought to that of the result."""
    if not parts or len(parts) % 3:
        raise Refused("attribute form", f"{len(parts)} inputs for parts of three")
    pieces = [_codes(node, _floats(node, i), 0, None) for i in range(2, 2 + len(parts), 3)]
    at = wrap(axis, pieces[0].rank)
    rests = {(*p.shape[:at], *p.shape[at + 1 :]) for p in pieces}
    if len(rests) > 1:
        raise Refused("attribute form", f"the shapes {', '.join(str(p.shape) for p in pieces)} along axis {at}")
    return _grid(node, 0, None).mark(node, ops.concat_any(pieces, at))


@onnx_op("QLinearAveragePool", since=(1,), domain=MS)
def qlinear_average_pool(
    node: Node,
    x: Any_,
    x_scale: Known,
    x_zero: Known | None,
    y_scale: Known,
    y_zero: Known | None = None,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    if channels_last:
        raise Refused("attribute form", "channels last")
    y: Tensor = average_pool(
        node,
        _floats(node, 0),
        kernel_shape=kernel_shape,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        pads=pads,
        strides=strides,
    )
    return _codes(node, y, 3, node.dtype(0))


@onnx_op("QLinearSoftmax", since=(1,), domain=MS)
def qlinear_softmax(
    node: Node,
    x: Any_,
    x_scale: Known,
    x_zero: Known | None,
    y_scale: Known,
    y_zero: Known,
    *,
    axis: int = -1,
    opset: int,
) -> Tensor:
    """Over one axis; before opset 13 over all from the axis on."""
    given = _floats(node, 0)
    at = wrap(axis, given.rank)
    if opset < 13 and at != given.rank - 1:
        raise Refused("attribute form", f"axis {axis} of opset {opset}, which flattens what follows")
    return _codes(node, ops.softmax(given, at), 3, node.dtype(0))


@onnx_op("QLinearWhere", since=(1,), domain=MS)
def qlinear_where(
    node: Node,
    condition: Bool,
    x: Any_,
    x_scale: Known,
    x_zero: Known,
    y: Any_,
    y_scale: Known,
    y_zero: Known,
    z_scale: Known,
    z_zero: Known,
) -> Tensor:
    """Both branches brought to the grid of the result, then chosen."""
    yes, no = _codes(node, _floats(node, 1), 7, None), _codes(node, _floats(node, 4), 7, None)
    broadcast(condition.shape, yes.shape, no.shape)
    return _grid(node, 7, None).mark(node, ops.where(condition, yes, no))


@onnx_op("QGemm", since=(1,), domain=MS)
def qgemm(
    node: Node,
    a: Any_,
    a_scale: Known,
    a_zero: Known,
    b: Known,
    b_scale: Known,
    b_zero: Known,
    c: Known | None = None,
    y_scale: Known | None = None,
    y_zero: Known | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Codes times known codes, a bias of sums; codes again, or floats where there is no scale for the result."""
    left, right = operand(node, 0, 0), operand(node, 3, 0 if transB else 1)
    if left.scale.size != 1 or left.value.rank != 2 or right.value.rank != 2:
        raise Refused("attribute form", "operands that are no matrices, or several scales of the left one")
    weight = right.value.value.T if transB else right.value.value
    x = ops.transpose(left.value, (1, 0)) if transA else left.value
    bias = np.zeros(1) if c is None else c.astype(np.float64).reshape(-1)
    if x.shape[1] != weight.shape[0] or bias.size not in (1, weight.shape[1]) or (c is not None and c.ndim > 1):
        raise Refused("attribute form", f"the shapes {x.shape}, {weight.shape} and {bias.shape} do not fit")
    small = shrink(float((np.abs(weight).sum(0) * left.most + np.abs(bias)).max()))
    y = product(x, const(np.ascontiguousarray(weight) * small))
    if bias.any():
        y = ops.add(y, bias.reshape(1, -1) * small)
    if alpha <= 0:
        raise Refused("attribute form", f"alpha {alpha}")
    factor = np.asarray(left.scale * right.scale.reshape(-1) * alpha / small)
    if y_scale is None:
        return ops.scaled(y, factor)
    g = _grid(node, 7, node.dtype(0))
    demand_fine(float((np.abs(bias) * factor * small / g.scale).max()))
    return codes(node, ops.scaled(y, factor / g.scale), g)
