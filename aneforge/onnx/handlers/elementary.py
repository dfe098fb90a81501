"""Trigonometric and hyperbolic functions: the compositions of `ops.elementary`."""

from __future__ import annotations

from ... import ops
from ...ir import Tensor
from ..node import Node
from ..registry import onnx_op


@onnx_op("Sin", since=(7, 22))
def sin(node: Node, x: Tensor) -> Tensor:
    """With the argument brought into range first; older engines have no sin, newer ones an inaccurate one."""
    return ops.sine(x)


@onnx_op("Cos", since=(7, 22))
def cos(node: Node, x: Tensor) -> Tensor:
    return ops.cosine(x)


@onnx_op("Tan", since=(7, 22))
def tan(node: Node, x: Tensor) -> Tensor:
    return ops.tangent(x)


@onnx_op("Asin", since=(7, 22))
def asin(node: Node, x: Tensor) -> Tensor:
    """Outside [-1, 1], where it is not defined, the nearest end's."""
    return ops.arc_sine(x)


@onnx_op("Acos", since=(7, 22))
def acos(node: Node, x: Tensor) -> Tensor:
    """As Asin."""
    return ops.arc_cosine(x)


@onnx_op("Atan", since=(7, 22))
def atan(node: Node, x: Tensor) -> Tensor:
    """Not the engine's own, which has seams (Q25)."""
    return ops.arc_tangent(x)


@onnx_op("Sinh", since=(9, 22))
def sinh(node: Node, x: Tensor) -> Tensor:
    return ops.hyperbolic_sine(x)


@onnx_op("Cosh", since=(9, 22))
def cosh(node: Node, x: Tensor) -> Tensor:
    return ops.hyperbolic_cosine(x)


@onnx_op("Asinh", since=(9, 22))
def asinh(node: Node, x: Tensor) -> Tensor:
    return ops.area_sine(x)


@onnx_op("Acosh", since=(9, 22))
def acosh(node: Node, x: Tensor) -> Tensor:
    """Below 1, where it is not defined, 0."""
    return ops.area_cosine(x)


@onnx_op("Atanh", since=(9, 22))
def atanh(node: Node, x: Tensor) -> Tensor:
    """Infinite from ±1 on."""
    return ops.area_tangent(x)
