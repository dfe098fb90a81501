"""Weights in fewer bytes, element by element as MIL defines them."""

import numpy as np

from .registry import Takes, operation, require

_FLOAT = Takes(frozenset({"float"}), constant=True)
_INT8 = Takes(frozenset({"int8"}), constant=True)
_UINT4 = Takes(frozenset({"uint4"}), constant=True)
_UINT1 = Takes(frozenset({"uint1"}), constant=True)
_ZERO = Takes(frozenset({"int8"}), rank=0, constant=True)
_AXIS = Takes(frozenset({"int32"}), rank=0, constant=True)


@operation
def constexpr_affine_dequantize(quantized_data: _INT8, zero_point: _ZERO, scale: _FLOAT, axis: _AXIS):
    require(scale.shape == (quantized_data.shape[axis],), "scale has one value for each position of axis")
    shape = [1] * quantized_data.ndim
    shape[axis] = -1
    return (quantized_data.astype(np.float64) - zero_point) * scale.reshape(shape)


@operation
def constexpr_lut_to_dense(indices: _UINT4, lut: _FLOAT):
    require(lut.shape == (1,) * indices.ndim + (16, 1), "lut is one table of 16 scalars, two axes more than indices")
    return lut.reshape(16)[indices]


@operation
def constexpr_sparse_to_dense(nonzero_data: _FLOAT, mask: _UINT1):
    require(nonzero_data.shape == (int(mask.sum()),), "nonzero_data fills the ones of mask")
    out = np.zeros(mask.size)
    out[np.flatnonzero(mask)] = nonzero_data
    return out.reshape(mask.shape)


@operation
def constexpr_blockwise_shift_scale(data: _INT8, scale: _FLOAT):
    require(data.ndim == scale.ndim, "scale has the rank of data")
    factor = scale
    for axis, (extent, count) in enumerate(zip(data.shape, scale.shape, strict=True)):
        require(extent % count == 0, "blocks divide every axis")
        factor = factor.repeat(extent // count, axis)
    return data * factor
