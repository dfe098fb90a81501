"""Activations: one operand, no shape change."""

from __future__ import annotations

import math

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from .. import ranges
from ..node import Node, broadcast
from ..registry import Any_, Number, Value, onnx_op


@onnx_op("Relu", since=(1, 6, 13, 14))
def relu(node: Node, x: Number) -> Tensor:
    return node.prove(ops.relu(x), ranges.clamp(node.range(0), 0.0, None))


@onnx_op("LeakyRelu", since=(1, 6, 16))
def leaky_relu(node: Node, x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return ops.leaky_relu(x, alpha)


@onnx_op("ThresholdedRelu", since=(10, 22))
def thresholded_relu(node: Node, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """x > alpha, not >=."""
    return ops.relu_above(x, alpha)


@onnx_op("PRelu", since=(1, 6, 7, 9, 16))
def prelu(node: Node, x: Tensor, slope: Value) -> Tensor:
    """The slope broadcasts to x, from the right; before version 7 it is one number, or one for each channel."""
    if node.since < 7 and math.prod(slope.shape) != 1:
        if x.rank < 2 or slope.shape != (x.shape[1],):
            raise Refused("attribute form", f"a slope of shape {slope.shape} for {x.shape}")
        channels = (x.shape[1], *(1,) * (x.rank - 2))
        slope = slope.reshape(channels) if isinstance(slope, np.ndarray) else ops.reshape_if(slope, channels)
    if broadcast(x.shape, slope.shape) != x.shape:
        raise Refused("attribute form", f"the slope {slope.shape} does not broadcast to {x.shape}")
    if isinstance(slope, np.ndarray):
        node.const(slope, "slope")
    return ops.prelu_any(x, slope)


@onnx_op("Elu", since=(1, 6, 22))
def elu(node: Node, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ops.elu(x, alpha)


@onnx_op("Selu", since=(1, 6, 22))
def selu(node: Node, x: Tensor, *, alpha: float | None = None, gamma: float | None = None) -> Tensor:
    """The defaults had fewer digits in version 1."""
    first, second = (1.6732, 1.0507) if node.since < 6 else (1.67326319217681884765625, 1.05070102214813232421875)
    return ops.selu(x, first if alpha is None else alpha, second if gamma is None else gamma)


@onnx_op("Celu", since=(12, 28))
def celu(node: Node, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ops.celu(x, alpha)


@onnx_op("Sigmoid", since=(1, 6, 13))
def sigmoid(node: Node, x: Tensor) -> Tensor:
    return ops.sigmoid(x)


@onnx_op("HardSigmoid", since=(1, 6, 22))
def hard_sigmoid(node: Node, x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return ops.sigmoid_hard(x, alpha, beta)


@onnx_op("HardSwish", since=(14, 22))
def hard_swish(node: Node, x: Tensor) -> Tensor:
    return ops.hardswish(x)


@onnx_op("Swish", since=(24,))
def swish(node: Node, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return ops.swish(x, alpha)


@onnx_op("Tanh", since=(1, 6, 13))
def tanh(node: Node, x: Tensor) -> Tensor:
    return ops.tanh(x)


@onnx_op("Softplus", since=(1, 22))
def softplus(node: Node, x: Tensor) -> Tensor:
    return ops.softplus_safe(x)


@onnx_op("Softsign", since=(1, 22))
def softsign(node: Node, x: Tensor) -> Tensor:
    return ops.softsign(x)


@onnx_op("Mish", since=(18, 22))
def mish(node: Node, x: Tensor) -> Tensor:
    return ops.mish(x)


@onnx_op("Erf", since=(9, 13))
def erf(node: Node, x: Tensor) -> Tensor:
    return ops.erf(x)


@onnx_op("Gelu", since=(20,))
def gelu(node: Node, x: Tensor, *, approximate: str = "none") -> Tensor:
    if approximate not in ("none", "tanh"):
        raise Refused("attribute form", f"Gelu with approximate={approximate!r}")
    return ops.gelu_tanh(x) if approximate == "tanh" else ops.gelu(x, "EXACT")


@onnx_op("Shrink", since=(9,))
def shrink(node: Node, x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """x + bias below -lambd, x - bias above lambd, 0 between."""
    if lambd < 0:
        raise Refused("attribute form", f"Shrink with a negative lambd, {lambd}")
    zero = np.zeros((), np.float32)
    low = ops.where(ops.less(x, -lambd), ops.add(x, bias), zero)
    return ops.where(ops.greater(x, lambd), ops.sub(x, bias), low)


@onnx_op("Clip", since=(1, 6, 11, 12, 13))
def clip(
    node: Node,
    x: Number,
    lo: Any_ | None = None,
    hi: Any_ | None = None,
    *,
    min: float | None = None,
    max: float | None = None,
) -> Tensor:
    """Bounds as attributes (6) or as inputs, each may be absent; the upper one wins where they cross."""
    low, high = _bound(node, 1, min), _bound(node, 2, max)
    if isinstance(low, float) and isinstance(high, float) and low > high:
        low = high
    y = ops.clamp(x, low, high)
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        return node.follow(y, ranges.union)  # it is one of the three
    return node.prove(y, ranges.clamp(node.range(0), low, high))


def _bound(node: Node, i: int, attribute: float | None) -> Tensor | float | None:
    if not node.has(i):
        return attribute
    given = node.value(i)
    if isinstance(given, np.ndarray) and given.size == 1 and given.dtype.kind in "iu":
        return float(given.reshape(()))
    if not isinstance(given, np.ndarray):
        given = node.number(i)
        if given.type.size != 1:
            raise Refused("attribute form", f"a bound of shape {given.shape} is no scalar")
        return given if given.rank == 0 else ops.reshape(given, ())
    if given.size != 1 or given.dtype.kind != "f" or np.isnan(given).any():
        raise Refused("attribute form", f"a bound of {given.dtype} and shape {given.shape} is no finite scalar")
    return float(given.reshape(()))
