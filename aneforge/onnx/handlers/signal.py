"""Fourier transforms of known length, as products with known matrices, which accumulate wide."""

from __future__ import annotations

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from ..node import Node, finite, whole
from ..registry import Known, onnx_op
from ..sampling import affordable
from ..shapes import wrap
from ..tensors import Array


def _real(matrix: Array) -> Array:
    """A complex matrix [out, in] as one of pairs, [out, 2, in, 2]: (re, im) = (A re - B im, B re + A im)."""
    a, b = matrix.real, matrix.imag
    return np.stack([np.stack([a, -b], -1), np.stack([b, a], -1)], 1)


def _forward(length: int, bins: int, parts: int) -> Array:
    """[bins, 2, length, parts] of the transform of `length` numbers; parts 1 (real) or 2."""
    turn = np.outer(np.arange(bins), np.arange(length)) % length  # exact, whatever the length
    return _real(np.exp(-2j * np.pi * turn / length))[..., :parts]


def _inverse(length: int, bins: int, onesided: bool, parts: int) -> Array:
    """[length, 2 or 1, bins, parts]; onesided: real numbers from the first half of their transform."""
    turn = np.outer(np.arange(length), np.arange(bins)) % length
    matrix = np.exp(2j * np.pi * turn / length) / length
    if onesided:
        twice = np.full(bins, 2.0)  # each stands for its mirror image, but the first and (if even) the middle one
        twice[0] = 1
        if length % 2 == 0 and bins > length // 2:
            twice[length // 2] = 1
        return _real(matrix * twice)[:, :1, :, :parts]
    return _real(matrix)[..., :parts]


def _apply(x: Tensor, at: int, matrix: Array) -> Tensor:
    """matrix [out, q, in, p] on axis `at` (of `in` elements) and the last (of p), which become `out` and q."""
    out, q, n, p = matrix.shape
    affordable(out * q, n * p)
    moved = ops.move_axis(x, at, x.rank - 2)
    lead = moved.shape[:-2]
    flat = ops.reshape_if(moved, (*lead, n * p))
    y = ops.reshape(ops.contract_axis(flat, flat.rank - 1, matrix.reshape(out * q, n * p)), (*lead, out, q))
    return ops.move_axis(y, y.rank - 2, at)


@onnx_op("DFT", since=(17, 20))
def dft(
    node: Node,
    x: Tensor,
    length: Known | None = None,
    given: Known | None = None,
    *,
    axis: int | None = None,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """Real [.., 1] or complex [.., 2]; the axis is an attribute in 17 (default 1), an input from 20 on (default -2).
    Longer signals are cut, shorter ones end in zeros."""
    default = axis if axis is not None else 1 if node.since < 20 else -2
    at = wrap(whole(given, "axis") if given is not None else default, x.rank)
    if x.rank < 2 or at == x.rank - 1 or x.shape[-1] not in (1, 2):
        raise Refused("attribute form", f"a transform of {x.shape} along axis {at}")
    parts, n = x.shape[-1], x.shape[at]
    implied = 2 * (n - 1) if inverse and onesided else n
    count = whole(length, "dft_length") if length is not None else implied
    if not 1 <= count <= 1 << 14 or (onesided and not inverse and parts == 2):
        raise Refused("attribute form", f"a transform of {count} numbers, onesided={onesided}, of {x.shape}")
    bins = count // 2 + 1 if onesided else count
    used = min(n, bins if inverse else count)
    x = ops.slice_axis(x, at, 0, used)
    if inverse:
        return _apply(x, at, _inverse(count, bins, bool(onesided), parts)[:, :, :used])
    return _apply(x, at, _forward(count, bins, parts)[:, :, :used])


@onnx_op("STFT", since=(17,), own_shape=True)
def stft(
    node: Node,
    x: Tensor,
    step: Known,
    window: Known | None = None,
    length: Known | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """Frames of [B, L, 1 or 2], as many as fit, each times the window and transformed: the window is in the matrix."""
    hop = whole(step, "frame_step")
    given = whole(length, "frame_length") if length is not None else None if window is None else window.size
    if given is None or (window is not None and window.shape != (given,)):
        raise Refused("attribute form", "neither a window nor a frame_length, or two that differ")
    if x.rank not in (2, 3) or not 1 <= given <= x.shape[1] or hop < 1:
        raise Refused("attribute form", f"frames of {given} by {hop} of a signal {x.shape}")
    x = x if x.rank == 3 else ops.reshape(x, (*x.shape, 1))
    parts = x.shape[2]
    if parts not in (1, 2) or (onesided and parts == 2):
        raise Refused("attribute form", f"a signal of {parts} parts, onesided={onesided}")
    matrix = _forward(given, given // 2 + 1 if onesided else given, parts)
    if window is not None:
        matrix = matrix * finite(window, "window").astype(np.float64)[:, None]
    frames = _frames(x, given, hop)
    return _apply(frames, 2, matrix)


def _frames(x: Tensor, length: int, hop: int) -> Tensor:
    """[B, L, p] -> [B, frames, length, p]. Where the hop divides the length: hops side by side, else frame by frame."""
    batch, extent, parts = x.shape
    count = (extent - length) // hop + 1
    if length % hop == 0:
        hops = ops.reshape(ops.slice_axis(x, 1, 0, (count - 1) * hop + length), (batch, -1, hop * parts))
        beside = [ops.slice_axis(hops, 1, k, count) for k in range(length // hop)]
        return ops.reshape(ops.concat_any(beside, 2), (batch, count, length, parts))
    if count > 64:
        raise Refused("limit", f"{count} frames of {length} by {hop}, one by one; up to 64 have a form")
    pieces = [ops.slice_axis(x, 1, k * hop, length) for k in range(count)]
    return ops.reshape(ops.concat_any(pieces, 1), (batch, count, length, parts))
