"""Where GridSample and RoiAlign read: matrices [places, cells of the image] from known coordinates.

Coordinates are computed in float32, as runtimes do. What the last bit would decide (which element is nearest, how many
samples a region has) is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Refused
from .resample import keys_weights
from .tensors import Array

CELLS = 1 << 24
"""Elements that the matrix of one sampling may have."""


def affordable(places: int, cells: int) -> None:
    """Raises Refused for a matrix that is too large to be a constant."""
    if places * cells > CELLS or max(places, cells) > 1 << 14:
        raise Refused("limit", f"sampling {places} places of {cells} would need a matrix of {places} x {cells}")


def grid_matrix(grid: Array, extents: Sequence[int], mode: str, padding: str, align_corners: bool) -> Array:
    """GridSample: the matrix [places, prod(extents)] of a grid [places, axes], whose last coordinate is of the first
    axis."""
    affordable(len(grid), math.prod(extents))
    taps = [
        _grid_taps(grid[:, len(extents) - 1 - axis], extent, mode, padding, align_corners)
        for axis, extent in enumerate(extents)
    ]
    return _joined(taps, extents, len(grid))


def _joined(taps: Sequence[tuple[Array, Array]], extents: Sequence[int], places: int) -> Array:
    """The matrix of products of the weights of each axis; `taps` are (index, weight), [places, taps] each."""
    index, weight = np.zeros((places, 1), np.int64), np.ones((places, 1))
    for (at, share), extent in zip(taps, extents, strict=True):
        index = (index[:, :, None] * extent + at[:, None, :]).reshape(places, -1)
        weight = (weight[:, :, None] * share[:, None, :]).reshape(places, -1)
    matrix = np.zeros((places, math.prod(extents)))
    np.add.at(matrix, (np.arange(places)[:, None], index), weight)
    return matrix


def linear_matrix(places: Array, extents: Sequence[int]) -> Array:
    """Linear interpolation at places [count, axes], in cells; what is outside is zero. [count, prod(extents)]."""
    affordable(len(places), math.prod(extents))
    taps = []
    for at, extent in zip(np.clip(places, -4, np.array(extents) + 4).T, extents, strict=True):
        low = np.floor(at).astype(np.int64)
        index, share = low[:, None] + np.arange(2), np.stack([1 - (at - low), at - low], 1)
        inside = (index >= 0) & (index < extent)
        taps.append((np.clip(index, 0, extent - 1), np.where(inside, share, 0)))
    return _joined(taps, extents, len(places))


def _denormalized(n: Array, extent: int, align_corners: bool, kind: type[np.floating[Any]]) -> Array:
    v, one, half = n.astype(kind), kind(1), kind(0.5)
    return np.asarray((v + one) * half * kind(extent - 1) if align_corners else ((v + one) * kind(extent) - one) * half)


def _reflected(v: Array, low: float, high: float) -> Array:
    """v mirrored at both borders until it is between them."""
    span = high - low
    if span <= 0:
        return np.full_like(v, low)
    beyond = np.where(v < low, low - v, v - high)
    times = np.trunc(beyond / span)
    rest = beyond - times * span
    even = times % 2 == 0
    below = np.where(even, low + rest, high - rest)
    above = np.where(even, high - rest, low + rest)
    return np.where(v < low, below, np.where(v > high, above, v))


def _grid_taps(n: Array, extent: int, mode: str, padding: str, align_corners: bool) -> tuple[Array, Array]:
    """Indices and weights along one axis, [places, taps]."""
    at = _denormalized(n, extent, align_corners, np.float32)
    low, high = (0.0, extent - 1.0) if align_corners else (-0.5, extent - 0.5)
    if mode == "nearest":
        exact = _denormalized(n, extent, align_corners, np.float64)
        if (np.rint(at) != np.rint(exact)).any():
            raise Refused("attribute form", "a nearest element that the last bit of its coordinate decides")
        at = np.rint(at)
    at = at.astype(np.float64)
    if padding == "border" and mode in ("cubic", "bicubic"):
        if ((at < low) | (at > high)).any():
            raise Refused("attribute form", "a cubic sample beyond the border, which runtimes move there, or do not")
    elif padding == "border":
        at = np.where((at < low) | (at > high), np.clip(at, 0, extent - 1), at)
    elif padding == "reflection":
        at = _reflected(at, low, high)
    elif padding != "zeros":
        raise Refused("attribute form", f"padding_mode {padding!r}")
    at = np.clip(at, -4, extent + 4)  # farther outside nothing changes, and an index fits its type
    base = np.floor(at).astype(np.int64)
    t = at - base
    if mode == "nearest":
        index, weight = base[:, None], np.ones((len(at), 1))
    elif mode in ("linear", "bilinear"):
        index, weight = base[:, None] + np.arange(2), np.stack([1 - t, t], 1)
    elif mode in ("cubic", "bicubic"):
        index, weight = base[:, None] + np.arange(-1, 3), keys_weights(t)
    else:
        raise Refused("attribute form", f"mode {mode!r}")
    if padding == "zeros":
        weight = np.where((index >= 0) & (index < extent), weight, 0)
    elif padding == "reflection":
        index = np.trunc(_reflected(index.astype(np.float64), low, high)).astype(np.int64)
    return np.clip(index, 0, extent - 1), weight


def roi_matrix(
    roi: Array, extents: tuple[int, int], outs: tuple[int, int], ratio: int, scale: float, half_pixel: bool
) -> Array:
    """RoiAlign's means: the matrix [out H * out W, H * W] of one region (x1, y1, x2, y2)."""
    affordable(math.prod(outs), math.prod(extents))
    rows, columns = (
        _roi_line(_roi_places(roi, axis, outs[axis], ratio, scale, half_pixel), extents[axis]) for axis in (0, 1)
    )
    # A sample counts where both its coordinates are inside; the mean is over all of them, and a product of means.
    joined = np.einsum("ph,qw->pqhw", rows, columns)
    return np.asarray(joined.reshape(math.prod(outs), math.prod(extents)))


