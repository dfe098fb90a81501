"""Rules that fold scales and biases into the weights of convolutions and matrix products, in float64.

Weights are values, not places: a weight that several operations share is scaled for the one and stays for the others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import ops
from ..ir import Op, Replacement, Tensor, Uses, miss, rule
from .match import FP16_MAX, ROUNDING, VIEWS, constant, made_by, per_channel, scalar, split_constant

_LEAST = 2.0**-10
"""A filter's greatest weight stays at or above this after scaling, so that its small ones keep their precision in
fp16.
"""
_HALVED = "the product is halved so that it stays below 32752 (Q04)"
_TOO_FAR = "fp16 would not hold the scaled weight as well"


def _weight_of(op: Op) -> NDArray[np.float64] | None:
    if op.kind in ("conv", "conv_transpose"):
        return constant(op.operand("weight"))
    return constant(op.operand("y")) if op.operand("y").rank == 2 else None


def _holds(weight: NDArray[Any], axis: int) -> bool:
    """Whether fp16 holds scaled weights as well as unscaled ones."""
    peak = np.abs(weight).max(axis=tuple(i for i in range(weight.ndim) if i != axis))
    return bool(np.isfinite(peak).all() and (peak <= FP16_MAX).all() and ((peak >= _LEAST) | (peak == 0)).all())


def _undoes_half(weight: NDArray[Any], factor: NDArray[Any] | float) -> bool:
    """Whether `weight` adds up or selects halves, which are doubled afterwards on purpose: the accumulator of products
    ends at 32752, and what is doubled may be as large as fp16 holds (Q04)."""
    return bool((np.abs(factor) > 1.0).any() and ((weight == 0.0) | (weight == 0.5)).all())


def _with_weight(op: Op, weight: NDArray[Any], x: Tensor | None = None) -> Tensor:
    """The same operation with another weight (and another operand). What was computed in float64 is kept in float32."""
    inputs: dict[str, Any] = {**op.inputs, "weight" if op.kind != "matmul" else "y": weight.astype(np.float32)}
    if x is not None:
        inputs["x"] = x
    return getattr(ops, op.kind)(**inputs, **op.params)  # type: ignore[no-any-return]


@rule("scale-into-weight", "mul", "a constant factor for each output channel belongs to the weight")
def scale_into_weight(op: Op, uses: Uses) -> Replacement:
    """conv(x, W) * c -> conv(x, c W), and so for conv_transpose and a matmul by a constant matrix."""
    pair = split_constant(op)
    below = None if pair is None else made_by(pair[0], "conv", "conv_transpose", "matmul")
    if pair is None or below is None:
        return None
    weight, factor = _weight_of(below), constant(pair[1])
    if weight is None or factor is None:
        return miss("the weight is computed at run time", pair[0])
    if uses(pair[0]) != 1:
        return miss("the product has another reader", pair[0])
    if "bias" in below.inputs or pair[0].type != op.types[0]:
        return miss("the product has a bias, or is broadcast", pair[0])
    if _undoes_half(weight, factor):
        return miss(_HALVED, pair[0])
    if below.kind == "matmul":
        columns = pair[0].shape[-1]
        if factor.size not in (1, columns) or (factor.size > 1 and factor.shape[-1] != columns):
            return miss("the factor is not one for each output", pair[0])
        axis = 0 if below.params["transpose_y"] else 1
        scale = np.broadcast_to(factor.reshape(-1), (columns,))
    else:
        channels = pair[0].shape[1]
        along = per_channel(factor, pair[0].rank, channels)
        if along is None:
            return miss("the factor is not one for each output", pair[0])
        if below.kind == "conv_transpose":  # [Cin, Cout / groups, ..]: outputs of group g are fed by inputs of group g
            groups = below.params["groups"]
            each = np.repeat(along.reshape(groups, -1), weight.shape[0] // groups, axis=0)
            scaled = weight * each.reshape(*weight.shape[:2], *(1,) * (weight.ndim - 2))
            return _with_weight(below, scaled) if _holds(scaled, 1) else miss(_TOO_FAR, pair[0])
        axis, scale = 0, along
    scaled = weight * scale.reshape([-1 if i == axis else 1 for i in range(weight.ndim)])
    return _with_weight(below, scaled) if _holds(scaled, axis) else miss(_TOO_FAR, pair[0])


@rule(
    "scale-of-sum",
    "mul real_div",
    "sum * (1 / n): a scalar factor goes through changes of shape and other factors into the weight of a product, so that "
    "the sum itself need not lie in fp16",
    required=True,
)
def scale_of_sum(op: Op, uses: Uses) -> Replacement:
    """Of sums (products with equal weights), whose weights may then be smaller, and of other products with constants."""
    factor, x = _scalar_factor(op)
    if factor is None or x.type != op.types[0]:
        return None
    views: list[Op] = []
    while uses(x) == 1:
        if x.op.kind in VIEWS:
            views.append(x.op)
            x = x.op.operand("x")
            continue
        inner, below = _scalar_factor(x.op) if x.op.kind in ("mul", "real_div") else (None, x)
        if inner is None or below.type != x.type:
            break
        factor, x = factor * inner, below
    if x.op.kind not in ("conv", "matmul") or "bias" in x.op.inputs or uses(x) != 1:
        return None
    if not views and x is _scalar_factor(op)[1] and not _equal_weights(x.op):
        return None  # a plain product: `scale-into-weight` has its own say
    weight = _weight_of(x.op)
    if weight is None:
        return None
    if _undoes_half(weight, factor):
        return miss(_HALVED, x)
    scaled = weight * factor
    peak = np.abs(scaled).max(initial=0.0)
    if not (2.0**-14 <= peak <= FP16_MAX if _equal_weights(x.op) else _holds(scaled, _rows(x.op))):
        return miss(_TOO_FAR, x)
    return ops.reshape_if(_with_weight(x.op, scaled), op.types[0].shape)


def _scalar_factor(op: Op) -> tuple[float | None, Tensor]:
    """(c, x) of x * c, c * x, x / c; c is None where there is none."""
    x, y = op.operand("x"), op.operand("y")
    value = scalar(y)
    if op.kind == "real_div":
        return (1.0 / value if value is not None and np.isfinite(value) and value != 0.0 else None), x
    if value is None:
        value, x = scalar(x), y
    return (value if value is not None and np.isfinite(value) and value != 0.0 and not x.is_const else None), x


def _rows(op: Op) -> int:
    """The axis of the weight along which the outputs lie."""
    return 0 if op.kind == "conv" or op.params["transpose_y"] else 1


def _equal_weights(op: Op) -> bool:
    """Whether `op` adds up what it is given, each with the same weight."""
    return scalar(op.operand("weight" if op.kind == "conv" else "y")) is not None


@rule("scale-before-bias", "mul", "(y + b) * c is y * c + b * c, and y * c may fold into a weight")
def scale_before_bias(op: Op, uses: Uses) -> Replacement:
    pair = split_constant(op)
    below = None if pair is None else made_by(pair[0], "add")
    inner = None if below is None else split_constant(below)
    product = None if inner is None else made_by(inner[0], "conv", "conv_transpose", "matmul")
    if pair is None or inner is None or product is None or _weight_of(product) is None or "bias" in product.inputs:
        return None
    if uses(pair[0]) != 1 or uses(inner[0]) != 1:
        return miss("the product, or its sum with the bias, has another reader", pair[0], inner[0])
    b, c = constant(inner[1]), constant(pair[1])
    if b is None or c is None or inner[0].type != op.types[0] or (b * c).size > max(b.size, c.size):
        return miss("bias or factor is broadcast", pair[0])
    if product.kind != "matmul" and per_channel(c, inner[0].rank, inner[0].shape[1]) is None:
        return miss("the factor is not one for each output", pair[0])
    if product.kind == "matmul" and c.size > 1 and c.size != inner[0].shape[-1]:
        return miss("the factor is not one for each output", pair[0])
    return ops.add(ops.mul(inner[0], c), b * c)


@rule("scale-before-conv", "conv", "a constant factor for each input channel belongs to the weight")
def scale_before_conv(op: Op, uses: Uses) -> Replacement:
    """conv(c x, W) -> conv(x, W c). Padding stays zero, so it may be there."""
    x = op.operand("x")
    below = made_by(x, "mul")
    pair = None if below is None else split_constant(below)
    if pair is None or pair[0].type != x.type:
        return None
    if uses(x) != 1:
        return miss("what is scaled has another reader", x)
    factor, weight = constant(pair[1]), constant(op.operand("weight"))
    along = None if factor is None else per_channel(factor, x.rank, x.shape[1])
    if along is None:
        return miss("the factor is not one for each channel", x)
    if weight is None:
        return miss("the weight is computed at run time", x)
    scaled = weight * _by_input(along, weight.shape, op.params["groups"])
    return _with_weight(op, scaled, pair[0]) if _holds(scaled, 0) else miss(_TOO_FAR, x)


@rule(
    "shift-before-conv",
    "conv",
    "a constant added to each input channel is a bias of the output, where nothing is padded",
)
def shift_before_conv(op: Op, uses: Uses) -> Replacement:
    """conv(x + t, W) -> conv(x, W) + sum of W t."""
    x = op.operand("x")
    below = made_by(x, "add")
    pair = None if below is None else split_constant(below)
    padded = op.params["pad_type"].startswith("same") or (op.params["pad_type"] == "custom" and any(op.params["pad"]))
    if pair is None or pair[0].type != x.type or "bias" in op.inputs:
        return None
    shift, weight = constant(pair[1]), constant(op.operand("weight"))
    along = None if shift is None else per_channel(shift, x.rank, x.shape[1])
    if along is None or weight is None:
        return miss("the shift is not one for each channel, or the weight is computed at run time", x)
    if padded:
        return miss("the convolution pads with zeros, which the shift does not reach", x)
    if uses(x) != 1:
        return miss("what is shifted has another reader", x)
    bias = (weight * _by_input(along, weight.shape, op.params["groups"])).sum(axis=tuple(range(1, weight.ndim)))
    if np.abs(bias).max(initial=0.0) > FP16_MAX:
        return miss("fp16 would not hold the bias", x)
    return ops.add_bias(ops.conv(**{**op.inputs, "x": pair[0]}, **op.params), bias)  # type: ignore[arg-type]


def _by_input(values: NDArray[Any], shape: tuple[int, ...], groups: int) -> NDArray[Any]:
    """[Cin] laid out for a weight [Cout, Cin / groups, ..]: filters of group g see the inputs of group g."""
    each = np.repeat(values.reshape(groups, -1), shape[0] // groups, axis=0)
    return each.reshape(*shape[:2], *(1,) * (len(shape) - 2))


@rule("scale-before-matmul", "matmul", "a constant factor for each input belongs to the weight")
def scale_before_matmul(op: Op, uses: Uses) -> Replacement:
    """matmul(c x, W) -> matmul(x, c W), also where x is flattened in between."""
    found = _constant_of_input(op, "mul", uses)
    weight = None if found is None else constant(op.operand("y"))
    if found is None or weight is None:
        return None
    scaled = weight * (found[1] if op.params["transpose_y"] else found[1][:, None])
    return _with_weight(op, scaled, found[0]) if _holds(scaled, _rows(op)) else miss(_TOO_FAR, op.operand("x"))


@rule("shift-before-matmul", "matmul", "a constant added to each input is a bias of the output")
def shift_before_matmul(op: Op, uses: Uses) -> Replacement:
    """matmul(x + t, W) -> matmul(x, W) + t W, where the bias is not so large that the sum loses digits of the rest: the
    product is rounded to fp16 before the bias is added."""
    found = _constant_of_input(op, "add", uses)
    weight = None if found is None else constant(op.operand("y"))
    if found is None or weight is None:
        return None
    weight = weight.T if op.params["transpose_y"] else weight
    bias = found[1] @ weight
    if np.abs(bias).max(initial=0.0) > FP16_MAX or (np.abs(bias) > 4.0 * np.linalg.norm(weight, axis=0)).any():
        return miss("the bias would be large beside what it is added to", op.operand("x"))
    return ops.add(ops.matmul(**{**op.inputs, "x": found[0]}, **op.params), bias)  # type: ignore[arg-type]


def _constant_of_input(op: Op, kind: str, uses: Uses) -> tuple[Tensor, NDArray[np.float64]] | None:
    """(x, c [K]) if the left side of a product with a constant matrix [K, N] is x * c or x + c (`kind`), perhaps with
    its shape changed on the way."""
    x, columns = op.operand("x"), op.operand("x").shape[-1]
    if op.params["transpose_x"] or op.operand("y").rank != 2 or not op.operand("y").is_const:
        return None
    alone = uses(x) == 1
    while x.op.kind in VIEWS:
        x = x.op.operand("x")
        alone = alone and uses(x) == 1
    below = made_by(x, kind)
    pair = None if below is None else split_constant(below)
    if pair is None or pair[0].type != x.type or pair[0].op.kind in ROUNDING:
        return None
    value = pair[1].value.reshape((1,) * (x.rank - pair[1].rank) + pair[1].shape).astype(np.float64)
    first = x.rank
    while first > 0 and math.prod(x.shape[first:]) < columns:
        first -= 1
    if math.prod(x.shape[first:]) != columns or any(d != 1 for d in value.shape[:first]):
        miss("the constant is not one for each input", x)
        return None
    if not alone:
        miss("what is scaled or shifted has another reader", x)
        return None
    spread = np.broadcast_to(value.reshape(value.shape[first:]), x.shape[first:]).reshape(-1)
    return ops.reshape_if(pair[0], op.operand("x").shape), spread


@rule("batch-norm", "batch_norm", "scale and shift in float64 keep small variances and epsilons, and fold into weights")
def batch_norm(op: Op, uses: Uses) -> Replacement:
    given = {name: constant(op.operand(name)) for name in op.inputs if name != "x"}
    if any(v is None for v in given.values()):
        return miss("a parameter is computed at run time")
    values = {name: v for name, v in given.items() if v is not None}
    ones, zeros = np.ones_like(values["mean"]), np.zeros_like(values["mean"])
    return ops.batch_norm_any(
        op.operand("x"),
        values.get("gamma", ones),
        values.get("beta", zeros),
        values["mean"],
        values["variance"],
        op.params["epsilon"],
    )


@rule("pad-into-conv", "conv", "zeros around H and W are the convolution's own padding")
def pad_into_conv(op: Op, uses: Uses) -> Replacement:
    x = op.operand("x")
    below = made_by(x, "pad")
    if below is None:
        return None
    if op.params["pad_type"] not in ("custom", "valid"):
        return miss("the convolution computes its padding itself", x)
    cells = (0,) * (2 * x.rank - len(below.params["pad"])) + below.params["pad"]
    if below.params["mode"] != "constant" or below.params["constant_val"] != 0.0:
        return miss("what is padded around is not zeros", x)
    if any(cells[:4]):
        return miss("the padding reaches the batch or the channels", x)
    own = op.params["pad"] if op.params["pad_type"] == "custom" else (0,) * len(cells[4:])
    params = {**op.params, "pad": tuple(a + b for a, b in zip(own, cells[4:], strict=True)), "pad_type": "custom"}
    return ops.conv(**{**op.inputs, "x": below.operand("x")}, **params)  # type: ignore[arg-type]


RULES = (
    batch_norm,
    pad_into_conv,
    scale_before_bias,
    scale_of_sum,
    scale_into_weight,
    scale_before_conv,
    shift_before_conv,
    scale_before_matmul,
    shift_before_matmul,
)
