"""Where Resize reads: one matrix [out, in] for each axis, from the operator's text.

A scale made from sizes is a rounded number, and so is every coordinate made with it; the nearest modes decide ties on
the last bit. Coordinates are computed in float32, as ONNX Runtime does, and in float64: where the two decide
differently, the node is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import Refused
from .tensors import Array


@dataclass(frozen=True)
class Axis:
    """One axis being resized."""

    extent: int
    out: int
    scale: float  # as float32
    exact: float | None = None  # what it is a rounding of, when it comes from sizes
    roi: tuple[float, float] | None = None  # of tf_crop_and_resize: begin and end, as shares of the extent - 1

    @property
    def ratio(self) -> float:
        return self.scale if self.exact is None else self.exact

    @property
    def same(self) -> bool:
        return self.extent == self.out and self.scale == 1.0 and self.roi in (None, (0.0, 1.0))


def sizes_by_policy(extents: Sequence[int], sizes: Sequence[int], policy: str) -> tuple[list[int], list[float]]:
    """Sizes and scales under keep_aspect_ratio_policy: one scale for all axes, sizes rounded half up."""
    ratios = [np.float32(s) / np.float32(d) for s, d in zip(sizes, extents, strict=True)]
    if policy == "stretch":
        return list(sizes), [float(r) for r in ratios]
    if policy not in ("not_larger", "not_smaller"):
        raise Refused("attribute form", f"keep_aspect_ratio_policy {policy!r}")
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [int(np.floor(scale * np.float32(d) + np.float32(0.5))) for d in extents], [float(scale)] * len(extents)


def coordinates(axis: Axis, mode: str, kind: type[np.floating[Any]] = np.float32) -> Array:
    """The place in the input that each output element stands for, computed in `kind`."""
    o, scale, half = np.arange(axis.out, dtype=kind), kind(axis.scale if kind is np.float32 else axis.ratio), kind(0.5)
    at: Array
    match mode:
        case "asymmetric":
            at = o / scale
        case "half_pixel":
            at = (o + half) / scale - half
        case "pytorch_half_pixel":
            at = (o + half) / scale - half if axis.out > 1 else np.zeros(1, kind)
        case "tf_half_pixel_for_nn":
            at = (o + half) / scale
        case "align_corners":
            at = o * kind(axis.extent - 1) / kind(axis.out - 1) if axis.out > 1 else np.zeros(1, kind)
        case "tf_crop_and_resize":
            begin, end = (kind(v) for v in axis.roi or (0.0, 1.0))
            span = kind(axis.extent - 1)
            if axis.out > 1:
                at = begin * span + o * (end - begin) * span / kind(axis.out - 1)
            else:
                at = np.full(1, half * (begin + end) * span, kind)
        case "half_pixel_symmetric":
            width = scale * kind(axis.extent)
            offset = kind(axis.extent) / 2 * (1 - kind(axis.out) / width)
            at = offset + (o + half) / scale - half
        case _:
            raise Refused("attribute form", f"coordinate_transformation_mode {mode!r}")
    return at


def nearest_index(axis: Axis, mode: str, rounding: str) -> Array:
    """The input element that each output element is."""
    index = _rounded(axis, coordinates(axis, mode).astype(np.float64), rounding)  # adding a half must not round
    if (index != _rounded(axis, coordinates(axis, mode, np.float64), rounding)).any():
        raise Refused("attribute form", "a nearest element that the last bit of the scale decides")
    return index


def _rounded(axis: Axis, at: Array, rounding: str) -> Array:
    match rounding:
        case "floor":
            index = np.floor(at)
        case "ceil":
            index = np.ceil(at)
        case "round_prefer_floor":
            index = np.ceil(at - 0.5)
        case "round_prefer_ceil":
            index = np.floor(at + 0.5)
        case (
            "simple"
        ):  # before opset 11 the text says nothing; runtimes agree where nothing is rounded, and on enlarging
            if axis.scale < 1 and (at != np.floor(at)).any():
                raise Refused("attribute form", "nearest shrinking by a fraction, which opset 10 does not define")
            index = np.floor(at)
        case _:
            raise Refused("attribute form", f"nearest_mode {rounding!r}")
    return np.clip(index, 0, axis.extent - 1).astype(np.int64)


def outside(axis: Axis) -> Array:
    """Which output elements tf_crop_and_resize reads outside the input.

    Raises:
        Refused: the last bit of a coordinate decides it."""
    found = [(at < 0) | (at > axis.extent - 1) for at in _both(axis, "tf_crop_and_resize")]
    if (found[0] != found[1]).any():
        raise Refused("attribute form", "a place at the border of the input, which the last bit of the region decides")
    return np.asarray(found[0])


def _both(axis: Axis, mode: str) -> tuple[Array, Array]:
    return coordinates(axis, mode), coordinates(axis, mode, np.float64)


def wide_matrix(axis: Axis, mode: str, a: float | None, exclude_outside: bool) -> Array:
    """Rows for shrinking with antialias: the filter (linear, or cubic with coefficient a) stretched by 1 / scale, its
    weights made to sum to 1; beyond the ends, the end, or nothing."""
    at = coordinates(axis, mode).astype(np.float64)
    low = np.floor(at).astype(np.int64)
    reach = int(np.ceil((1 if a is None else 2) / axis.scale)) + 1
    steps = np.arange(-reach, reach + 1)
    distance = np.abs(steps - (at - low)[:, None]) * axis.scale
    weights = np.maximum(0, 1 - distance) if a is None else _cubic(distance, a)
    index = low[:, None] + steps
    if exclude_outside:
        weights = np.where((index >= 0) & (index < axis.extent), weights, 0)
    weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((axis.out, axis.extent))
    np.add.at(matrix, (np.arange(axis.out)[:, None], np.clip(index, 0, axis.extent - 1)), weights)
    return matrix


def _cubic(d: Array, a: float) -> Array:
    """Keys' filter at a distance."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def linear_matrix(axis: Axis, mode: str) -> Array:
    """Rows of the two neighbours' weights; beyond the ends, the end."""
    at = np.clip(coordinates(axis, mode), 0, axis.extent - 1)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, axis.extent - 1)
    share = (at - low).astype(np.float64)
    matrix = np.zeros((axis.out, axis.extent))
    rows = np.arange(axis.out)
    np.add.at(matrix, (rows, low), 1 - share)
    np.add.at(matrix, (rows, high), share)
    return matrix


def keys_weights(t: Array, a: float = -0.75) -> Array:
    """Keys' cubic convolution: weights [.., 4] of the elements at -1, 0, 1, 2, for a place t in [0, 1)."""
    return np.stack(
        [
            ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a,
            ((a + 2) * t - (a + 3)) * t * t + 1,
            ((a + 2) * (1 - t) - (a + 3)) * (1 - t) * (1 - t) + 1,
            ((a * (2 - t) - 5 * a) * (2 - t) + 8 * a) * (2 - t) - 4 * a,
        ],
        -1,
    )


def cubic_matrix(axis: Axis, mode: str, a: float, exclude_outside: bool) -> Array:
    """Rows of the four neighbours' weights (Keys, with coefficient a); beyond the ends, the end, or nothing."""
    at = coordinates(axis, mode).astype(np.float64)
    low = np.floor(at).astype(np.int64)
    t = at - low
    weights = keys_weights(t, a)
    index = low[:, None] + np.arange(-1, 3)
    if exclude_outside:
        weights = np.where((index >= 0) & (index < axis.extent), weights, 0)
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((axis.out, axis.extent))
    np.add.at(matrix, (np.arange(axis.out)[:, None], np.clip(index, 0, axis.extent - 1)), weights)
    return matrix
