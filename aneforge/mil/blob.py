"""The weight container ("blob v2") that constants point into, and the narrowing of floats.

Layout: coremltools' `mlmodel/src/MILBlob/Blob/StorageFormat.hpp`; byte for byte what its writer makes. A header of 64
bytes (number of records, version 2), then for each record 64 bytes of description at a multiple of 64, followed by its
data. Little-endian.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InternalError
from ..ir import Tensor

ALIGNMENT = 64
VERSION = 2
SENTINEL = 0xDEADBEEF
# dtype -> code in the record
CODES = {
    "fp16": 1, "fp32": 2, "uint8": 3, "int8": 4, "int16": 6, "uint16": 7, "uint1": 9, "uint4": 11, "int32": 14, "uint32": 15,
}  # fmt: skip
NUMPY: dict[str, np.dtype[Any]] = {
    "fp16": np.dtype("<f2"),
    "fp32": np.dtype("<f4"),
    "bool": np.dtype("?"),
    "uint8": np.dtype("u1"),
    "int8": np.dtype("i1"),
    "uint16": np.dtype("<u2"),
    "int16": np.dtype("<i2"),
    "uint32": np.dtype("<u4"),
    "int32": np.dtype("<i4"),
}
BITS = {"uint1": 1, "uint4": 4}
"""Elements below a byte: in arrays a byte each, in the container one after another from the least significant bit up."""
_CHUNK = 1 << 16  # elements converted at once: what a cache holds


class Blob:
    """The container of some constants, laid out when it is made and filled by `buffer`, from the sources directly.

    `constants` are (key, dtype, array). Constants of equal bytes share a record; records stand in the order given.
    """

    def __init__(self, constants: Iterable[tuple[Tensor, str, NDArray[Any]]]) -> None:
        self._offsets: dict[Tensor, int] = {}
        self._records: list[tuple[int, str, NDArray[Any]]] = []
        known: dict[tuple[Any, ...], list[int]] = {}
        end = ALIGNMENT
        for key, dtype, array in constants:
            alike = known.setdefault((dtype, array.dtype.str, array.shape, _sample(array)), [])
            for index in alike:
                if _same_bytes(self._records[index][2], array):
                    self._offsets[key] = self._records[index][0]
                    break
            else:
                offset = -(-end // ALIGNMENT) * ALIGNMENT
                alike.append(len(self._records))
                self._records.append((offset, dtype, array))
                self._offsets[key] = offset
                end = offset + ALIGNMENT + stored_bytes(array.size, dtype)
        self._size = end

    def offset(self, key: Tensor) -> int:
        """Offset of the record of a constant: what BLOBFILE(offset = …) holds."""
        return self._offsets[key]

    def buffer(self) -> memoryview:
        """The whole container, read-only. The constants are converted on the way, with no copy in between."""
        whole = np.zeros(self._size, np.uint8)  # untouched pages cost nothing until they are written
        struct.pack_into("<II", whole.data, 0, len(self._records), VERSION)
        for offset, dtype, array in self._records:
            start = offset + ALIGNMENT
            data = whole[start : start + stored_bytes(array.size, dtype)]
            unused = 8 * data.nbytes - array.size * BITS[dtype] if dtype in BITS else 0
            struct.pack_into("<IIQQQ", whole.data, offset, SENTINEL, CODES[dtype], data.nbytes, start, unused)
            if dtype in BITS:
                _pack(data, array, BITS[dtype])
            else:
                _fill(data.view(NUMPY[dtype]).reshape(array.shape), array)
        whole.flags.writeable = False
        return whole.data


def stored_bytes(count: int, dtype: str) -> int:
    """Bytes of so many elements in the container."""
    return (count * BITS[dtype] + 7) // 8 if dtype in BITS else count * NUMPY[dtype].itemsize


def _pack(out: NDArray[np.uint8], source: NDArray[Any], bits: int) -> None:
    """Elements of 1 or 4 bits, the first in the lowest."""
    flat = source.reshape(-1)
    if flat.dtype != np.uint8 or (flat.size and flat.max() >> bits):
        raise InternalError(f"a constant of {source.dtype} does not fit {bits} bits")
    if bits == 1:
        out[...] = np.packbits(flat, bitorder="little")
    else:
        out[...] = flat[::2]
        out[: flat.size // 2] |= flat[1::2] << 4


def narrow(array: NDArray[Any], dtype: str, *, guards: bool = False) -> NDArray[Any]:
    """`array` as `dtype`. Floats round to nearest even; finite ones beyond the range become its largest value.

    With `guards`, none becomes 0: an epsilon of 1e-12 stays above it, as the least number that the type holds.
    """
    out = np.empty(array.shape, NUMPY[dtype])
    _fill(out, array)
    if guards and out.dtype.kind == "f":
        lost = (out == 0) & (array != 0)
        if lost.any():
            least = np.finfo(out.dtype).smallest_subnormal
            np.copyto(out, np.where(array > 0, least, -least), where=lost)
    return out


def _fill(out: NDArray[Any], source: NDArray[Any]) -> None:
    """Writes `source` into `out`, which has its shape, converting piece by piece."""
    if out.dtype.kind != "f":
        if source.dtype.kind == "f" or (source.dtype.kind == "b") != (out.dtype.kind == "b"):
            raise InternalError(f"a constant of {source.dtype} is declared {out.dtype}")
        if out.size and out.dtype.kind in "iu" and not np.can_cast(source.dtype, out.dtype):
            limits = np.iinfo(out.dtype)
            if source.min() < limits.min or source.max() > limits.max:
                raise InternalError(f"a constant of {source.dtype} does not fit {out.dtype}")
        out[...] = source
        return
    shrinks = out.dtype.itemsize < source.dtype.itemsize or source.dtype.kind != "f"
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for to, of in _pieces(out, source):
            to[...] = of
            if shrinks:
                _saturate(to, of)


def _pieces(out: NDArray[Any], source: NDArray[Any]) -> Iterable[tuple[NDArray[Any], NDArray[Any]]]:
    """Matching parts of both arrays, of a size that a cache holds as far as the layout allows."""
    if source.flags.c_contiguous:
        flat_out, flat_source = out.reshape(-1), source.reshape(-1)
        for at in range(0, out.size, _CHUNK):
            yield flat_out[at : at + _CHUNK], flat_source[at : at + _CHUNK]
    elif source.ndim > 1 and source.size > _CHUNK:
        for i in range(source.shape[0]):
            yield out[i], source[i]
    else:
        yield out, source


def _saturate(out: NDArray[Any], source: NDArray[Any]) -> None:
    if out.dtype == NUMPY["fp16"] and out.flags.c_contiguous:
        # numpy's isfinite takes as long as the conversion; the exponents are looked at as integers
        if out.size == 0 or (out.view(np.uint16) & 0x7FFF).max() < 0x7C00:
            return
    elif np.isfinite(out).all():
        return
    lost = np.isinf(out) & np.isfinite(source)
    limit = np.finfo(out.dtype).max
    np.copyto(out, np.where(out > 0, limit, -limit), where=lost)


def _sample(array: NDArray[Any]) -> bytes:
    """A few elements spread over the array: arrays that differ here need not be compared."""
    return array[tuple([slice(None, None, max(1, d // 4)) for d in array.shape])].tobytes()


def _same_bytes(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Bit by bit: 0 and -0 differ, a NaN equals itself. Both have one dtype and shape."""
    if a is b:
        return True
    bits = np.dtype(f"u{a.dtype.itemsize}")
    return bool(np.array_equal(a.view(bits), b.view(bits)))


assert sys.byteorder == "little", "the container is little-endian, and so is every machine that this runs on"
