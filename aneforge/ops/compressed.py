"""Weights that stand packed in the blob and are unpacked by the compiler or the engine: all operands are constants.

Spelling and limits on the engine: ane-guide ch. 25, ANEForge 0.4.0. Which encoding is worth it where:
`passes.compress`.
"""

from __future__ import annotations

from ..ir import Tensor, Type
from .base import axis_of, declare, make, whole


def _constant(kind: str, name: str, given: Tensor, *dtypes: str) -> Tensor:
    if not isinstance(given, Tensor) or not given.is_const or given.dtype not in dtypes:
        raise TypeError(f"{kind}: {name} takes a constant of {' or '.join(dtypes)}, not {given!r}")
    return given


@declare
def constexpr_affine_dequantize(quantized_data: Tensor, zero_point: int, scale: Tensor, axis: int) -> Tensor:
    """scale * (quantized_data - zero_point): data int8, one scale for each position of `axis`. The engine of A13 takes
    a zero point of 0 only, and so does this."""
    kind = "constexpr_affine_dequantize"
    data = _constant(kind, "quantized_data", quantized_data, "int8")
    factor = _constant(kind, "scale", scale, "fp16")
    axis = axis_of(kind, "axis", axis, data.rank)
    if whole(kind, "zero_point", zero_point) != 0:
        raise ValueError(f"{kind}: zero_point is 0 on every engine, not {zero_point}")
    if factor.shape != (data.shape[axis],):
        raise ValueError(f"{kind}: scale {factor.shape} is not ({data.shape[axis]},)")
    inputs = {"quantized_data": data, "scale": factor}
    return make(kind, inputs, {"axis": axis, "zero_point": 0}, Type("fp16", data.shape))


@declare
def constexpr_lut_to_dense(indices: Tensor, lut: Tensor, vector_axis: int | None = None) -> Tensor:
    """lut[index]: indices uint4 of the result's shape, one table of 16 entries, [1, …, 1, 16, 1]."""
    kind = "constexpr_lut_to_dense"
    given = _constant(kind, "indices", indices, "uint4")
    table = _constant(kind, "lut", lut, "fp16")
    if vector_axis is not None:
        raise ValueError(f"{kind}: palettes of vectors are not in use")
    if table.shape != (*[1] * given.rank, 16, 1):
        raise ValueError(f"{kind}: lut {table.shape} is not one table of 16 entries for indices {given.shape}")
    return make(kind, {"indices": given, "lut": table}, {}, Type("fp16", given.shape))


@declare
def constexpr_sparse_to_dense(nonzero_data: Tensor, mask: Tensor) -> Tensor:
    """The values of `nonzero_data`, in order, where `mask` (uint1, the result's shape) is 1; 0 elsewhere."""
    kind = "constexpr_sparse_to_dense"
    values = _constant(kind, "nonzero_data", nonzero_data, "fp16")
    places = _constant(kind, "mask", mask, "uint1")
    if values.rank != 1 or values.shape[0] != int((places.value != 0).sum()):
        raise ValueError(f"{kind}: nonzero_data {values.shape} does not fill the ones of mask {places.shape}")
    return make(kind, {"nonzero_data": values, "mask": places}, {}, Type("fp16", places.shape))


@declare
def constexpr_blockwise_shift_scale(data: Tensor, scale: Tensor, offset: Tensor | None = None) -> Tensor:
    """scale[block] * data: data int8; a block is data.shape / scale.shape elements along each axis. On the engine it is
    no operand of a product: add 0 first."""
    kind = "constexpr_blockwise_shift_scale"
    codes = _constant(kind, "data", data, "int8")
    factors = _constant(kind, "scale", scale, "fp16")
    if offset is not None:
        raise ValueError(f"{kind}: only symmetric codes are in use, without offset")
    if factors.rank != codes.rank or any(d % n for d, n in zip(codes.shape, factors.shape, strict=True)):
        raise ValueError(f"{kind}: the blocks of scale {factors.shape} do not divide data {codes.shape}")
    return make(kind, {"data": codes, "scale": factors}, {}, Type("fp16", codes.shape))
