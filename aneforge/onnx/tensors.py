"""TensorProto -> numpy. External data is mapped, never copied, and never read from outside the model's folder."""

from __future__ import annotations

import ctypes
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from ..errors import ModelError

Array = np.ndarray[Any, np.dtype[Any]]

# Types whose raw bytes numpy reads as they stand. The others (strings, bfloat16, float8, int4, …) go through onnx.
_PLAIN: dict[int, np.dtype[Any]] = {
    TensorProto.FLOAT: np.dtype("<f4"),
    TensorProto.DOUBLE: np.dtype("<f8"),
    TensorProto.FLOAT16: np.dtype("<f2"),
    TensorProto.INT64: np.dtype("<i8"),
    TensorProto.INT32: np.dtype("<i4"),
    TensorProto.INT16: np.dtype("<i2"),
    TensorProto.INT8: np.dtype("i1"),
    TensorProto.UINT64: np.dtype("<u8"),
    TensorProto.UINT32: np.dtype("<u4"),
    TensorProto.UINT16: np.dtype("<u2"),
    TensorProto.UINT8: np.dtype("u1"),
    TensorProto.BOOL: np.dtype("?"),
}


def numpy_dtype(onnx_type: int) -> np.dtype[Any] | None:
    """The numpy dtype of a TensorProto.DataType; None for undefined or unknown numbers. Strings are object arrays."""
    if onnx_type in _PLAIN:
        return _PLAIN[onnx_type].newbyteorder("=")
    if onnx_type == TensorProto.STRING:
        return np.dtype(object)
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(onnx_type))
    except (KeyError, TypeError, ValueError):
        return None
    return None if dtype in _PLAIN.values() else dtype  # before 1.17, onnx called bfloat16 a float32


@dataclass(frozen=True)
class External:
    """Where external data may come from: a folder, the memory of this process (location "@mem"), or nowhere."""

    folder: str | None = None
    memory: bool = False


def to_array(tensor: onnx.TensorProto, external: External) -> Array:
    """The values of a tensor.

    Raises:
        ModelError: data and shape disagree, the type is unknown, or external data is missing, too short, or lies
            outside the model's folder.
    """
    shape = tuple(tensor.dims)
    if any(d < 0 for d in shape):
        raise ModelError(f"tensor {tensor.name!r} has the negative extent {min(shape)}")
    if tensor.data_location == TensorProto.EXTERNAL:
        return _external(tensor, shape, external)
    plain = _PLAIN.get(tensor.data_type)
    raw = tensor.raw_data if plain is not None and tensor.HasField("raw_data") else b""
    if plain is not None and raw:
        if len(raw) != math.prod(shape) * plain.itemsize:
            raise ModelError(_size(tensor, math.prod(shape) * plain.itemsize, len(raw)))
        return np.frombuffer(raw, plain).reshape(shape)
    try:
        array: Array = np.asarray(numpy_helper.to_array(tensor))
        return array.reshape(shape)
    except (ValueError, TypeError, KeyError) as e:
        raise ModelError(f"tensor {tensor.name!r} cannot be read: {e}") from e


def _size(tensor: onnx.TensorProto, need: int, have: int) -> str:
    return f"tensor {tensor.name!r} of shape {list(tensor.dims)} needs {need} bytes, but has {have}"


def _external(tensor: onnx.TensorProto, shape: tuple[int, ...], external: External) -> Array:
    info = {entry.key: entry.value for entry in tensor.external_data}
    location = info.get("location", "")
    offset, length = _whole(tensor, info, "offset") or 0, _whole(tensor, info, "length")
    plain = _PLAIN.get(tensor.data_type)
    bits = 8 * plain.itemsize if plain is not None else _bits(tensor)
    need = -(-math.prod(shape) * bits // 8)
    if length is not None and length < need:
        raise ModelError(_size(tensor, need, length))
    if external.memory and location == "@mem":
        if need == 0:
            return np.empty(shape, plain)
        data: Any = (ctypes.c_char * need).from_address(offset)
    else:
        data = _file(tensor, location, offset, need, external.folder)
    if plain is not None:
        array = np.frombuffer(data, plain, count=math.prod(shape)).reshape(shape)
        return array if array.flags.aligned else array.copy()
    inner = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=shape, raw_data=bytes(data))
    return to_array(inner, External())


def _bits(tensor: onnx.TensorProto) -> int:
    """Bits of an element of a type that numpy does not have; four-bit and two-bit ones are packed."""
    if tensor.data_type not in TensorProto.DataType.values():
        raise ModelError(f"tensor {tensor.name!r} is of the unknown type {tensor.data_type}")
    name = TensorProto.DataType.Name(tensor.data_type)
    if name in ("INT4", "UINT4", "FLOAT4E2M1"):
        return 4
    if name in ("INT2", "UINT2"):
        return 2
    dtype = numpy_dtype(tensor.data_type)
    if dtype is None or dtype == np.dtype(object):
        raise ModelError(f"tensor {tensor.name!r} of type {name} cannot have external data")
    return 8 * dtype.itemsize


def _whole(tensor: onnx.TensorProto, info: dict[str, str], key: str) -> int | None:
    if key not in info:
        return None
    if not info[key].isdigit():
        raise ModelError(f"external data of tensor {tensor.name!r}: {key} is {info[key]!r}, not a whole number")
    return int(info[key])


def _file(tensor: onnx.TensorProto, location: str, offset: int, need: int, folder: str | None) -> Any:
    """The bytes [offset, offset + need) of a file in the model's folder, mapped."""
    what = f"external data of tensor {tensor.name!r}"
    if folder is None:
        raise ModelError(f"{what} is in the file {location!r}, and a model given as bytes has no folder: pass its path")
    if not location or os.path.isabs(location) or "\0" in location:
        raise ModelError(f"{what}: the path {location!r} is not relative to the model's folder")
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, location))
    if os.path.commonpath([root, path]) != root:
        raise ModelError(f"{what}: the path {location!r} leaves the model's folder {folder!r}")
    try:
        size = os.stat(path).st_size
    except OSError as e:
        raise ModelError(f"{what}: cannot read {path!r}: {e.strerror}") from e
    if not os.path.isfile(path):
        raise ModelError(f"{what}: {path!r} is not a file")
    if offset + need > size:
        raise ModelError(f"{what}: needs the bytes {offset} to {offset + need} of {path!r}, which has only {size}")
    if need == 0:
        return b""
    try:
        return np.memmap(path, np.uint8, "r", offset, (need,))
    except (OSError, ValueError) as e:
        raise ModelError(f"{what}: cannot read {path!r}: {e}") from e
