"""Indexed reads and writes. No engine takes them as text; declared so that a program can say what it means.

`gather_constant` is the form for indices that are known.
"""

from __future__ import annotations

import math

from ..ir import Tensor, Type
from .base import Operand, axis_of, declare, make, one_of, operand, tensor, whole


def _indices(kind: str, given: Operand) -> Tensor:
    out = operand(kind, "indices", given, "int32")
    if out.dtype not in ("int32", "int16", "uint16", "int8", "uint8"):
        raise TypeError(f"{kind}: indices are whole numbers, not {out.type}")
    return out


@declare
def gather(x: Tensor, indices: Operand, axis: int = 0, batch_dims: int = 0, validate_indices: bool = False) -> Tensor:
    """x.shape[:axis] + indices.shape[batch_dims:] + x.shape[axis + 1:]."""
    at, ids = axis_of("gather", "axis", axis, tensor("gather", "x", x).rank), _indices("gather", indices)
    lead = whole("gather", "batch_dims", batch_dims)
    if not 0 <= lead <= min(at, ids.rank) or ids.shape[:lead] != x.shape[:lead]:
        raise ValueError(f"gather: batch_dims {lead} do not fit x {x.shape}, indices {ids.shape}, axis {at}")
    shape = (*x.shape[:at], *ids.shape[lead:], *x.shape[at + 1 :])
    params = {"axis": at, "batch_dims": lead, "validate_indices": bool(validate_indices)}
    return make("gather", {"x": x, "indices": ids}, params, Type(x.dtype, shape))


@declare
def gather_along_axis(x: Tensor, indices: Operand, axis: int = 0, validate_indices: bool = False) -> Tensor:
    """numpy's take_along_axis: ONNX GatherElements."""
    kind = "gather_along_axis"
    at, ids = axis_of(kind, "axis", axis, tensor(kind, "x", x).rank), _indices(kind, indices)
    if ids.rank != x.rank:
        raise ValueError(f"{kind}: indices {ids.shape} have the rank of x {x.shape}")
    return make(
        kind,
        {"x": x, "indices": ids},
        {"axis": at, "validate_indices": bool(validate_indices)},
        Type(x.dtype, ids.shape),
    )


@declare
def gather_nd(x: Tensor, indices: Operand, batch_dims: int = 0, validate_indices: bool = False) -> Tensor:
    """indices.shape[:-1] + x.shape[batch_dims + indices.shape[-1]:]."""
    ids, lead = _indices("gather_nd", indices), whole("gather_nd", "batch_dims", batch_dims)
    tensor("gather_nd", "x", x)
    if not ids.rank or lead + ids.shape[-1] > x.rank or ids.shape[:lead] != x.shape[:lead]:
        raise ValueError(f"gather_nd: indices {ids.shape} with batch_dims {lead} do not fit x {x.shape}")
    shape = (*ids.shape[:-1], *x.shape[lead + ids.shape[-1] :])
    params = {"batch_dims": lead, "validate_indices": bool(validate_indices)}
    return make("gather_nd", {"x": x, "indices": ids}, params, Type(x.dtype, shape))


_MODES = ("add", "div", "max", "min", "mul", "sub", "update")


def _scatter(kind: str, data: Tensor, indices: Operand, updates: Operand, axis: int, mode: str) -> Tensor:
    at, ids = axis_of(kind, "axis", axis, tensor(kind, "data", data).rank), _indices(kind, indices)
    new = operand(kind, "updates", updates, data.dtype)
    one_of(kind, "mode", mode, _MODES)
    params = {"axis": at, "mode": mode, "validate_indices": False}
    return make(kind, {"data": data, "indices": ids, "updates": new}, params, data.type)


@declare
def scatter(
    data: Tensor, indices: Operand, updates: Operand, axis: int = 0, mode: str = "add", validate_indices: bool = False
) -> Tensor:
    """data with whole slices along `axis` written at `indices`."""
    return _scatter("scatter", data, indices, updates, axis, mode)


@declare
def scatter_along_axis(
    data: Tensor, indices: Operand, updates: Operand, axis: int = 0, mode: str = "add", validate_indices: bool = False
) -> Tensor:
    """ONNX ScatterElements."""
    return _scatter("scatter_along_axis", data, indices, updates, axis, mode)


@declare
def scatter_nd(
    data: Tensor, indices: Operand, updates: Operand, mode: str = "add", validate_indices: bool = False
) -> Tensor:
    """ONNX ScatterND."""
    kind = "scatter_nd"
    ids, new = _indices(kind, indices), operand(kind, "updates", updates, tensor(kind, "data", data).dtype)
    params = {"mode": one_of(kind, "mode", mode, _MODES), "validate_indices": False}
    return make(kind, {"data": data, "indices": ids, "updates": new}, params, data.type)


@declare
def one_hot(
    indices: Operand, one_hot_vector_size: int, axis: int = -1, on_value: float = 1.0, off_value: float = 0.0
) -> Tensor:
    """indices.shape with the vector inserted at `axis`."""
    ids, size = _indices("one_hot", indices), whole("one_hot", "one_hot_vector_size", one_hot_vector_size)
    at = axis_of("one_hot", "axis", axis, ids.rank + 1)
    shape = (*ids.shape[:at], size, *ids.shape[at:])
    params = {"one_hot_vector_size": size, "axis": at, "on_value": float(on_value), "off_value": float(off_value)}
    if not math.isfinite(on_value) or not math.isfinite(off_value):
        raise ValueError("one_hot: values are finite")
    return make("one_hot", {"indices": ids}, params, Type("fp16", shape))
