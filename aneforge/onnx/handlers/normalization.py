"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from ..node import Node, broadcast, finite
from ..registry import Known, Value, onnx_op
from ..shapes import wrap


def nonnegative(epsilon: float) -> float:
    if not 0 <= epsilon < np.inf:
        raise Refused("attribute form", f"an epsilon of {epsilon}")
    return epsilon


@onnx_op("BatchNormalization", since=(1, 6, 7, 9, 14, 15), ignores=("momentum",))
def batch_normalization(
    node: Node,
    x: Tensor,
    scale: Known,
    shift: Known,
    mean: Known,
    variance: Known,
    *,
    epsilon: float = 1e-5,
    is_test: int = 0,
    spatial: int = 1,
    training_mode: int = 0,
) -> Tensor:
    """Inference only, folded to a factor and an addend for each channel in float64: never narrowed before that."""
    if node.since < 7 and not is_test:
        raise Refused("attribute form", "is_test=0, which is training; before opset 7 it is the default")
    if training_mode or not spatial:
        raise Refused("attribute form", "training_mode, or statistics for each cell (spatial=0)")
    channels = x.shape[1] if x.rank > 1 else 1
    parameters = {"scale": scale, "B": shift, "mean": mean, "var": variance}
    for name, value in parameters.items():
        finite(value, name)
        if value.size != channels:
            raise Refused("attribute form", f"the parameter {name} of shape {value.shape} for {channels} channels")
    if (variance.astype(np.float64) + epsilon <= 0).any():
        raise Refused("attribute form", "a variance that is not above -epsilon")
    if x.rank < 2:
        raise Refused("rank", f"BatchNormalization of rank {x.rank}")
    gamma, beta, mu, var = (value.astype(np.float64).reshape(channels) for value in parameters.values())
    return ops.batch_norm_any(x, gamma, beta, mu, var, epsilon)


@onnx_op(
    "LayerNormalization", since=(1, 17), ignores=("stash_type",)
)  # 1: ONNX Runtime's own, in models of an older opset
def layer_normalization(
    node: Node, x: Tensor, scale: Value, bias: Value | None = None, *, axis: int = -1, epsilon: float = 1e-5
) -> Tensor | list[Tensor]:
    """Over the axes from `axis` on. Outputs 1 and 2 are Mean and InvStdDev, with extents of 1 along those axes."""
    first = wrap(axis, x.rank)
    gamma, beta = (_broadcastable(node, value, x.shape[first:]) for value in (scale, bias))
    if not (node.wanted(1) or node.wanted(2)):
        return ops.layer_norm_fp16(x, first, gamma, beta, nonnegative(epsilon))
    y, mean, deviation = ops.moments(x, range(first, x.rank), nonnegative(epsilon))
    return [ops.affine(y, gamma, beta), mean, deviation]


@onnx_op("RMSNormalization", since=(23,), ignores=("stash_type",))
def rms_normalization(node: Node, x: Tensor, scale: Value, *, axis: int = -1, epsilon: float = 1e-5) -> Tensor:
    """x / sqrt(mean(x²) + epsilon) * scale over the axes from `axis` on."""
    first = wrap(axis, x.rank)
    return ops.rms_norm(x, first, _broadcastable(node, scale, x.shape[first:]), nonnegative(epsilon))


@onnx_op("SimplifiedLayerNormalization", since=(1,), ignores=("stash_type",))
def simplified_layer_normalization(
    node: Node, x: Tensor, scale: Value, *, axis: int = -1, epsilon: float = 1e-5
) -> Tensor:
    """ONNX Runtime's name for RMSNormalization."""
    return rms_normalization(node, x, scale, axis=axis, epsilon=epsilon)


def _broadcastable(node: Node, value: Value | None, shape: tuple[int, ...]) -> Value | None:
    if value is None:
        return None
    if broadcast(value.shape, shape) != shape:
        raise Refused("attribute form", f"a parameter of shape {value.shape} does not broadcast to {shape}")
    return _parameter(value)


def _parameter(value: Value) -> Value:
    return finite(value, "scale or bias") if isinstance(value, np.ndarray) else value


@onnx_op("InstanceNormalization", since=(1, 6, 22))
def instance_normalization(node: Node, x: Tensor, scale: Value, bias: Value, *, epsilon: float = 1e-5) -> Tensor:
    """Over the spatial axes of each channel."""
    if x.rank < 3:
        raise Refused("rank", f"InstanceNormalization of rank {x.rank}")
    for value in (scale, bias):
        if value.shape != (x.shape[1],):
            raise Refused("attribute form", f"a parameter of shape {value.shape} for {x.shape[1]} channels")
    return ops.instance_norm_any(x, _parameter(scale), _parameter(bias), nonnegative(epsilon))


@onnx_op("GroupNormalization", since=(18, 21), ignores=("stash_type",))
def group_normalization(
    node: Node, x: Tensor, scale: Known, bias: Known, *, num_groups: int, epsilon: float = 1e-5
) -> Tensor:
    """Scale and bias are for each group in version 18, for each channel from 21 on."""
    channels = x.shape[1] if x.rank > 1 else 0
    if num_groups < 1 or channels < 1 or channels % num_groups:
        raise Refused("attribute form", f"{num_groups} groups of {channels} channels")
    gamma, beta = finite(scale, "scale").reshape(-1), finite(bias, "bias").reshape(-1)
    if node.since == 18:
        if gamma.size != num_groups or beta.size != num_groups:
            raise Refused("attribute form", f"scale and bias of {gamma.size} and {beta.size} for {num_groups} groups")
        gamma, beta = np.repeat(gamma, channels // num_groups), np.repeat(beta, channels // num_groups)
    if gamma.size != channels or beta.size != channels:
        raise Refused("attribute form", f"scale and bias of {gamma.size} and {beta.size} for {channels} channels")
    return ops.group_norm(x, num_groups, gamma, beta, nonnegative(epsilon))


@onnx_op("LpNormalization", since=(1, 22))
def lp_normalization(node: Node, x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """p = 1 and 2; no epsilon, a vector of zeros stays one."""
    if p not in (1, 2):
        raise Refused("attribute form", f"LpNormalization with p = {p}; 1 and 2 are allowed")
    at = wrap(axis, x.rank)
    return ops.l2_normalize(x, at) if p == 2 else ops.l1_normalize(x, at)


@onnx_op("MeanVarianceNormalization", since=(9, 13))
def mean_variance_normalization(node: Node, x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    """(x - mean) / standard deviation over `axes`."""
    return ops.standardize(
        x, sorted({wrap(a, x.rank) for a in axes}), 1e-18
    )  # a constant row gives 0, as ONNX's 1e-9 beside the root


@onnx_op("LRN", since=(1, 13))
def lrn(node: Node, x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """Over `size` neighbouring channels."""
    if x.rank < 3:
        raise Refused("rank", f"LRN of rank {x.rank}")
    if size < 1 or size % 2 == 0:
        raise Refused("attribute form", f"LRN over {size} channels; of even numbers runtimes disagree")
    if alpha < 0 or bias <= 0:
        raise Refused("attribute form", f"LRN with alpha {alpha} and bias {bias}")
    return ops.response_norm(x, size, alpha, beta, bias)