def roi_corners(
    roi: Array, extents: tuple[int, int], outs: tuple[int, int], ratio: int, scale: float, half_pixel: bool
) -> Array:
    """RoiAlign's candidates for a maximum: [out H * out W, candidates, H * W]. Runtimes take the greatest of the four
    weighted corners of each sample, not of their sums."""
    at = [_roi_places(roi, axis, outs[axis], ratio, scale, half_pixel) for axis in (0, 1)]
    (rows, up), (columns, across) = (_roi_taps(a, d) for a, d in zip(at, extents, strict=True))
    count = rows.shape[1] * columns.shape[1]
    bins, cells = math.prod(outs), math.prod(extents)
    affordable(bins * max(1, count), cells)
    if not count:
        return np.zeros((bins, 1, cells))
    index = (rows[:, None, :, None] * extents[1] + columns[None, :, None, :]).reshape(bins, count)
    weight = (up[:, None, :, None] * across[None, :, None, :]).reshape(bins, count)
    matrix = np.zeros((bins, count, cells))
    np.put_along_axis(matrix, index[..., None], weight[..., None], 2)
    return matrix


def _roi_places(roi: Array, axis: int, out: int, ratio: int, scale: float, half_pixel: bool) -> Array:
    """Coordinates [out, samples] along rows (axis 0) or columns; an empty region has no samples."""
    offset = np.float32(0.5 if half_pixel else 0)
    corners = roi.astype(np.float32) * np.float32(scale) - offset
    start = corners[1 - axis]
    width = corners[3 - axis] - start
    if not half_pixel:
        width = max(width, np.float32(1))
    step = width / np.float32(out)
    samples = ratio if ratio > 0 else max(0, math.ceil(step))
    if ratio <= 0 and abs(step - round(step)) < 1e-5 and step != round(step):
        raise Refused("attribute form", "a number of samples that the last bit of a region decides")
    if samples > 1 << 10:
        raise Refused("limit", f"a region with {samples} samples in a bin")
    at = start + np.arange(out)[:, None] * step + (np.arange(samples) + 0.5) * step / max(1, samples)
    return np.asarray(at, np.float64)


def _roi_taps(at: Array, extent: int) -> tuple[Array, Array]:
    """Indices and weights [out, samples * 2] of the two neighbours: the end beyond the ends by up to one, nothing
    farther out."""
    inside = (at >= -1) & (at <= extent)
    at = np.clip(at, 0, extent - 1)
    low = np.floor(at).astype(np.int64)
    t = at - low
    index = np.stack([low, np.minimum(low + 1, extent - 1)], -1)
    weight = np.where(inside[..., None], np.stack([1 - t, t], -1), 0)
    return index.reshape(len(at), -1), weight.reshape(len(at), -1)


def _roi_line(at: Array, extent: int) -> Array:
    """Mean weights [out, extent] of samples [out, samples] along one axis."""
    index, weight = _roi_taps(at, extent)
    matrix = np.zeros((len(at), extent))
    np.add.at(matrix, (np.arange(len(at))[:, None], index), weight)
    return np.asarray(matrix / max(1, at.shape[1]))
