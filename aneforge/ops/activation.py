"""Activations. Parameters are numbers; only prelu takes a vector."""

from __future__ import annotations

from typing import Protocol

from ..ir import Tensor
from .base import Operand, axis_of, declare, floating, make, number, one_of, operand
from .elementwise import unary

relu = unary("relu", "max(x, 0)")
relu6 = unary("relu6", "min(max(x, 0), 6)")
sigmoid = unary("sigmoid", "1 / (1 + exp(-x))")
silu = unary("silu", "x * sigmoid(x)")
softplus = unary("softplus", "log(1 + exp(x)); 0 above 11.09 on the engine (Q14): use `softplus_safe`")
softsign = unary("softsign", "x / (1 + |x|)")
tanh = unary("tanh", "Hyperbolic tangent")


class OneParameter(Protocol):
    def __call__(self, x: Tensor, alpha: float) -> Tensor: ...


class TwoParameters(Protocol):
    def __call__(self, x: Tensor, alpha: float, beta: float) -> Tensor: ...


def _alpha(kind: str, doc: str) -> OneParameter:
    def call(x: Tensor, alpha: float) -> Tensor:
        return make(kind, {"x": floating(kind, "x", x)}, {"alpha": number(kind, "alpha", alpha)}, x.type)

    call.__name__ = call.__qualname__ = kind
    call.__doc__ = doc
    return declare(call, kind)


def _alpha_beta(kind: str, doc: str) -> TwoParameters:
    def call(x: Tensor, alpha: float, beta: float) -> Tensor:
        params = {"alpha": number(kind, "alpha", alpha), "beta": number(kind, "beta", beta)}
        return make(kind, {"x": floating(kind, "x", x)}, params, x.type)

    call.__name__ = call.__qualname__ = kind
    call.__doc__ = doc
    return declare(call, kind)


elu = _alpha("elu", "x for x > 0, alpha * (exp(x) - 1) elsewhere")
leaky_relu = _alpha("leaky_relu", "x for x > 0, alpha * x elsewhere")
thresholded_relu = _alpha(
    "thresholded_relu", "x for x >= alpha, 0 elsewhere; ONNX has x > alpha (Q41): use `relu_above`"
)
clamped_relu = _alpha_beta("clamped_relu", "min(beta, x) for x >= 0, min(beta, alpha * x) elsewhere")
linear_activation = _alpha_beta("linear_activation", "alpha * x + beta")
scaled_tanh = _alpha_beta("scaled_tanh", "alpha * tanh(beta * x)")
sigmoid_hard = _alpha_beta("sigmoid_hard", "min(max(alpha * x + beta, 0), 1)")


@declare
def gelu(x: Tensor, mode: str = "EXACT") -> Tensor:
    """x * P(X <= x). Only EXACT was checked on the engine; `gelu_tanh` composes the other."""
    one_of("gelu", "mode", mode, ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"))
    return make("gelu", {"x": floating("gelu", "x", x)}, {"mode": mode}, x.type)


@declare
def prelu(x: Tensor, alpha: Operand) -> Tensor:
    """x for x > 0, alpha[c] * x elsewhere: alpha [C] along axis 1, rank 3 to 5. `prelu_any` takes any slope."""
    floating("prelu", "x", x)
    slope = operand("prelu", "alpha", alpha)
    if not 3 <= x.rank <= 5:
        raise ValueError(f"prelu: x has rank 3 to 5, not {x.rank} {x.shape}")
    if slope.shape != (x.shape[1],):
        raise ValueError(f"prelu: alpha is {slope.shape}, x {x.shape} has {x.shape[1]} channels")
    return make("prelu", {"x": x, "alpha": slope}, {}, x.type)


def _per_channel(kind: str, x: Tensor, alpha: Operand, beta: Operand) -> Tensor:
    floating(kind, "x", x)
    a, b = operand(kind, "alpha", alpha), operand(kind, "beta", beta)
    if x.rank < 3 or a.shape != (x.shape[1],) or b.shape != a.shape:
        raise ValueError(f"{kind}: alpha {a.shape} and beta {b.shape} are [C] for x {x.shape}, rank 3 and more")
    return make(kind, {"x": x, "alpha": a, "beta": b}, {}, x.type)


@declare
def softplus_parametric(x: Tensor, alpha: Operand, beta: Operand) -> Tensor:
    """alpha[c] * log(1 + exp(beta[c] * x)). Shares the fault of softplus (Q14)."""
    return _per_channel("softplus_parametric", x, alpha, beta)


@declare
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along `axis`; the maximum is subtracted in hardware (Q23)."""
    floating("softmax", "x", x)
    return make("softmax", {"x": x}, {"axis": axis_of("softmax", "axis", axis, x.rank)}, x.type)
