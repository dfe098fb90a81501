"""Normalizations as MIL has them. The compositions in `norms` are what models are lowered to."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir import Tensor
from .base import Operand, axes_of, declare, floating, make, number, operand, whole


def _vector(kind: str, name: str, given: Operand, shape: tuple[int, ...]) -> Tensor:
    out = operand(kind, name, given)
    if out.shape != shape:
        raise ValueError(f"{kind}: {name} is {out.shape}, not {shape}")
    return out


@declare
def batch_norm(
    x: Tensor,
    mean: Operand,
    variance: Operand,
    gamma: Operand | None = None,
    beta: Operand | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, vectors [C] along axis 1, rank 3 to 5."""
    kind = "batch_norm"
    floating(kind, "x", x)
    if not 3 <= x.rank <= 5:
        raise ValueError(f"batch_norm: x has rank 3 to 5, not {x.rank} {x.shape}")
    size = (x.shape[1],)
    inputs = {"x": x, "mean": _vector(kind, "mean", mean, size), "variance": _vector(kind, "variance", variance, size)}
    if gamma is not None:
        inputs["gamma"] = _vector(kind, "gamma", gamma, size)
    if beta is not None:
        inputs["beta"] = _vector(kind, "beta", beta, size)
    return make(kind, inputs, {"epsilon": number(kind, "epsilon", epsilon)}, x.type)


@declare
def instance_norm(
    x: Tensor, gamma: Operand | None = None, beta: Operand | None = None, epsilon: float = 1e-5
) -> Tensor:
    """Mean and variance over the axes after the channel, gamma and beta [C]; rank 3 and 4."""
    kind = "instance_norm"
    floating(kind, "x", x)
    if x.rank not in (3, 4):
        raise ValueError(f"instance_norm: x has rank 3 or 4, not {x.rank} {x.shape}")
    inputs = {"x": x}
    if gamma is not None:
        inputs["gamma"] = _vector(kind, "gamma", gamma, (x.shape[1],))
    if beta is not None:
        inputs["beta"] = _vector(kind, "beta", beta, (x.shape[1],))
    return make(kind, inputs, {"epsilon": number(kind, "epsilon", epsilon)}, x.type)


@declare
def layer_norm(
    x: Tensor,
    axes: int | Sequence[int] | None = None,
    gamma: Operand | None = None,
    beta: Operand | None = None,
    epsilon: float = 1e-5,
) -> Tensor:
    """Mean and variance over `axes`, gamma and beta of the shape of those axes."""
    kind = "layer_norm"
    floating(kind, "x", x)
    over = axes_of(kind, "axes", axes, x.rank)
    size = tuple(x.shape[a] for a in over)
    inputs = {"x": x}
    if gamma is not None:
        inputs["gamma"] = _vector(kind, "gamma", gamma, size)
    if beta is not None:
        inputs["beta"] = _vector(kind, "beta", beta, size)
    return make(kind, inputs, {"axes": over, "epsilon": number(kind, "epsilon", epsilon)}, x.type)


@declare
def l2_norm(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    """x / sqrt(sum of squares + epsilon) over the last three axes *together*. ONNX's LpNormalization is
    `l2_normalize`.
    """
    floating("l2_norm", "x", x)
    if x.rank < 3:
        raise ValueError(f"l2_norm: x has rank 3 and more, not {x.shape}")
    return make("l2_norm", {"x": x}, {"epsilon": number("l2_norm", "epsilon", epsilon)}, x.type)


@declare
def local_response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """x / (k + alpha / size * sum of squares over `size` channels) ** beta."""
    kind = "local_response_norm"
    floating(kind, "x", x)
    if x.rank < 3:
        raise ValueError(f"local_response_norm: x has rank 3 and more, not {x.shape}")
    if whole(kind, "size", size) < 1:
        raise ValueError(f"local_response_norm: size {size} is 1 and more")
    params = {
        "size": int(size),
        "alpha": number(kind, "alpha", alpha),
        "beta": number(kind, "beta", beta),
        "k": number(kind, "k", k),
    }
    return make(kind, {"x": x}, params, x.type)
