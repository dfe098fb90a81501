"""Windows, mel filters, sampling grids, Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..shapes import wrap
from ..tensors import Array, numpy_dtype
from .table import TABLE, Call, Fold, Unfoldable, folds, scalar


def _float_type(number: int) -> np.dtype[Any]:
    dtype = numpy_dtype(number)
    if dtype is None or dtype.name not in ("float32", "float64", "float16", "bfloat16"):
        raise Unfoldable
    return dtype


def _window(*terms: float) -> Fold:
    """Cosine windows: terms[0] - terms[1] cos(2 pi n / N) + terms[2] cos(4 pi n / N)."""

    def run(call: Call, size: Array, output_datatype: int = 1, periodic: int = 1) -> Array:
        count, dtype = int(scalar(size)), _float_type(output_datatype)
        if count < 2:
            raise Unfoldable
        call.affords([count], np.dtype(np.float64))
        turn = 2 * np.pi * np.arange(count) / (count if periodic else count - 1)
        return np.asarray(sum((-1) ** k * a * np.cos(k * turn) for k, a in enumerate(terms))).astype(dtype)

    return run


TABLE["HannWindow"] = _window(0.5, 0.5)
TABLE["HammingWindow"] = _window(25 / 46, 21 / 46)
TABLE["BlackmanWindow"] = _window(0.42, 0.5, 0.08)


@folds("MelWeightMatrix")
def _mel_weights(
    call: Call, bins: Array, length: Array, rate: Array, lower: Array, upper: Array, output_datatype: int = 1
) -> Array:
    """Triangles that are even on the mel scale, [length // 2 + 1, bins]; their corners are whole spectrogram bins."""
    n, dft, hertz = int(scalar(bins)), int(scalar(length)), int(scalar(rate))
    low, high, dtype = float(scalar(lower)), float(scalar(upper)), _float_type(output_datatype)
    rows = dft // 2 + 1
    call.affords([rows, n], np.dtype(np.float64))
    edges = 2595 * np.log10(1 + np.array([low, high]) / 700)
    mel = np.arange(n + 2) * ((edges[1] - edges[0]) / (n + 2)) + edges[0]
    exact = (dft + 1) * 700 * (10 ** (mel / 2595) - 1) / hertz
    if np.any(np.abs(exact - np.rint(exact)) < 1e-4):  # which bin it is, the last bit decides
        near = np.abs(exact - np.rint(exact)) < 1e-9
        if not np.array_equal(np.abs(exact - np.rint(exact)) < 1e-4, near):
            raise Unfoldable
        exact = np.where(near, np.rint(exact), exact)
    corner = np.floor(exact).astype(int)
    if corner.min() < 0 or corner.max() >= rows:
        raise Unfoldable
    out = np.zeros((rows, n))
    for i in range(n):
        left, middle, right = corner[i : i + 3]
        if middle == left:
            out[middle, i] = 1
        else:
            out[left : middle + 1, i] = np.arange(middle - left + 1) / (middle - left)
        if right > middle:
            out[middle:right, i] = np.arange(right - middle, 0, -1) / (right - middle)
    return out.astype(dtype)


@folds("AffineGrid")
def _affine_grid(call: Call, theta: Array, size: Array, align_corners: int = 0) -> Array:
    """theta [N, d, d + 1] applied to the centers (or the corners) of d axes from -1 to 1."""
    extents = [int(d) for d in size[2:]]
    call.affords([theta.shape[0], *extents, len(extents)], np.dtype(np.float64))
    return (base_grid(extents, bool(align_corners)) @ _spread(theta, len(extents))).astype(theta.dtype)


def _spread(theta: Array, axes: int) -> Array:
    if axes not in (2, 3) or theta.shape[1:] != (axes, axes + 1):
        raise Unfoldable
    turned = theta.astype(np.float64).transpose(0, 2, 1)
    return turned.reshape(theta.shape[0], *(1,) * (axes - 1), axes + 1, axes)


def base_grid(extents: Sequence[int], align_corners: bool) -> Array:
    """[*extents, d + 1]: coordinates of each cell, the last axis first, and 1."""
    if align_corners and min(extents) < 2:
        raise Unfoldable
    lines = [np.linspace(-1, 1, d) if align_corners else (2 * np.arange(d) + 1) / d - 1 for d in extents]
    places = np.meshgrid(*lines, indexing="ij")
    return np.stack([*reversed(places), np.ones(list(extents))], -1)


@folds("DFT")
def _dft(
    call: Call,
    x: Array,
    length: Array | None = None,
    given: Array | None = None,
    axis: int | None = None,
    inverse: int = 0,
    onesided: int = 0,
) -> Array:
    """Real [.., 1] or complex [.., 2]; the axis is an attribute in 17 (default 1), an input from 20 on (default -2)."""
    call.only_before(20, axis)
    default = axis if axis is not None else 1 if call.version < 20 else -2
    at = wrap(int(scalar(given)) if given is not None else default, x.ndim)
    if at == x.ndim - 1 or x.shape[-1] not in (1, 2):
        raise Unfoldable
    wide = x.astype(np.float64)
    signal = wide[..., 0] + 1j * wide[..., 1] if x.shape[-1] == 2 else wide[..., 0]
    n = int(scalar(length)) if length is not None else x.shape[at]
    call.affords([x.size // x.shape[at], max(1, n), 2], np.dtype(np.float64))
    if inverse and onesided:
        n = int(scalar(length)) if length is not None else 2 * (x.shape[at] - 1)
        if n < 1:
            raise Unfoldable
        return np.asarray(np.fft.irfft(signal, n, at))[..., None].astype(x.dtype)
    if onesided and x.shape[-1] == 2:
        raise Unfoldable
    made = np.fft.ifft(signal, n, at) if inverse else np.fft.fft(signal, n, at)
    if onesided:
        made = np.take(made, np.arange(n // 2 + 1), at)
    return np.stack([made.real, made.imag], -1).astype(x.dtype)
