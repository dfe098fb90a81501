"""Activations, in float64, as their texts say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensors import Array
from .arithmetic import precise, unary
from .table import TABLE, Call, Fold, Unfoldable, folds

TABLE["Relu"] = unary(lambda x: np.maximum(x, 0))


def _softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(x, 0.0))


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


for _name, _function in {
    "Sigmoid": _sigmoid,
    "Softplus": _softplus,
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "Mish": lambda x: x * np.tanh(_softplus(x)),
}.items():
    TABLE[_name] = precise(_function)


def _shaped(compute: Callable[..., Any], **defaults: float) -> Fold:
    """An activation with attributes of one number each."""

    def run(call: Call, x: Array, consumed_inputs: Any = None, **given: float) -> Array:
        call.only_before(6, consumed_inputs)
        if x.dtype.kind in "iub" or not set(given) <= set(defaults):
            raise Unfoldable
        return np.asarray(compute(x.astype(np.float64), **{**defaults, **given})).astype(x.dtype, copy=False)

    return run


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


TABLE["LeakyRelu"] = _shaped(lambda x, alpha: np.where(x < 0, alpha * x, x), alpha=0.01)
TABLE["ThresholdedRelu"] = _shaped(lambda x, alpha: np.where(x > alpha, x, 0), alpha=1.0)
TABLE["Elu"] = _shaped(_elu, alpha=1.0)
TABLE["Celu"] = _shaped(lambda x, alpha: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0) / alpha), x), alpha=1.0)
TABLE["HardSigmoid"] = _shaped(lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), alpha=0.2, beta=0.5)
TABLE["Swish"] = _shaped(lambda x, alpha: x * _sigmoid(alpha * x), alpha=1.0)


@folds("Selu")
def _selu(
    call: Call, x: Array, alpha: float | None = None, gamma: float | None = None, consumed_inputs: Any = None
) -> Array:
    """Its defaults had fewer digits before opset 6."""
    call.only_before(6, consumed_inputs)
    if x.dtype.kind in "iub":
        raise Unfoldable
    old = call.version < 6
    a = alpha if alpha is not None else 1.6732 if old else 1.67326319217681884765625
    g = gamma if gamma is not None else 1.0507 if old else 1.05070102214813232421875
    return np.asarray(g * _elu(x.astype(np.float64), a)).astype(x.dtype)


@folds("Shrink")
def _shrink(call: Call, x: Array, bias: float = 0.0, lambd: float = 0.5) -> Array:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0)).astype(x.dtype)


@folds("Gelu")
def _gelu(call: Call, x: Array, approximate: str = "none") -> Array:
    if x.dtype.kind in "iub" or approximate not in ("none", "tanh"):
        raise Unfoldable
    wide = x.astype(np.float64)
    if approximate == "tanh":
        share = 1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))
    else:
        share = 1 + np.asarray(TABLE["Erf"](call, wide / np.sqrt(2)))
    return np.asarray(0.5 * wide * share).astype(x.dtype)


@folds("PRelu")
def _prelu(call: Call, x: Array, slope: Array, consumed_inputs: Any = None) -> Array:
    """The slope broadcasts from the right; before opset 7 it was one number, or one for each channel."""
    call.only_before(6, consumed_inputs)
    if call.version < 7 and slope.size != 1:
        slope = slope.reshape((-1, *(1,) * (x.ndim - 2)))
    return np.where(x < 0, x * slope, x).astype(x.dtype, copy=False)


def _along(compute: Callable[[Array], Array]) -> Fold:
    """The softmax family, of the last axis: one axis from opset 13 on; before, everything from the axis on."""

    def run(call: Call, x: Array, axis: int | None = None) -> Array:
        if x.dtype.kind in "iub" or not x.ndim or not x.size:
            raise Unfoldable
        wide = x.astype(np.float64)
        if call.version >= 13:
            at = -1 if axis is None else axis
            return np.moveaxis(compute(np.moveaxis(wide, at, -1)), -1, at).astype(x.dtype)
        at = 1 if axis is None else axis
        at = at + x.ndim if at < 0 else at
        rows = int(np.prod(x.shape[:at], dtype=np.int64))
        return compute(wide.reshape(rows, -1)).reshape(x.shape).astype(x.dtype)

    return run


def _log_softmax(x: Array) -> Array:
    t = x - x.max(-1, keepdims=True)
    return np.asarray(t - np.log(np.exp(t).sum(-1, keepdims=True)))


TABLE["Softmax"] = _along(lambda x: np.exp(_log_softmax(x)))
TABLE["LogSoftmax"] = _along(_log_softmax)
TABLE["Hardmax"] = _along(lambda x: np.asarray(np.arange(x.shape[-1]) == x.argmax(-1)[..., None], np.float64))
