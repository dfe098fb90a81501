"""Images read and written at known places: products with known matrices, transposed convolutions, selections."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor, const
from ..folds.signal import base_grid
from ..node import Node, finite, wholes
from ..registry import Data, Known, onnx_op
from ..sampling import affordable, grid_matrix, roi_corners, roi_matrix
from ..windows import fill, pairs
from .layout import EXTENT


@onnx_op("GridSample", since=(16, 20, 22))
def grid_sample(
    node: Node,
    x: Tensor,
    grid: Known,
    *,
    align_corners: int = 0,
    mode: str | None = None,
    padding_mode: str = "zeros",
) -> Tensor:
    """A known grid: one matrix for all batches where their grids are equal, else one for each."""
    axes = x.rank - 2
    if axes not in (2, 3) or grid.ndim != x.rank or grid.shape[0] != x.shape[0] or grid.shape[-1] != axes:
        raise Refused("attribute form", f"a grid of shape {grid.shape} for {x.shape}")
    outs, extents = grid.shape[1:-1], x.shape[2:]
    places = finite(grid, "grid").reshape(x.shape[0], -1, axes)
    how = mode or "linear"

    def matrix(of: Known) -> Known:
        return grid_matrix(of, extents, how, padding_mode, bool(align_corners))

    flat = ops.reshape(x, (*x.shape[:2], math.prod(extents)))
    if (places == places[:1]).all():
        y = ops.contract_axis(flat, 2, matrix(places[0]))
    else:
        affordable(places.shape[0] * places.shape[1], math.prod(extents))
        y = ops.matmul_any(flat, const(np.stack([matrix(p).T for p in places]).astype(np.float32)))
    return ops.reshape(y, (*x.shape[:2], *outs))


@onnx_op("AffineGrid", since=(20,))
def affine_grid(node: Node, theta: Tensor, size: Known, *, align_corners: int = 0) -> Tensor:
    """theta [N, d, d + 1] applied to known coordinates."""
    extents = wholes(size)[2:]
    axes = len(extents)
    if axes not in (2, 3) or theta.shape[1:] != (axes, axes + 1) or theta.shape[0] != wholes(size)[0]:
        raise Refused("attribute form", f"theta {theta.shape} for the size {wholes(size)}")
    if min(extents) < (2 if align_corners else 1) or max(extents) > EXTENT:
        raise Refused("attribute form", f"a grid of {extents}, align_corners={align_corners}")
    places = base_grid(extents, bool(align_corners)).reshape(-1, axes + 1)
    turned = ops.transpose(theta, (0, 2, 1))
    return ops.reshape(ops.contract_axis(turned, 1, places), (theta.shape[0], *extents, axes))


@onnx_op("RoiAlign", since=(10, 16, 22))
def roi_align(
    node: Node,
    x: Tensor,
    rois: Known,
    batch: Known,
    *,
    coordinate_transformation_mode: str | None = None,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Known regions: means over samples, all in one product, or maxima. Before version 16 without the shift by half a
    pixel."""
    how = coordinate_transformation_mode or ("half_pixel" if node.since >= 16 else "output_half_pixel")
    if mode not in ("avg", "max") or how not in ("half_pixel", "output_half_pixel"):
        raise Refused("attribute form", f"mode {mode!r} and {how!r}")
    count, outs = len(rois), (output_height, output_width)
    if x.rank != 4 or rois.shape != (count, 4) or batch.shape != (count,) or count < 1 or min(outs) < 1:
        raise Refused("attribute form", f"{rois.shape} regions of {x.shape}")
    if not math.isfinite(spatial_scale) or np.abs(finite(rois, "rois") * np.float32(spatial_scale)).max() > EXTENT:
        raise Refused("limit", f"regions far outside an image of {x.shape}, scaled by {spatial_scale}")
    if batch.min() < 0 or batch.max() >= x.shape[0]:
        raise Refused("attribute form", f"batches {batch.tolist()} of {x.shape[0]}")
    n, c, h, w = x.shape
    form = ((h, w), outs, sampling_ratio, spatial_scale, how == "half_pixel")
    flat = ops.reshape(ops.transpose_if(x, (1, 0, 2, 3)), (c, n * h * w))
    affordable(count * math.prod(outs), n * h * w)
    if mode == "avg":
        y = ops.contract_axis(flat, 1, _over_batches([roi_matrix(roi, *form) for roi in rois], batch, n))
    else:
        corners = [roi_corners(roi, *form) for roi in rois]
        most = max(m.shape[1] for m in corners)
        even = [m[:, np.minimum(np.arange(most), m.shape[1] - 1)] for m in corners]  # the last again: no new maximum
        affordable(count * math.prod(outs) * most, n * h * w)
        rows = _over_batches([m.reshape(-1, h * w) for m in even], batch, n)
        y = ops.reshape(ops.contract_axis(flat, 1, rows), (c, count * math.prod(outs), most))
        y = ops.reduce_max(y, (2,), False)
    return ops.reshape(ops.transpose(ops.reshape(y, (c, count, math.prod(outs))), (1, 0, 2)), (count, c, *outs))


def _over_batches(matrices: Sequence[Known], batch: Known, batches: int) -> Known:
    """Matrices [rows, cells], one below the other, each over the cells of its batch among those of all."""
    rows, cells = matrices[0].shape
    whole = np.zeros((len(matrices), rows, batches, cells))
    for k, (matrix, b) in enumerate(zip(matrices, batch.tolist(), strict=True)):
        whole[k, :, b] = matrix
    return whole.reshape(-1, batches * cells)


