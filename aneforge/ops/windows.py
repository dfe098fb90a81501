"""Convolutions and pools of any ONNX form, in the one form that the engine is known to take: rank 4, symmetric where
it must be, bias as a separate addition.

`pads` here are pairs (before, after) for each spatial axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Refused
from ..ir import Tensor, const
from . import convolution as cv
from . import elementwise as e
from . import pool as pl
from . import shape as s
from .base import Operand, operand, wholes
from .contract import reshape_if
from .layout import pad_any, slice_axis
from .smooth import FP16_MAX

Pads = Sequence[tuple[int, int]]


def add_bias(y: Tensor, bias: Operand | None) -> Tensor:
    """y + bias, [C] along axis 1."""
    if bias is None:
        return y
    b = operand("bias", "bias", bias)
    shape = (1, b.type.size, *(1,) * (y.rank - 2))
    if b.type.size not in (1, y.shape[1]):
        raise ValueError(f"bias: {b.shape} does not fit the channels of {y.shape}")
    return e.add(y, const(b.value.reshape(shape)) if b.is_const else s.reshape(b, shape))


def conv_bias(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    strides: int | Sequence[int] = 1,
    pad: int | Sequence[int] = 0,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """conv, then the bias added as [1, C, 1, 1]: the form that the engine's compiler is known to fuse. `pad` as in
    `conv`.
    """
    return add_bias(cv.conv(x, weight, None, strides, "custom", pad, dilations, groups), bias)


def _two(values: Sequence[int], spatial: int) -> tuple[int, int]:
    """Spatial parameters of rank 3 are those of H; W is 1."""
    return (values[0], values[1]) if spatial == 2 else (values[0], 1)


def _image(x: Tensor, what: str) -> Tensor:
    if x.rank == 4:
        return x
    if x.rank == 3:
        return s.expand_dims(x, (3,))  # L as H, W = 1: the limit on kernel height is the wider one
    raise Refused("rank", f"{what} of rank {x.rank}: the engine has one and two spatial axes")


def _weight_image(weight: Operand, rank: int) -> Tensor:
    w = operand("conv", "weight", weight)
    if w.rank != rank:
        raise ValueError(f"conv: weight {w.shape} has the rank of x, {rank}")
    if rank == 4:
        return w
    return const(w.value[..., None], w.dtype) if w.is_const else s.expand_dims(w, (3,))


def conv_any(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    strides: int | Sequence[int] = 1,
    pads: Pads | None = None,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """ONNX Conv of rank 3 and 4.

    Raises:
        Refused: rank 5; a weight computed at run time with a batch above 1 or a dilation (Q33).
    """
    spatial = x.rank - 2
    image, w = _image(x, "Conv"), _weight_image(weight, x.rank)
    step, dilation = wholes("conv", "strides", strides, spatial), wholes("conv", "dilations", dilations, spatial)
    cells = list(pads) if pads is not None else [(0, 0)] * spatial
    if not w.is_const and (x.shape[0] > 1 or max(dilation) > 1):
        raise Refused(
            "computed parameter", "Conv with a weight computed at run time takes a batch of 1 and no dilation"
        )
    if any(b < 0 or a < 0 for b, a in cells):
        image = pad_any(image, [(0, 0), (0, 0), *[(min(b, 0), min(a, 0)) for b, a in cells], *[(0, 0)] * (2 - spatial)])
        cells = [(max(b, 0), max(a, 0)) for b, a in cells]
    flat = [c for pair in (*cells, *[(0, 0)] * (2 - spatial)) for c in pair]
    y = conv_bias(image, w, bias, _two(step, spatial), flat, _two(dilation, spatial), groups)
    return y if x.rank == 4 else s.squeeze(y, (3,))


def conv_transpose_any(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    strides: int | Sequence[int] = 1,
    pads: Pads | None = None,
    dilations: int | Sequence[int] = 1,
    groups: int = 1,
    output_padding: int | Sequence[int] = 0,
) -> Tensor:
    """ONNX ConvTranspose of rank 3 and 4. `output_padding` lowers the end pad; what is left of it are rows of bias
    alone.

    Raises:
        Refused: rank 5; a weight computed at run time.
    """
    spatial = x.rank - 2
    image, w = _image(x, "ConvTranspose"), _weight_image(weight, x.rank)
    if not w.is_const:
        raise Refused("computed parameter", "ConvTranspose with a weight computed at run time has no engine form")
    step, dilation = wholes("conv", "strides", strides, spatial), wholes("conv", "dilations", dilations, spatial)
    extra = wholes("conv", "output_padding", output_padding, spatial)
    cells = [(b, a - o) for (b, a), o in zip(pads or [(0, 0)] * spatial, extra, strict=True)]
    flat = [max(0, c) for pair in (*cells, *[(0, 0)] * (2 - spatial)) for c in pair]
    y = cv.conv_transpose(image, w, None, flat, None, "custom", _two(step, spatial), _two(dilation, spatial), groups)
    grow = [(max(0, -b), max(0, -a)) for b, a in cells] + [(0, 0)] * (2 - spatial)
    if any(map(any, grow)):
        y = pad_any(y, [(0, 0), (0, 0), *grow])
    y = add_bias(y, bias)
    return y if x.rank == 4 else s.squeeze(y, (3,))


def onnx_windows(extent: int, kernel: int, stride: int, dilation: int, before: int, after: int, ceil: bool) -> int:
    """ONNX's number of windows; with ceil, one that would start beyond the input and its left pad is dropped."""
    span = extent + before + after - ((kernel - 1) * dilation + 1)
    out = -(-span // stride) + 1 if ceil else span // stride + 1
    return out - 1 if ceil and (out - 1) * stride >= extent + before else out


def _counts(
    extent: int, kernel: int, stride: int, out: int, before: int, after: int, padding: bool
) -> NDArray[np.int64]:
    """How many cells each window averages over: of the input, or of the input and its pads."""
    low, high = (-before, extent + after) if padding else (0, extent)
    start = np.arange(out) * stride - before
    return np.minimum(start + kernel, high) - np.maximum(start, low)


def pool_any(
    x: Tensor,
    kind: str,
    kernel: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pads: Pads | None = None,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    dilations: int | Sequence[int] = 1,
) -> Tensor:
    """ONNX MaxPool ("max") and AveragePool ("avg") of rank 3 and 4, as MIL pools in floor mode.

    The engine is only sure of symmetric pads, and MIL's ceil mode counts windows and cells otherwise than ONNX. So
    unequal pads become a pad before the pool (-65504 never wins a maximum), a ceil becomes more pad at the end, and an
    average whose windows hold unequal numbers of cells is the sum over whole windows times a constant map.

    Raises:
        Refused: rank 5; dilated windows.
    """
    spatial = x.rank - 2
    image = _image(x, "a pool")
    size = wholes("pool", "kernel", kernel, spatial)
    step = wholes("pool", "strides", 1 if strides is None else strides, spatial)
    if max(wholes("pool", "dilations", dilations, spatial)) > 1:
        raise Refused("attribute form", "a pool with dilated windows has no engine form")
    cells = list(pads) if pads is not None else [(0, 0)] * spatial
    outs = [onnx_windows(d, size[i], step[i], 1, *cells[i], ceil_mode) for i, d in enumerate(x.shape[2:])]
    # What the last window needs beyond the given end pad; where the windows do not reach the end, the given pad is cut.
    reach = [(o - 1) * step[i] + size[i] - x.shape[2 + i] - cells[i][0] for i, o in enumerate(outs)]
    ends = [max(0, r) for r in reach]
    full = [(b, end) for (b, _), end in zip(cells, ends, strict=True)]
    even = all(end <= b <= a for (b, a), end in zip(cells, ends, strict=True)) and all(
        (d + 2 * b - size[i]) // step[i] + 1 == outs[i]
        for i, (d, (b, _)) in enumerate(zip(x.shape[2:], cells, strict=True))
    )
    k, st = _two(size, spatial), _two(step, spatial)
    tail = [(0, 0)] * (2 - spatial)
    if even:
        flat = [c for b, _ in cells for c in (b, b)] + [0] * (4 - 2 * spatial)
    else:
        value = -FP16_MAX if kind == "max" else 0.0
        image = pad_any(image, [(0, 0), (0, 0), *full, *tail], "constant", value)
        flat = [0, 0, 0, 0]
    if kind == "max":
        y = pl.max_pool(image, k, st, "custom", flat)
    elif kind == "avg":
        counts = [
            _counts(d, size[i], step[i], outs[i], *cells[i], count_include_pad) for i, d in enumerate(x.shape[2:])
        ]
        if all((c == n).all() for c, n in zip(counts, size, strict=True)):
            y = pl.avg_pool(image, k, st, "custom", flat)
        elif even and not count_include_pad:
            y = pl.avg_pool(image, k, st, "custom", flat, exclude_padding_from_average=True)
        else:
            y = e.mul(pl.avg_pool(image, k, st, "custom", flat), _correction(counts, size))
    else:
        raise ValueError(f"pool_any: no kind {kind!r}")
    shape = (*x.shape[:2], *outs, *([1] * (2 - spatial)))
    y = y if y.shape == shape else _crop(y, shape)
    return y if x.rank == 4 else s.squeeze(y, (3,))


def _correction(counts: list[NDArray[np.int64]], size: Sequence[int]) -> NDArray[Any]:
    """Cells of a whole window over cells that count, [1, 1, out…] (rank 4)."""
    grid = counts[0][:, None] * (counts[1][None, :] if len(counts) == 2 else np.ones((1, 1), np.int64))
    return (math.prod(size) / grid).reshape(1, 1, *grid.shape)


def _crop(y: Tensor, shape: tuple[int, ...]) -> Tensor:
    for axis in (2, 3):
        y = slice_axis(y, axis, 0, shape[axis])
    return reshape_if(y, shape)
