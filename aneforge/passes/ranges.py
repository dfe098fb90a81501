"""Bounds on the values of a program, from what is known without running it: constants, ports of bytes, inputs with a
promised `max_abs`, operators of known range (sigmoid, softmax, tanh, clip, relu6 …), and arithmetic on all that.

Bounds hold for exact arithmetic; what fp16 rounds on the way goes into `SLACK`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Op, Program, Tensor
from .extremes import all_finite, ends
from .match import VIEWS

SLACK = 1.0 + 2.0**-8


@dataclass(frozen=True, slots=True)
class Range:
    """`low` <= x <= `high`. `products`: how many sums of products lie between here and where the range was known for
    itself; each makes it looser.
    """

    low: float = -math.inf
    high: float = math.inf
    products: int = 0

    @property
    def size(self) -> float:
        """The largest |x|; infinite where a side is open."""
        return max(-self.low, self.high)

    @property
    def closed(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


UNKNOWN = Range()
_UNIT, _SIGNED = Range(0.0, 1.0), Range(-1.0, 1.0)
Known = Mapping[Tensor, Range]


def ranges(program: Program) -> dict[Tensor, Range]:
    """A range for every tensor; `UNKNOWN` where nothing is known."""
    known: dict[Tensor, Range] = {}
    for op in program.ops:
        if op.kind == "const":
            found = _constant(op.outputs[0])
        elif op.kind == "input":
            found = _input(op)
        else:
            handle = _HANDLERS.get(op.kind)
            found = UNKNOWN if handle is None else handle(op, known)
            if math.isnan(found.low) or math.isnan(found.high):
                found = UNKNOWN
        for output in op.outputs:
            known[output] = found
    return known


def _constant(x: Tensor) -> Range:
    span = ends(x)
    if span is None or not x.value.size:
        return Range(0.0, 1.0) if x.dtype == "bool" else UNKNOWN
    return Range(*span) if all_finite(x) else UNKNOWN


def _input(op: Op) -> Range:
    if op.types[0].dtype == "uint8":
        return Range(0.0, 255.0)
    bound = op.params.get("max_abs")
    return UNKNOWN if bound is None else Range(-bound, bound)


def _hull(*parts: Range) -> Range:
    return Range(min(p.low for p in parts), max(p.high for p in parts), max(p.products for p in parts))


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0.0 or b == 0.0 else a * b


def _product(a: Range, b: Range) -> Range:
    corners = [_times(p, q) for p in (a.low, a.high) for q in (b.low, b.high)]
    return Range(min(corners), max(corners), max(a.products, b.products))


def _sum(a: Range, b: Range) -> Range:
    return Range(a.low + b.low, a.high + b.high, max(a.products, b.products))


def _negative(a: Range) -> Range:
    return Range(-a.high, -a.low, a.products)


def _inverse(a: Range) -> Range:
    """Of a range on one side of 0."""
    if a.low > 0 or a.high < 0:
        return Range(1 / a.high if a.high else -math.inf, 1 / a.low if a.low else math.inf, a.products)
    return UNKNOWN


# ---------------------------------------------------------------- one operation

Handler = Callable[[Op, Known], Range]


def _x(op: Op, known: Known, name: str = "x") -> Range:
    return known[op.operand(name)]


def _fixed(found: Range) -> Handler:
    return lambda op, known: found


def _same(op: Op, known: Known) -> Range:
    """Moves elements, or picks among them."""
    return _hull(*(known[s] for s in op.sources))


def _rising(function: Callable[[float], float]) -> Handler:
    """Of a function that never falls."""

    def handle(op: Op, known: Known) -> Range:
        x = _x(op, known)
        return Range(_at(function, x.low), _at(function, x.high), x.products)

    return handle


def _at(function: Callable[[float], float], x: float) -> float:
    try:
        return function(x)
    except OverflowError:
        return math.inf


def _binary(op: Op, known: Known) -> Range:
    a, b = _x(op, known), _x(op, known, "y")
    match op.kind:
        case "add":
            return _sum(a, b)
        case "sub":
            return _sum(a, _negative(b))
        case "maximum":
            return Range(max(a.low, b.low), max(a.high, b.high), max(a.products, b.products))
        case "minimum":
            return Range(min(a.low, b.low), min(a.high, b.high), max(a.products, b.products))
        case "real_div":
            return _product(a, _inverse(b))
    if op.operand("x") is op.operand("y"):
        return _square(a)
    return _product(a, b)


def _square(a: Range) -> Range:
    least = 0.0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high)) ** 2
    return Range(least, _times(a.size, a.size), a.products)


def _absolute(op: Op, known: Known) -> Range:
    a = _x(op, known)
    return Range(0.0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high)), a.size, a.products)


def _clip(op: Op, known: Known) -> Range:
    a, low, high = _x(op, known), op.params["alpha"], op.params["beta"]
    clipped = Range(min(max(a.low, low), high), max(min(a.high, high), low), a.products)
    return clipped if a.closed and a.low > low and a.high < high else Range(clipped.low, clipped.high)


def _relu6(op: Op, known: Known) -> Range:
    a = _x(op, known)
    return Range(min(max(a.low, 0.0), 6.0), min(max(a.high, 0.0), 6.0), a.products if a.high < 6 else 0)


def _leaning(op: Op, known: Known) -> Range:
    """x, or less than nothing for x < 0: silu, gelu, elu, leaky_relu."""
    a = _x(op, known)
    if op.kind == "leaky_relu":
        slope = op.params["alpha"]
        ends_ = [v if v > 0 else _times(v, slope) for v in (a.low, a.high)]
        return Range(min(*ends_, 0.0), max(*ends_, 0.0), a.products)
    least = {"silu": -0.28, "gelu": -0.17}.get(op.kind, -abs(op.params.get("alpha", 1.0)))
    return Range(least, max(a.high, 0.0), a.products)


def _select(op: Op, known: Known) -> Range:
    return _hull(known[op.operand("a")], known[op.operand("b")])


def _padded(op: Op, known: Known) -> Range:
    a = _x(op, known)
    if op.params["mode"] != "constant" or not any(op.params["pad"]):
        return a
    value = op.params["constant_val"]
    return _hull(a, Range(value, value, a.products))


def _averaged(op: Op, known: Known) -> Range:
    a = _x(op, known)
    if op.kind == "max_pool" or op.params.get("exclude_padding_from_average"):
        return a
    return _hull(a, Range(0.0, 0.0, a.products))


def _summed(op: Op, known: Known) -> Range:
    a = _x(op, known)
    count = op.operand("x").type.size / max(1, op.types[0].size)
    return Range(_times(a.low, count), _times(a.high, count), a.products)


def _convolved(op: Op, known: Known) -> Range:
    """Each output: at most the sum of |weights| times the largest |x|, tighter where x has one sign."""
    weight = op.operand("weight")
    a = _x(op, known)
    if not weight.is_const or not a.closed:
        return UNKNOWN
    axes = (1, *range(2, weight.rank)) if op.kind == "conv" else (0, *range(2, weight.rank))
    if any(op.params["pad"]) or op.params["pad_type"] != "valid" or op.kind != "conv":
        a = Range(min(a.low, 0.0), max(a.high, 0.0), a.products)
    return _weighted(weight, axes, a, op)


def _multiplied(op: Op, known: Known) -> Range:
    if op.kind == "linear":
        weight, a, axis = op.operand("weight"), _x(op, known), 1
    else:
        weight, a = op.operand("y"), _x(op, known)
        axis = weight.rank - (1 if op.params["transpose_y"] else 2)
        if not weight.is_const:
            b, terms = known[weight], weight.shape[axis]
            found = _product(_product(a, b), Range(terms, terms))
            return Range(found.low, found.high, found.products + 1) if a.closed and b.closed else UNKNOWN
    return _weighted(weight, (axis,), a, op) if weight.is_const and a.closed else UNKNOWN


def _weighted(weight: Tensor, axes: tuple[int, ...], a: Range, op: Op) -> Range:
    above, below = _signed_sums(weight.value, axes)
    low = above * a.low + below * a.high
    high = above * a.high + below * a.low
    bias = op.inputs.get("bias")
    if isinstance(bias, Tensor):
        if not bias.is_const:
            return UNKNOWN
        low, high = low + bias.value, high + bias.value
    return Range(float(low.min()) * SLACK if low.size else 0.0, float(high.max()) * SLACK, a.products + 1)


def _signed_sums(value: NDArray[Any], axes: tuple[int, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums over `axes` of what is positive, and of what is negative. In fp32, which is far closer than SLACK: this is
    asked of every weight when a model is loaded."""
    kind = np.float32 if value.dtype.itemsize <= 4 else np.float64
    zero = value.dtype.type(0)
    above, below = np.maximum(value, zero), np.minimum(value, zero)
    return above.sum(axis=axes, dtype=kind).astype(np.float64), below.sum(axis=axes, dtype=kind).astype(np.float64)


