"""Convolutions over three spatial axes, of which the engine has none: as convolutions over H and W, with the depth as
the batch, one for each plane of the kernel or one of all planes side by side.

`pads` are pairs (before, after) for depth, height, width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Tensor, const
from . import elementwise as e
from . import shape as s
from .base import Operand
from .layout import pad_any, slice_axis, strided_slice
from .masks import filled
from .windows import Pads, add_bias, conv_any, conv_transpose_any

_ORDER = (0, 2, 1, 3, 4)  # [N, C, D, H, W] <-> [N, D, C, H, W]


def conv_volume(
    x: Tensor,
    weight: NDArray[Any],
    bias: Operand | None,
    strides: Sequence[int],
    pads: Pads,
    dilations: Sequence[int],
    groups: int,
) -> Tensor:
    """x [N, C, D, H, W], weight [Cout, C / groups, kD, kH, kW], known.

    Without groups the planes that a window covers stand side by side as channels, so that everything is accumulated in
    one convolution and rounded once; with groups there is one convolution for each plane of the kernel, and a sum.
    """
    planes, dilation, stride = weight.shape[2], dilations[0], strides[0]
    deep = s.transpose(x, _ORDER)
    if any(pads[0]):
        deep = pad_any(deep, [(0, 0), pads[0], (0, 0), (0, 0), (0, 0)])
    count = (deep.shape[1] - (planes - 1) * dilation - 1) // stride + 1
    taps = [_images(strided_slice(deep, 1, k * dilation, stride, count)) for k in range(planes)]
    form = (strides[1:], pads[1:], dilations[1:], groups)
    if groups == 1:
        kernel = weight.transpose(0, 2, 1, 3, 4).reshape(weight.shape[0], -1, *weight.shape[3:])
        y = conv_any(taps[0] if planes == 1 else s.concat(taps, 1), kernel, None, *form)
    else:
        y = _sum([conv_any(tap, np.ascontiguousarray(weight[:, :, k]), None, *form) for k, tap in enumerate(taps)])
    return _volume(add_bias(y, bias), x.shape[0])


def conv_transpose_volume(
    x: Tensor,
    weight: NDArray[Any],
    bias: Operand | None,
    strides: Sequence[int],
    pads: Pads,
    dilations: Sequence[int],
    groups: int,
) -> Tensor:
    """x [N, C, D, H, W], weight [C, Cout / groups, kD, kH, kW], known; `pads` cut the result, negative ones widen it.

    One transposed convolution for each plane of the kernel; its images stand `strides[0]` apart, with zeros between
    them, and the planes are added where they fall.
    """
    planes, dilation, stride = weight.shape[2], dilations[0], strides[0]
    images = _images(s.transpose(x, _ORDER))
    extent = (x.shape[2] - 1) * stride + (planes - 1) * dilation + 1
    parts = []
    for k in range(planes):
        kernel = np.ascontiguousarray(weight[:, :, k])
        y = conv_transpose_any(images, kernel, None, strides[1:], pads[1:], dilations[1:], groups)
        c, h, w = y.shape[1:]
        deep = s.reshape(y, (x.shape[0], x.shape[2], c * h, w))
        if stride > 1:
            deep = _apart(deep, stride)
        begin = k * dilation
        deep = pad_any(deep, [(0, 0), (begin, extent - begin - deep.shape[1]), (0, 0), (0, 0)])
        parts.append(s.reshape(deep, (x.shape[0], extent, c, h, w)))
    y = _sum(parts)
    before, after = pads[0]
    y = slice_axis(y, 1, max(0, before), extent - max(0, before) - max(0, after))
    if min(before, after) < 0:
        y = pad_any(y, [(0, 0), (max(0, -before), max(0, -after)), (0, 0), (0, 0), (0, 0)])
    return add_bias(s.transpose(y, _ORDER), bias)


def _images(deep: Tensor) -> Tensor:
    return s.reshape(deep, (deep.shape[0] * deep.shape[1], *deep.shape[2:]))


def _volume(images: Tensor, batch: int) -> Tensor:
    return s.transpose(s.reshape(images, (batch, images.shape[0] // batch, *images.shape[1:])), _ORDER)


def _apart(x: Tensor, stride: int) -> Tensor:
    """x [N, D, R, W] with stride - 1 planes of zeros between neighbours along D."""
    n, d, r, w = x.shape
    rows = s.reshape(x, (n * d, 1, r, w))
    wide = s.concat((rows, const(filled((n * d, stride - 1, r, w), 0.0))), 1)
    return slice_axis(s.reshape(wide, (n, d * stride, r, w)), 1, 0, (d - 1) * stride + 1)


def _sum(parts: list[Tensor]) -> Tensor:
    while len(parts) > 1:
        parts = [e.add(*parts[i : i + 2]) if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0]
