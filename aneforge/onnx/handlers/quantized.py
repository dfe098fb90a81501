"""Operators of com.microsoft between integer codes: floats in between, on the grids of their operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from ..node import Node, broadcast
from ..registry import Any_, Known, onnx_op
from ..shapes import wrap
from .quantization import MS, Grid, codes, grid


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