@onnx_op("MaxRoiPool", since=(1, 22))
def max_roi_pool(
    node: Node, x: Tensor, rois: Known, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0
) -> Tensor:
    """Known regions (batch, x1, y1, x2, y2) with whole corners: maxima over rows, then over columns, bin by bin."""
    bins = tuple(pooled_shape)
    if x.rank != 4 or rois.ndim != 2 or rois.shape[1] != 5 or len(bins) != 2 or min(bins) < 1 or not len(rois):
        raise Refused("attribute form", f"{rois.shape} regions of {x.shape} to {list(bins)}")
    if len(rois) * sum(bins) > MOST_BINS:
        raise Refused("limit", f"{len(rois)} regions of {bins} bins, one by one; up to {MOST_BINS} have a form")
    corners = finite(rois, "rois")[:, 1:].astype(np.float64) * spatial_scale
    batch = rois[:, 0].astype(np.int64)
    if not (np.abs(corners) < EXTENT).all() or (np.abs(corners - np.floor(corners) - 0.5) < 1e-5).any():
        raise Refused("attribute form", "a corner between two cells, which the last bit decides, or one far outside")
    if (batch != rois[:, 0]).any() or batch.min() < 0 or batch.max() >= x.shape[0]:
        raise Refused("attribute form", f"batches {rois[:, 0].tolist()} of {x.shape[0]}")
    whole = np.rint(corners).astype(np.int64)
    made = [
        _pooled_roi(ops.slice_axis(x, 0, int(b), 1), roi.tolist(), bins) for b, roi in zip(batch, whole, strict=True)
    ]
    return ops.concat_any(made, 0)


MOST_BINS = 128
"""Slices that the regions of one MaxRoiPool may take."""


def _pooled_roi(x: Tensor, roi: list[int], bins: tuple[int, ...]) -> Tensor:
    for axis in (2, 3):
        begin, end, n = roi[3 - axis], roi[5 - axis], bins[axis - 2]
        step = Fraction(max(end - begin + 1, 1), n)
        parts = []
        for k in range(n):
            low = min(max(math.floor(k * step) + begin, 0), x.shape[axis])
            high = min(max(math.ceil((k + 1) * step) + begin, 0), x.shape[axis])
            if high <= low:
                raise Refused("attribute form", f"a bin of the region {roi} is empty")
            parts.append(ops.reduce_max(ops.slice_axis(x, axis, low, high - low), (axis,), True))
        x = ops.concat_any(parts, axis)
    return x


@onnx_op("Col2Im", since=(18,))
def col2im(
    node: Node,
    x: Tensor,
    image: Known,
    block: Known,
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Blocks [N, C * block, places] added up where they overlap: a transposed convolution whose kernel puts each cell of
    a block in its place."""
    shape, kernel = wholes(image), wholes(block)
    axes, cells = len(shape), math.prod(wholes(block))
    if x.rank != 3 or len(kernel) != axes or not 1 <= axes <= 3 or min(*shape, *kernel) < 1 or x.shape[1] % cells:
        raise Refused("attribute form", f"blocks of {kernel} from {x.shape} for an image of {shape}")
    step, dilation = fill("strides", strides, axes, 1), fill("dilations", dilations, axes, 1)
    cuts = pairs(pads, axes)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    spans = [extent + sum(cut) - r for extent, cut, r in zip(shape, cuts, reach, strict=True)]
    counts = [span // s + 1 for span, s in zip(spans, step, strict=True)]
    if min(spans) < 0 or math.prod(counts) != x.shape[2] or min(min(cut) for cut in cuts) < 0:
        raise Refused("attribute form", f"{x.shape[2]} blocks of {kernel} for an image of {shape}")
    channels = x.shape[1] // cells
    # Cells of the image that no block reaches are zeros at its end: a negative cut.
    ends = [(b, a - span % s) for (b, a), span, s in zip(cuts, spans, step, strict=True)]
    one = np.eye(cells, dtype=np.float32).reshape(cells, 1, *kernel)
    spread = ops.reshape(x, (x.shape[0], x.shape[1], *counts))
    make = ops.conv_transpose_volume if axes == 3 else ops.conv_transpose_any
    return make(spread, np.tile(one, (channels, *(1,) * (axes + 1))), None, step, ends, dilation, channels)


@onnx_op("MaxUnpool", since=(9, 11, 22))
def max_unpool(
    node: Node,
    x: Data,
    indices: Known,
    shape: Known | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Known indices into the flat result; zeros elsewhere."""
    axes = x.rank - 2
    if axes < 1 or indices.shape != x.shape:
        raise Refused("attribute form", f"indices {indices.shape} for {x.shape}")
    kernel, step, cuts = (
        fill("kernel_shape", kernel_shape, axes, 1),
        fill("strides", strides, axes, 1),
        pairs(pads, axes),
    )
    inner = [(d - 1) * s + k - sum(c) for d, s, k, c in zip(x.shape[2:], step, kernel, cuts, strict=True)]
    full = (*x.shape[:2], *inner)
    if shape is not None and tuple(wholes(shape)) != full:
        raise Refused("attribute form", f"output_shape {wholes(shape)} beside {list(full)}, where readings differ")
    if min(full) < 1 or math.prod(full) > EXTENT or indices.min() < 0 or indices.max() >= math.prod(full):
        raise Refused("attribute form", f"indices up to {indices.max()} for a result of {list(full)}")
    places = np.unravel_index(indices.reshape(-1).astype(np.int64), full)
    updates = ops.reshape(x, (math.prod(x.shape),))
    return ops.write_at(const(np.zeros(full, np.float32)), places, updates)
