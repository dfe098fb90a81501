"""Multiply-adds of a node: what the partitioner and the reports weigh nodes by."""

from __future__ import annotations

import math
from collections.abc import Callable

from .view import NodeView

Shape = tuple[int, ...]


def multiply_adds(view: NodeView, shape_of: Callable[[str], Shape | None]) -> int:
    """Multiply-adds of one run, from the shapes; 0 for operators without products, and where a shape is not known."""
    if view.domain not in ("", "com.microsoft") or not view.outputs:
        return 0
    count = _COUNTS.get(view.op)
    if count is None:
        return 0
    shapes = [shape_of(name) if name else None for name in view.inputs]
    out = next((shape_of(name) for name in view.outputs if name), None)
    if not all(len(s) == 3 for s in shapes[:2] if s) and view.op in ("LSTM", "GRU", "RNN"):
        return 0
    second = _SECOND.get(view.op, 1)
    if out is None or len(shapes) <= second or not shapes[0] or not (factor := shapes[second]):
        return 0
    return count(shapes[0], factor, out, view)


def _conv(x: Shape, w: Shape, out: Shape, view: NodeView) -> int:
    return math.prod(out) * math.prod(w[1:])


def _conv_transpose(x: Shape, w: Shape, out: Shape, view: NodeView) -> int:
    return math.prod(x) * math.prod(w[1:])


def _matmul(x: Shape, w: Shape, out: Shape, view: NodeView) -> int:
    return math.prod(out) * (x[-1] if x else 1)


def _gemm(x: Shape, w: Shape, out: Shape, view: NodeView) -> int:
    return math.prod(out) * (x[0] if view.attributes.get("transA") else x[-1])


def _recurrent(x: Shape, w: Shape, out: Shape, view: NodeView) -> int:
    # x [S, B, I], w [D, G * H, I]: the recurrent products have H columns beside the I of the input
    steps, batch, features = (x[1], x[0], x[2]) if view.attributes.get("layout") else x
    directions, rows = w[0], w[1]
    given = view.attributes.get("hidden_size")
    hidden = given if isinstance(given, int) else rows
    return steps * batch * directions * rows * (features + hidden)


def _attention(q: Shape, k: Shape, out: Shape, view: NodeView) -> int:
    return (math.prod(q) + math.prod(out)) * k[-2] if len(k) > 2 else 0


_COUNTS: dict[str, Callable[[Shape, Shape, Shape, NodeView], int]] = {
    "Conv": _conv,
    "FusedConv": _conv,
    "ConvInteger": _conv,
    "QLinearConv": _conv,
    "ConvTranspose": _conv_transpose,
    "MatMul": _matmul,
    "FusedMatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _matmul,
    "Gemm": _gemm,
    "FusedGemm": _gemm,
    "Attention": _attention,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
}

_SECOND = {"QLinearConv": 3, "QLinearMatMul": 3}
"""Where the second factor stands, if not at 1: scale and zero point of the first come before it."""
