"""What the engine's ports make of callers' arrays, computed plainly with NumPy: the expectations of conversion_selftest.cc.

write(path)   a file of cases; each is a header of eight int64, what goes in, and what must come out
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
TO_PORT, FROM_PORT = 0, 1
FLOAT, UINT8, HALF, DOUBLE, BOOL = 1, 2, 10, 11, 9
INTEGERS = {2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 12: np.uint32, 13: np.uint64}
CODES = {
    **{np.dtype(t): c for c, t in INTEGERS.items()},
    np.dtype(np.float32): FLOAT,
    np.dtype(np.float16): HALF,
    np.dtype(np.float64): DOUBLE,
    np.dtype(np.bool_): BOOL,
}
LARGEST = 65504.0
EVERY_HALF = np.arange(65536, dtype=np.uint16)


@dataclass(frozen=True)
class Case:
    what: int
    given: Array
    wanted: Array
    saturated: bool = False
    nonfinite: bool = False
    offset: int = 0  # bytes by which the caller's memory is out of alignment

    def frame(self) -> bytes:
        caller, port = (self.given, self.wanted) if self.what == TO_PORT else (self.wanted, self.given)
        head = (self.what, CODES[caller.dtype], CODES[port.dtype], self.given.size, self.saturated, self.nonfinite)
        return struct.pack("<8q", *head, self.offset, 0) + self.given.tobytes() + self.wanted.tobytes()


def narrowed(x: Array) -> Array:
    """Floats or integers as halves: finite values saturate, then one rounding; a NaN is quiet and keeps its upper bits."""
    with np.errstate(invalid="ignore", over="ignore"):
        wide = x.astype(np.float64)
        bits = np.where(np.isfinite(wide), np.clip(wide, -LARGEST, LARGEST), wide).astype(np.float16).view(np.uint16)
    if x.dtype == np.float32:
        raw = x.view(np.uint32)
        nan = ((raw >> 16) & 0x8000) | 0x7E00 | ((raw >> 13) & 0x3FF)
        bits = np.where(np.isnan(x), nan, bits).astype(np.uint16)
    return bits.view(np.float16)


def widened(halves: Array) -> Array:
    """As floats: exact; a NaN is quiet and keeps its bits."""
    raw = halves.view(np.uint16).astype(np.uint32)
    nan = ((raw & 0x8000) << 16) | 0x7FC00000 | ((raw & 0x3FF) << 13)
    with np.errstate(invalid="ignore"):
        plain = halves.astype(np.float32).view(np.uint32)
    return np.where(np.isnan(halves), nan, plain).astype(np.uint32).view(np.float32)


def into(given: Array, offset: int = 0) -> Case:
    """Into a port of halves."""
    wanted = given if given.dtype == np.float16 else narrowed(given)
    with np.errstate(invalid="ignore"):
        wide = given.astype(np.float64)
    finite = np.isfinite(wide)
    saturated = bool((np.abs(wide[finite]) > LARGEST).any())
    return Case(TO_PORT, given, wanted, saturated, not finite.all(), offset)


def into_bytes(given: Array) -> Case:
    if given.dtype == np.bool_:
        return Case(TO_PORT, given, given.astype(np.uint8))
    low = given < 0 if given.dtype.kind == "i" else np.zeros(given.shape, bool)
    high = given > 255 if given.dtype.itemsize > 1 else np.zeros(given.shape, bool)
    wanted = np.where(low, 0, np.where(high, 255, given)).astype(np.uint8)
    return Case(TO_PORT, given, wanted, bool((low | high).any()))


def out_of(halves: Array, dtype: Any, offset: int = 0) -> Case:
    """Out of a port of halves: integers towards zero, saturating, NaN 0."""
    wide = halves.astype(np.float64)
    if dtype == np.float32:
        wanted = widened(halves)
    elif dtype == np.float16:
        wanted = halves
    elif dtype == np.float64:
        wanted = widened(halves).astype(np.float64)
    elif dtype == np.bool_:
        wanted = wide != 0
    else:
        info = np.iinfo(dtype)
        with np.errstate(invalid="ignore"):
            plain = np.trunc(np.nan_to_num(np.clip(wide, -70000, 70000))).astype(np.int64)
        wanted = np.clip(plain, max(info.min, -(2**62)), min(info.max, 2**62)).astype(dtype)
        wanted = np.where(np.isposinf(wide), info.max, np.where(np.isneginf(wide), info.min, wanted)).astype(dtype)
    return Case(FROM_PORT, halves, wanted, False, not np.isfinite(wide).all(), offset)


def cases() -> Iterator[Case]:
    draw = np.random.default_rng(1)
    halves = EVERY_HALF.view(np.float16)
    finite = halves[np.isfinite(halves)]
    ordered = np.sort(finite.astype(np.float32))
    ties = (ordered[:-1] + ordered[1:]) / 2  # exact, and so are their neighbours
    every_float = draw.integers(0, 2**32, 300_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    within = (draw.standard_normal(100_000) * np.exp2(draw.uniform(-30, 13, 100_000))).astype(np.float32)
    within = within[np.abs(within) <= LARGEST]
    yield from (into(x) for x in (widened(halves), widened(finite), ties, every_float, within))
    yield from (into(np.nextafter(ties, np.float32(way))) for way in (-np.inf, np.inf))
    for place in (0, 17, 4095, 4096, 70_001, within.size - 1):  # one value among many that are ordinary
        for value in (65504, 65504.004, -1e5, np.inf, -np.inf, np.nan):
            yield into(np.where(np.arange(within.size) == place, np.float32(value), within))
    for size in range(70):
        for offset in (0, 1, 2, 4):
            yield into(within[size : 2 * size], offset)
            yield out_of(finite[size : 2 * size], np.float32, offset)
    for dtype in (np.float32, np.float16, np.float64, np.bool_, *INTEGERS.values()):
        for x in (halves, finite, finite[1:77], finite[np.abs(finite) < 1]):
            yield out_of(x, dtype)
        for place in (0, 5, 4096, finite.size - 1):
            yield out_of(np.where(np.arange(finite.size) == place, np.float16(np.inf), finite), dtype, 1)
    yield into(halves)
    yield into(finite, 1)
    doubles = np.concatenate(
        [within.astype(np.float64) * (1 + 2.0**-40), ties, [1e300, -1e300, 65504.0000001, 2.0**-25]]
    )
    yield from (into(x) for x in (doubles, np.array([np.inf, -np.inf, 1.0]), ties.astype(np.float64), within[:9] * 1.0))
    logic = draw.random(100_003) < 0.5
    yield from (into(logic), into(logic[:5], 1), into_bytes(logic))
    for dtype in INTEGERS.values():
        info = np.iinfo(dtype)
        small = draw.integers(max(info.min, -2048), min(info.max, 2048), 50_021, endpoint=True).astype(dtype)
        large = draw.integers(info.min, info.max, 50_021, dtype=dtype, endpoint=True)
        for x in (small, large, small[:3], np.array([info.min, info.max], dtype)):
            yield into(x)
            yield into_bytes(x)


def write(path: Path) -> int:
    """How many cases the file holds."""
    count = 0
    with path.open("wb") as file:
        for case in cases():
            file.write(case.frame())
            count += 1
    return count
