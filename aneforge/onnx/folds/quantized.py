"""Quantized weights: what is stored for them, and what that stands for."""

from __future__ import annotations

import numpy as np

from ..shapes import wrap
from ..tensors import Array, numpy_dtype
from .table import Call, Unfoldable, folds


@folds("DequantizeLinear")
def _dequantize(
    call: Call,
    x: Array,
    scale: Array,
    zero: Array | None = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Array:
    dtype = scale.dtype if not output_dtype else numpy_dtype(output_dtype)
    if dtype is None or dtype.name not in ("float32", "float16") or scale.dtype != dtype:
        raise Unfoldable
    if not (x.dtype.kind in "iu" or x.dtype.name in ("int4", "uint4", "int2", "uint2")):
        raise Unfoldable

    whole = x.astype(np.int64) - (0 if zero is None else _spread(zero.astype(np.int64), x, axis, block_size))
    return np.asarray(whole.astype(np.float32) * _spread(scale, x, axis, block_size).astype(np.float32)).astype(
        dtype, copy=False
    )


def _spread(parameter: Array, x: Array, axis: int, block_size: int) -> Array:
    """A scale or zero point as it stands to x: one, one for each element of an axis, or one for each block."""
    if parameter.size == 1 and parameter.ndim <= 1 and not block_size:
        return parameter.reshape(())
    at = wrap(axis, x.ndim)
    if block_size:
        return np.repeat(parameter, block_size, at)[tuple(slice(0, d) for d in x.shape)]
    return parameter.reshape([-1 if i == at else 1 for i in range(x.ndim)])


@folds("QuantizeLinear")
def _quantize(
    call: Call,
    x: Array,
    scale: Array,
    zero: Array | None = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Array:
    """round(x / scale) + zero point, halves to even, within the type of the zero point (uint8 without one)."""
    dtype = zero.dtype if zero is not None else numpy_dtype(output_dtype) if output_dtype else np.dtype(np.uint8)
    if dtype is None or dtype.name not in ("int8", "uint8", "int16", "uint16") or precision:
        raise Unfoldable
    if x.dtype != np.float32 or scale.dtype != np.float32 or not np.isfinite(x).all():
        raise Unfoldable
    whole = np.rint(x / _spread(scale, x, axis, block_size)).astype(np.float64)
    if zero is not None:
        whole = whole + _spread(zero.astype(np.int64), x, axis, block_size)
    return np.clip(whole, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
