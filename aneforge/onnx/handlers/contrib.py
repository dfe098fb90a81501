"""Operators of com.microsoft that stand in files which ONNX Runtime's optimizer has saved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from ..node import Node, broadcast, finite
from ..registry import Known, Value, onnx_op
from ..tensors import Array
from .convolution import conv
from .normalization import nonnegative
from .product import gemm, product

MS = "com.microsoft"


@onnx_op("Gelu", since=(1,), domain=MS)
def gelu(node: Node, x: Tensor) -> Tensor:
    return ops.gelu(x, "EXACT")


@onnx_op("QuickGelu", since=(1,), domain=MS)
def quick_gelu(node: Node, x: Tensor, *, alpha: float = 1.702) -> Tensor:
    """x * sigmoid(alpha * x)."""
    return ops.swish(x, alpha)


@onnx_op("BiasGelu", since=(1,), domain=MS)
def bias_gelu(node: Node, x: Tensor, bias: Tensor) -> Tensor:
    broadcast(x.shape, bias.shape)
    return ops.gelu(ops.add(x, bias), "EXACT")


@onnx_op("FastGelu", since=(1,), domain=MS)
def fast_gelu(node: Node, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """The tanh form."""
    if bias is not None:
        broadcast(x.shape, bias.shape)
        x = ops.add(x, bias)
    return ops.gelu_tanh(x)


@onnx_op("FusedMatMul", since=(1,), domain=MS)
def fused_matmul(
    node: Node,
    x: Tensor,
    y: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    """alpha * x' @ y'."""
    if transBatchA or transBatchB:
        raise Refused("attribute form", "FusedMatMul with transBatchA or transBatchB")
    y = product(_swapped(x, transA), _swapped(y, transB))
    return y if alpha == 1.0 else ops.mul(y, alpha)


def _swapped(x: Tensor, transpose: int) -> Tensor:
    if not transpose or x.rank < 2:
        return x
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    if x.is_const:
        from ...ir import const  # noqa: PLC0415

        return const(np.ascontiguousarray(x.value.transpose(order)))
    return ops.transpose(x, order)


@onnx_op("FusedConv", since=(1,), domain=MS)
def fused_conv(
    node: Node,
    x: Tensor,
    weight: Value,
    bias: Value | None = None,
    z: Tensor | None = None,
    *,
    activation: str = "",
    activation_params: Sequence[float] = (),
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Conv, then z added, then the activation."""
    y: Tensor = conv(
        node,
        x,
        weight,
        bias,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    if z is not None:
        if z.shape != y.shape:
            raise Refused("attribute form", f"an addend of shape {z.shape} for {y.shape}")
        y = ops.add(y, z)
    return _activated(y, activation, activation_params)


def _activated(y: Tensor, activation: str, parameters: Sequence[float]) -> Tensor:
    a, b = [*parameters, 0.0, 0.0][:2]
    match activation:
        case "":
            return y
        case "Relu":
            return ops.relu(y)
        case "Sigmoid":
            return ops.sigmoid(y)
        case "Tanh":
            return ops.tanh(y)
        case "LeakyRelu" if parameters:
            return ops.leaky_relu(y, a)
        case "Clip" if len(parameters) == 2:
            return ops.clamp(y, a, b)
        case "HardSigmoid" if len(parameters) == 2:
            return ops.sigmoid_hard(y, a, b)
        case _:
            raise Refused("attribute form", f"the activation {activation!r} with {list(parameters)}")


@onnx_op("FusedGemm", since=(1,), domain=MS, ignores=("activation_gamma",))
def fused_gemm(
    node: Node,
    a: Value,
    b: Value,
    c: Value | None = None,
    *,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Gemm, then the activation."""
    y: Tensor = gemm(node, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return _activated(y, activation, [p for p in (activation_alpha, activation_beta) if p is not None])


@onnx_op("SkipLayerNormalization", since=(1,), domain=MS)
def skip_layer_normalization(
    node: Node,
    x: Tensor,
    skip: Tensor,
    gamma: Known,
    beta: Known | None = None,
    bias: Known | None = None,
    *,
    epsilon: float = 1e-12,
) -> list[Tensor | None]:
    """LayerNormalization of x + skip + bias; the fourth output is that sum."""
    total = _skipped(node, x, skip, bias)
    shift = None if beta is None else _row(beta, x, "beta")
    y = ops.layer_norm_fp16(total, x.rank - 1, _row(gamma, x, "gamma"), shift, nonnegative(epsilon))
    return [y, None, None, total]


@onnx_op("SkipSimplifiedLayerNormalization", since=(1,), domain=MS)
def skip_simplified_layer_normalization(
    node: Node, x: Tensor, skip: Tensor, gamma: Known, bias: Known | None = None, *, epsilon: float = 1e-5
) -> list[Tensor | None]:
    """RMSNormalization of x + skip + bias; the fourth output is that sum."""
    total = _skipped(node, x, skip, bias)
    return [ops.rms_norm(total, x.rank - 1, _row(gamma, x, "gamma"), nonnegative(epsilon)), None, None, total]


def _skipped(node: Node, x: Tensor, skip: Tensor, bias: Array | None) -> Tensor:
    if broadcast(x.shape, skip.shape) != x.shape:
        raise Refused("attribute form", f"a skip of shape {skip.shape} for {x.shape}")
    total = ops.add(x, skip)
    return total if bias is None else ops.add(total, node.const(_row(bias, x, "bias"), "bias"))


def _row(value: Array, x: Tensor, what: str) -> Array:
    """A parameter along the last axis of x."""
    if value.shape != x.shape[-1:]:
        raise Refused("attribute form", f"{what} of shape {value.shape} for {x.shape}")
    return finite(value, what)
