"""Conv and ConvTranspose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from ..node import Node, finite
from ..registry import Known, Value, onnx_op
from ..windows import fill, transposed_pads, window
from .layout import EXTENT


def _kernel(x: Tensor, weight: Value, kernel_shape: Sequence[int] | None) -> tuple[int, ...]:
    kernel = weight.shape[2:]
    if len(weight.shape) != x.rank or min(weight.shape) < 1:
        raise Refused("attribute form", f"a weight of shape {weight.shape} for an input of shape {x.shape}")
    if kernel_shape and tuple(kernel_shape) != kernel:
        raise Refused("attribute form", f"kernel_shape {list(kernel_shape)} is not that of the weight {weight.shape}")
    return kernel


def _check_bias(bias: Value | None, channels: int) -> None:
    if bias is not None and bias.shape != (channels,):
        raise Refused("attribute form", f"a bias of shape {bias.shape} for {channels} channels")


def _weight(weight: Value, name: str) -> Tensor | Known:
    return finite(weight, name) if isinstance(weight, np.ndarray) else weight


@onnx_op("Conv", since=(1, 11, 22))
def conv(
    node: Node,
    x: Tensor,
    weight: Value,
    bias: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Rank 3 to 5. A weight or bias may be computed at run time where the engine takes that."""
    if not 3 <= x.rank <= 5:
        raise Refused("rank", f"a convolution over {x.rank - 2} spatial axes; one to three have a form")
    kernel = _kernel(x, weight, kernel_shape)
    if group < 1 or weight.shape[1] * group != x.shape[1] or weight.shape[0] % group:
        raise Refused("attribute form", f"{group} groups of the weight {weight.shape} for {x.shape[1]} channels")
    _check_bias(bias, weight.shape[0])
    w = window(x.shape[2:], kernel, strides, dilations, pads, auto_pad)
    for extent, reach, padding in zip(x.shape[2:], w.reach, w.pads, strict=True):
        if reach > extent + sum(padding):
            raise Refused("attribute form", f"a kernel of {reach} cells does not fit into {extent} + {sum(padding)}")
    b = None if bias is None else _weight(bias, "bias")
    if x.rank == 5:
        if not isinstance(weight, np.ndarray):
            raise Refused("computed parameter", "a weight computed at run time over three spatial axes")
        return ops.conv_volume(x, finite(weight, "weight"), b, w.strides, w.pads, w.dilations, group)
    return ops.conv_any(x, _weight(weight, "weight"), b, w.strides, w.pads, w.dilations, group)


@onnx_op("ConvTranspose", since=(1, 11, 22), own_shape=True)
def conv_transpose(
    node: Node,
    x: Tensor,
    weight: Known,
    bias: Value | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Rank 3 to 5, in full: output_padding, output_shape, auto_pad, groups."""
    if not 3 <= x.rank <= 5:
        raise Refused("rank", f"a transposed convolution over {x.rank - 2} spatial axes; one to three have a form")
    kernel = _kernel(x, weight, kernel_shape)
    if group < 1 or weight.shape[0] != x.shape[1] or x.shape[1] % group:
        raise Refused("attribute form", f"{group} groups of the weight {weight.shape} for {x.shape[1]} channels")
    _check_bias(bias, weight.shape[1] * group)
    extents = x.shape[2:]
    # SAME_* means an output of extent * stride here, which `transposed_pads` works out; the window is unpadded then.
    explicit = pads if auto_pad == "NOTSET" else None
    w = window(extents, kernel, strides, dilations, explicit, "NOTSET")
    extra = fill("output_padding", output_padding, len(extents), 0)
    cuts = transposed_pads(extents, w, extra, output_shape, auto_pad)
    left = [(d - 1) * s + r - sum(cut) for d, s, r, cut in zip(extents, w.strides, w.reach, cuts, strict=True)]
    if not 1 <= min(left) <= max(left) <= EXTENT:
        raise Refused("attribute form", f"pads that leave an output of {left}")
    b = None if bias is None else _weight(bias, "bias")
    make = ops.conv_transpose_volume if x.rank == 5 else ops.conv_transpose_any
    return make(x, finite(weight, "weight"), b, w.strides, cuts, w.dilations, group)
