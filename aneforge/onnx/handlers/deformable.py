"""Convolutions whose taps lie anywhere: with known offsets, a sampling and a convolution of what was sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor, const
from ..node import Node, finite
from ..registry import Known, onnx_op
from ..sampling import affordable, linear_matrix
from ..windows import Window, window


def _places(w: Window, outs: tuple[int, ...], shift: Known) -> Known:
    """Where the taps read, in cells: [taps * places, 2], for offsets [taps * 2, *outs] (rows, columns, tap by tap)."""
    axes = np.meshgrid(*(np.arange(k) for k in w.kernel), *(np.arange(o) for o in outs), indexing="ij")
    taps, steps = axes[:2], axes[2:]
    regular = [
        step * s - pad[0] + tap * d
        for tap, step, s, pad, d in zip(taps, steps, w.strides, w.pads, w.dilations, strict=True)
    ]
    moved = shift.astype(np.float64).reshape(*w.kernel, 2, *outs)
    return np.stack([(r + moved[:, :, i]).reshape(-1) for i, r in enumerate(regular)], -1)


@onnx_op("DeformConv", since=(19, 22))
def deform_conv(
    node: Node,
    x: Tensor,
    weight: Known,
    offset: Known,
    bias: Known | None = None,
    mask: Known | None = None,
    *,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    offset_group: int = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Known offsets and mask, over two axes: one product a batch and group of offsets, then a convolution of 1 x 1."""
    if x.rank != 4 or weight.ndim != 4 or (kernel_shape and tuple(kernel_shape) != weight.shape[2:]):
        raise Refused("attribute form", f"a weight of shape {weight.shape} for {x.shape}")
    n, c, h, width = x.shape
    kernel = weight.shape[2:]
    if min(group, offset_group) < 1 or c % offset_group or weight.shape[1] * group != c or weight.shape[0] % group:
        raise Refused("attribute form", f"{group} groups and {offset_group} of offsets for {c} channels")
    w = window((h, width), kernel, strides, dilations, pads, "NOTSET")
    outs = tuple((d + sum(p) - r) // s + 1 for d, p, r, s in zip((h, width), w.pads, w.reach, w.strides, strict=True))
    taps, cells = math.prod(kernel), math.prod(outs)
    if offset.shape != (n, offset_group * taps * 2, *outs) or min(outs) < 1:
        raise Refused("attribute form", f"offsets {offset.shape} for a result of {outs}")
    if mask is not None and mask.shape != (n, offset_group * taps, *outs):
        raise Refused("attribute form", f"a mask of shape {mask.shape} for a result of {outs}")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise Refused("attribute form", f"a bias of shape {bias.shape} for {weight.shape[0]} channels")
    affordable(n * offset_group * taps * cells, h * width)
    shifts = finite(offset, "offset").reshape(n, offset_group, taps * 2, *outs)
    matrices = np.stack([[linear_matrix(_places(w, outs, shift), (h, width)) for shift in batch] for batch in shifts])
    if mask is not None:
        matrices = matrices * finite(mask, "mask").reshape(n, offset_group, taps * cells, 1)
    blocks = ops.reshape(x, (n * offset_group, c // offset_group, h * width))
    turned = matrices.reshape(n * offset_group, taps * cells, h * width).transpose(0, 2, 1)
    read = ops.reshape(ops.matmul_any(blocks, const(turned.astype(np.float32))), (n, c * taps, *outs))
    flat = finite(weight, "weight").reshape(weight.shape[0], -1, 1, 1)
    return ops.conv_any(read, flat, None if bias is None else finite(bias, "bias"), groups=group)
