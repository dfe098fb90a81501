"""Pointwise functions in the form that is right in fp16 and on the engine. Each says its formula, and why this one.

Sources: ane-guide ch. 3 and ANEForge 0.4.0 for what the engine does; the forms were checked against float64 on all
fp16 values.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import Refused
from ..ir import Tensor, const
from . import activation as a
from . import compare as c
from . import elementwise as e
from .base import Operand, number
from .masks import filled

FP16_MAX = 65504.0


def clamp(x: Tensor, low: Operand | None = None, high: Operand | None = None) -> Tensor:
    """min(max(x, low), high), either bound absent or infinite; ONNX Clip for low > high too (the result is high).

    Chooses relu, relu6, clip, maximum, minimum: bounds never reach the text as infinities.
    """
    low, high = _bound(low, -math.inf), _bound(high, math.inf)
    if isinstance(low, float) and isinstance(high, float):
        if low == 0.0 and high == 6.0:
            return a.relu6(x)
        if low < high:
            return e.clip(x, low, high)
    if low is not None:
        x = a.relu(x) if isinstance(low, float) and low == 0.0 else e.maximum(x, low)
    return x if high is None else e.minimum(x, high)


def _bound(given: Operand | None, none: float) -> float | Tensor | None:
    if given is None or isinstance(given, Tensor):
        return given
    array = np.asarray(given, np.float64)
    if array.size != 1:
        return const(array)
    value = float(array.reshape(()))
    return None if value == none else value


def swish(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x * sigmoid(alpha * x); silu for alpha 1."""
    return a.silu(x) if alpha == 1.0 else e.mul(x, a.sigmoid(e.mul(x, alpha)))


def hardswish(x: Tensor) -> Tensor:
    """x * min(max(x / 6 + 1/2, 0), 1). With sigmoid_hard the factor is exactly 0 and 1 at the ends; relu6(x + 3) / 6
    is not.
    """
    return e.mul(x, a.sigmoid_hard(x, 1.0 / 6.0, 0.5))


def softplus_safe(x: Tensor) -> Tensor:
    """max(x, 0) + log(1 + exp(-|x|)): exp never exceeds 1, where the engine's own softplus falls to 0 above 11.09
    (Q14).
    """
    tail = e.log(e.add(e.exp(e.mul(e.abs(x), -1.0)), 1.0), 0.0)
    return e.add(a.relu(x), tail)


def mish(x: Tensor) -> Tensor:
    """x * tanh(softplus(x)) = x * w / (w + 2), w = n * (n + 2), n = exp(min(x, 5.5)).

    No logarithm and no softplus (Q14); from x = 5.5 on the factor differs from 1 by less than fp16 can tell, and n (n
    + 2) stays below 65504.
    """
    n = e.exp(e.minimum(x, 5.5))
    w = e.mul(n, e.add(n, 2.0))
    return e.mul(x, e.real_div(w, e.add(w, 2.0)))


def gelu_tanh(x: Tensor) -> Tensor:
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). The cubic overflows above |x| = 40; past 10 tanh is 1 anyway,
    so it is given x clamped to ±10."""
    k = math.sqrt(2.0 / math.pi)
    near = e.clip(x, -10.0, 10.0)
    inner = e.mul(near, e.add(e.mul(e.mul(near, near), 0.044715 * k), k))
    return e.mul(e.mul(x, 0.5), e.add(a.tanh(inner), 1.0))


def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """max(x, 0) + min(0, alpha (exp(x / alpha) - 1)) = alpha * elu(x / alpha)."""
    if alpha == 1.0:
        return a.elu(x, 1.0)
    if not alpha > 0:
        raise Refused("attribute form", f"Celu with alpha {alpha}: only positive values have an engine form")
    return e.mul(a.elu(e.mul(x, 1.0 / alpha), 1.0), alpha)


def selu(x: Tensor, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    """gamma * elu(x, alpha)."""
    return e.mul(a.elu(x, alpha), gamma)


def relu_above(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x where x > alpha, else 0 (ONNX ThresholdedRelu). MIL's thresholded_relu keeps x = alpha (Q41)."""
    return c.select(c.greater(x, alpha), x, const(filled(x.shape, 0.0)))


def prelu_any(x: Tensor, slope: Operand) -> Tensor:
    """x for x > 0, slope * x elsewhere, the slope broadcast to x from the right (ONNX PRelu).

    One value: leaky_relu. One for each channel: prelu. Else relu(x) - slope * relu(-x).
    """
    if not isinstance(slope, Tensor):
        array = np.asarray(slope)
        if array.size and (array == array.flat[0]).all():
            return a.leaky_relu(x, float(array.flat[0]))
        full = (1,) * (x.rank - array.ndim) + array.shape
        channels = (1, x.shape[1] if x.rank > 1 else 1, *(1,) * (x.rank - 2))
        if 3 <= x.rank <= 5 and full == channels:
            return a.prelu(x, array.reshape(-1))
    return e.sub(a.relu(x), e.mul(a.relu(e.mul(x, -1.0)), slope))


def power(x: Tensor, exponent: float) -> Tensor:
    """x ** exponent for a known exponent.

    Whole exponents up to 8 become products (the engine's pow of a negative base is unknown), halves become sqrt and
    rsqrt.
    """
    p = number("power", "exponent", exponent)
    simple = {1.0: lambda: x, 0.5: lambda: e.sqrt(x), -0.5: lambda: e.rsqrt(x, 0.0), -1.0: lambda: e.inverse(x, 0.0)}
    if p in simple:
        return simple[p]()
    if p == int(p) and 2 <= abs(p) <= 8:
        product = _product(x, int(abs(p)))
        return product if p > 0 else e.inverse(product, 0.0)
    if p == 0.0:
        return e.add(e.mul(x, 0.0), 1.0)
    if p == int(p):
        raise Refused("no engine form", f"a power of {p:g}: the engine's pow is only known for positive bases")
    return e.pow(x, p)


def _product(x: Tensor, count: int) -> Tensor:
    if count == 1:
        return x
    half = _product(x, count // 2)
    square = e.mul(half, half)
    return e.mul(square, x) if count % 2 else square
