"""The encodings of a weight, in numpy: codes, and what they decode to. Rounding is the engine's: fp16 once, after the
product.

`w` is always fp16 of rank 2 and more, axis 0 the output channels. Rules: ane-guide ch. 25, ANEForge 0.4.0 (symmetric
codes, scale = max|row| / 127).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import ops
from ..ir import Tensor, const

Half = NDArray[np.float16]
ENTRIES = 16
"""Of a palette."""
_ROUNDS = 64  # of Lloyd's iteration; it settles long before
_CHUNK = 1 << 16
_LEAST = np.float16(2.0**-24)


@dataclass(frozen=True)
class Packed:
    """A weight in one encoding: `decoded` is what the engine computes with, `bytes` what the blob holds, `tensor` makes
    the operand."""

    decoded: Half
    bytes: int
    tensor: Callable[[], Tensor]


def int8(w: Half) -> Packed:
    """Codes -127 … 127, a scale for each output channel."""
    rows = w.reshape(w.shape[0], -1)
    scale = _scale(np.abs(rows).max(axis=1))
    codes, decoded = _codes(rows, scale[:, None])
    codes = codes.reshape(w.shape)

    def tensor() -> Tensor:
        return ops.constexpr_affine_dequantize(const(codes, "int8"), 0, const(scale), 0)

    return Packed(decoded.reshape(w.shape), int8_bytes(w), tensor)


def int8_bytes(w: Half) -> int:
    return w.size + 2 * int(w.shape[0])


def blockwise(w: Half, block: int) -> Packed:
    """Codes -127 … 127, a scale for each `block` elements of a row; w of rank 2, `block` divides its rows."""
    parts = w.reshape(w.shape[0], -1, block)
    scale = _scale(np.abs(parts).max(axis=2))
    codes, decoded = _codes(parts, scale[:, :, None])
    codes = codes.reshape(w.shape)

    def tensor() -> Tensor:
        made = ops.constexpr_blockwise_shift_scale(const(codes, "int8"), const(scale))
        return ops.add(made, 0.0)  # the result itself cannot feed a product on the engine

    return Packed(decoded.reshape(w.shape), w.size + 2 * scale.size, tensor)


def int4(w: Half) -> Packed:
    """Indices into one palette, the least squares fit of 16 values to the weight. Exact if it has no more of them."""
    bits = w.view(np.uint16)
    counts = np.bincount(bits.reshape(-1), minlength=1 << 16)
    patterns = np.flatnonzero(counts).astype(np.uint16)
    values = patterns.view(np.float16).astype(np.float64)
    order = np.argsort(values, kind="stable")
    patterns, values = patterns[order], values[order]
    entries = palette(values, counts[patterns].astype(np.float64))
    table = np.zeros(1 << 16, np.uint8)
    table[patterns] = _nearest(entries.astype(np.float64), values)
    indices = table[bits]

    def tensor() -> Tensor:
        return ops.constexpr_lut_to_dense(const(indices, "uint4"), const(entries.reshape(*[1] * w.ndim, ENTRIES, 1)))

    return Packed(entries[indices], int4_bytes(w), tensor)


def int4_bytes(w: Half) -> int:
    return (w.size + 1) // 2 + 2 * ENTRIES


def sparse(w: Half) -> Packed:
    """One bit for each element, and the values that are not 0. Exact."""
    kept = w != 0
    values = w[kept]

    def tensor() -> Tensor:
        return ops.constexpr_sparse_to_dense(const(values), const(kept.view(np.uint8), "uint1"))

    return Packed(np.where(kept, w, np.float16(0)), sparse_bytes(w), tensor)


def sparse_bytes(w: Half) -> int:
    return (w.size + 7) // 8 + 2 * int(np.count_nonzero(w))


def error(decoded: Half, w: Half) -> float:
    """Relative L2 distance."""
    apart = size = 0.0
    a, b = decoded.reshape(-1), w.reshape(-1)
    for at in range(0, w.size, _CHUNK):
        right = b[at : at + _CHUNK].astype(np.float32)
        off = a[at : at + _CHUNK].astype(np.float32) - right
        apart += float(off @ off)
        size += float(right @ right)
    return 0.0 if apart == 0 else float(np.sqrt(apart / size)) if size else np.inf


def palette(values: NDArray[np.float64], counts: NDArray[np.float64]) -> Half:
    """16 sorted values that are near to `values` (sorted, distinct, `counts` times each): Lloyd's iteration from two
    starts."""
    if len(values) <= ENTRIES:
        return np.pad(values, (0, ENTRIES - len(values)), mode="edge").astype(np.float16)
    total, weighted = (np.concatenate([[0.0], np.cumsum(x)]) for x in (counts, counts * values))
    middle = (np.arange(ENTRIES) + 0.5) / ENTRIES
    found: list[tuple[float, Half]] = []
    for start in (
        values[np.searchsorted(total[1:], middle * total[-1]).clip(0, len(values) - 1)],
        values[0] + middle * (values[-1] - values[0]),
    ):
        centers = start.astype(np.float64)
        for _ in range(_ROUNDS):
            ends = [0, *np.searchsorted(values, (centers[1:] + centers[:-1]) / 2), len(values)]
            number, sums = np.diff(total[ends]), np.diff(weighted[ends])
            moved = np.where(number > 0, sums / np.maximum(number, 1.0), centers)
            if np.array_equal(moved, centers):
                break
            centers = moved
        entries = np.sort(centers).astype(np.float16)
        off = entries.astype(np.float64)[_nearest(entries.astype(np.float64), values)] - values
        found.append((float(counts @ (off * off)), entries))
    return min(found, key=lambda pair: pair[0])[1]


def _nearest(entries: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[Any]:
    return np.searchsorted((entries[1:] + entries[:-1]) / 2, values)


def _scale(largest: Half) -> Half:
    """max / 127 in fp16; the least number that fp16 holds where that is 0."""
    return np.maximum((largest.astype(np.float32) / 127).astype(np.float16), _LEAST)


def _codes(parts: Half, scale: Half) -> tuple[NDArray[np.int8], Half]:
    """Codes and what they decode to, row by row: weights are large."""
    codes, decoded = np.empty(parts.shape, np.int8), np.empty(parts.shape, np.float16)
    for i in range(parts.shape[0]):
        wide = scale[i].astype(np.float32)
        rounded = np.rint(parts[i].astype(np.float32) / wide).clip(-127, 127)
        codes[i] = rounded
        decoded[i] = rounded * wide
    return codes, decoded