def _linear_activation(op: Op, known: Known) -> Range:
    alpha, beta = op.params["alpha"], op.params["beta"]
    return _sum(_product(_x(op, known), Range(alpha, alpha)), Range(beta, beta))


_HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("sigmoid", "softmax", "sigmoid_hard"), _fixed(_UNIT)),
    **dict.fromkeys(("tanh", "sin", "cos", "erf", "softsign", "sign"), _fixed(_SIGNED)),
    **dict.fromkeys(("add", "sub", "mul", "real_div", "maximum", "minimum"), _binary),
    **dict.fromkeys(
        (
            *VIEWS, "transpose", "slice_by_size", "slice_by_index", "concat", "stack", "split", "reverse", "tile",
            "identity", "depth_to_space", "space_to_depth", "pixel_shuffle", "pixel_unshuffle", "reduce_max",
            "reduce_min", "reduce_mean", "resize_nearest_neighbor", "resize_bilinear", "upsample_nearest_neighbor",
            "upsample_bilinear", "crop", "sliding_windows", "cast",
        ),
        _same,
    ),
    "exp": _rising(math.exp),
    "exp2": _rising(lambda x: 2.0**x),
    "sqrt": _rising(lambda x: math.sqrt(x) if x > 0 else 0.0),
    "relu": _rising(lambda x: max(x, 0.0)),
    "floor": _rising(lambda x: float(math.floor(x)) if math.isfinite(x) else x),
    "ceil": _rising(lambda x: float(math.ceil(x)) if math.isfinite(x) else x),
    "round": _rising(lambda x: float(round(x)) if math.isfinite(x) else x),
    "log": _rising(lambda x: math.log(x) if x > 0 else -math.inf),
    "abs": _absolute,
    "square": lambda op, known: _square(_x(op, known)),
    "clip": _clip,
    "relu6": _relu6,
    **dict.fromkeys(("silu", "gelu", "elu", "leaky_relu"), _leaning),
    "select": _select,
    "pad": _padded,
    **dict.fromkeys(("max_pool", "avg_pool"), _averaged),
    "reduce_sum": _summed,
    **dict.fromkeys(("conv", "conv_transpose"), _convolved),
    **dict.fromkeys(("matmul", "linear"), _multiplied),
    "linear_activation": _linear_activation,
}  # fmt: skip
