"""QuantizeLinear, DequantizeLinear and the operators between integer codes.

Codes of 8 bits are whole fp16 numbers. What an operator computes from codes follows the text of ONNX, but for the last
bit of x / scale: a value in the middle between two codes may become either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor, const
from .. import ranges
from ..node import FLOATS, Node
from ..ranges import Range
from ..registry import Any_, Known, Number, onnx_op
from ..shapes import wrap
from ..tensors import Array, numpy_dtype
from .convolution import conv
from .product import product

CODES = ("uint8", "int8")
MS = "com.microsoft"
WHOLE_LIMIT = 32000.0
"""Sums of products up to here pass the accumulator (Q04)."""


@dataclass(frozen=True)
class Grid:
    """Scale and zero point, of one shape, which broadcasts to the tensor; the type of the codes."""

    scale: np.ndarray[Any, np.dtype[np.float64]]
    zero: np.ndarray[Any, np.dtype[np.float64]]
    dtype: np.dtype[Any]

    @property
    def codes(self) -> Range:
        return ranges.of_dtype(self.dtype) or (0, 0)

    @property
    def differences(self) -> Range:
        """What code - zero point lies in."""
        low, high = self.codes
        return low - float(self.zero.max()), high - float(self.zero.min())

    def mark(self, node: Node, y: Tensor) -> Tensor:
        """Notes that a result holds codes of this grid."""
        node.made[y] = self.dtype
        return node.prove(y, self.codes)


def grid(scale: Array, zero: Array | None, dtype: np.dtype[Any], shape: Sequence[int], axis: int, block: int) -> Grid:
    """The parameters of a tensor of `shape`: one for all, one for each place of `axis`, or one for a block of them.

    Raises:
        Refused: they do not fit, or are not what they should be."""
    if scale.dtype.name not in FLOATS:
        raise Refused("data type", f"a scale of {scale.dtype.name}")
    if dtype.name not in CODES:
        raise Refused("data type", f"codes of {dtype.name}; those of 8 bits are whole numbers of fp16")
    if zero is not None and (zero.dtype != dtype or zero.shape != scale.shape):
        raise Refused(
            "attribute form", f"a zero point {zero.dtype}{list(zero.shape)} beside {dtype}{list(scale.shape)}"
        )
    sizes = scale.astype(np.float64)
    if sizes.size == 0 or not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise Refused("no engine form", "a scale that is not positive")
    zeros = np.zeros_like(sizes) if zero is None else zero.astype(np.float64)
    return Grid(_spread(sizes, shape, axis, block), _spread(zeros, shape, axis, block), dtype)


def _spread(given: Array, shape: Sequence[int], axis: int, block: int) -> Array:
    if block:
        at = wrap(axis, len(shape))
        want = tuple(-(-d // block) if i == at else d for i, d in enumerate(shape))
        if given.shape != want or block < 0:
            raise Refused("attribute form", f"parameters of shape {given.shape} for blocks of {block} of {list(shape)}")
        spread: Array = np.repeat(given, block, at)[tuple(slice(0, d) for d in shape)]
        return spread
    if given.size == 1 and given.ndim <= 1:
        return given.reshape(())
    if given.ndim != 1 or not shape or given.size != shape[wrap(axis, len(shape))]:
        raise Refused("attribute form", f"parameters of shape {given.shape} for axis {axis} of {list(shape)}")
    at = wrap(axis, len(shape))
    return given.reshape([-1 if i == at else 1 for i in range(len(shape))])


# ---------------------------------------------------------------- floats to codes, and back


def codes(node: Node, steps: Tensor, g: Grid) -> Tensor:
    """The codes of what counts in steps."""
    low, high = g.codes
    return g.mark(node, ops.on_grid(steps, g.zero, int(low), int(high)))


def _quantize(node: Node, x: Tensor, g: Grid) -> Tensor:
    low, high = g.codes
    return g.mark(node, ops.quantize(x, g.scale, g.zero, int(low), int(high)))


@onnx_op("QuantizeLinear", since=(10, 13, 19, 21, 23, 24, 25, 28), ignores=("saturate",))
def quantize_linear(
    node: Node,
    x: Number,
    scale: Known,
    zero: Known | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
) -> Tensor:
    """saturate(round(x / scale) + zero point), halves to even. Without a zero point: unsigned bytes."""
    if precision not in (0, 1):
        raise Refused("attribute form", f"precision {precision}: the engine divides in fp16")
    dtype = zero.dtype if zero is not None else numpy_dtype(output_dtype) if output_dtype else np.dtype(np.uint8)
    if dtype is None or (output_dtype and dtype != numpy_dtype(output_dtype)):
        raise Refused("attribute form", f"output_dtype {output_dtype} beside a zero point of {dtype}")
    return _quantize(node, x, grid(scale, zero, dtype, x.shape, axis, block_size))


@onnx_op("DequantizeLinear", since=(10, 13, 19, 21, 23, 24, 25, 28))
def dequantize_linear(
    node: Node,
    x: Any_,
    scale: Known,
    zero: Known | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """(x - zero point) * scale."""
    given = node.dtype(0)
    made = numpy_dtype(output_dtype) if output_dtype else scale.dtype
    if given is None or made is None or made.name not in FLOATS:
        raise Refused("data type", f"from {given} to {made}")
    code = node.count(0)
    sizes = scale.astype(np.float64)
    if given.name not in CODES:  # int32, of a proved range; there is no zero point
        if zero is not None and zero.any():
            raise Refused("attribute form", f"a zero point for {given}")
        zero, given = None, np.dtype(np.int8)
    g = grid(scale, zero, given, code.shape, axis, block_size)
    span = ranges.mul(
        ranges.sub(node.range(0) or g.codes, (float(g.zero.min()), float(g.zero.max()))),
        (float(sizes.min()), float(sizes.max())),
    )
    return node.prove(ops.dequantize(code, g.scale, g.zero), ranges.blurred(span, ranges.size(span)))


@onnx_op("QuantizeLinear", since=(1,), domain=MS)
def quantize_linear_ms(node: Node, x: Number, scale: Known, zero: Known | None = None, *, axis: int = 1) -> Tensor:
    dtype = np.dtype(np.uint8) if zero is None else zero.dtype
    return _quantize(node, x, grid(scale, zero, dtype, x.shape, axis, 0))


@onnx_op("DequantizeLinear", since=(1,), domain=MS)
def dequantize_linear_ms(node: Node, x: Any_, scale: Known, zero: Known | None = None, *, axis: int = 1) -> Tensor:
    result: Tensor = dequantize_linear(node, x, scale, zero, axis=axis)
    return result


@onnx_op("DynamicQuantizeLinear", since=(11,))
def dynamic_quantize_linear(node: Node, x: Tensor) -> Tensor:
    """A step is a 255th of the range of x: that extremes are in the middle of two codes is the rule, not the exception."""
    raise Refused("no engine form", "DynamicQuantizeLinear: fp16 does not tell on which side of a code's edge x lies")


# ---------------------------------------------------------------- products of codes


@dataclass(frozen=True)
class Operand:
    """A code tensor minus its zero point, and the greatest size of that."""

    value: Tensor
    most: float
    scale: np.ndarray[Any, np.dtype[np.float64]]


def operand(node: Node, i: int, axis: int) -> Operand:
    """Inputs i, i + 1, i + 2: codes, scale, zero point."""
    code = node.count(i)
    dtype = node.dtype(i)
    g = grid(node.known(i + 1), node.known(i + 2), dtype or np.dtype(object), code.shape, axis, 0)
    span = ranges.sub(node.range(i) or g.codes, (float(g.zero.min()), float(g.zero.max())))
    value = code if not g.zero.any() else ops.sub(code, g.zero)
    if code.is_const:
        value = const(code.value.astype(np.float64) - g.zero)
    return Operand(value, ranges.size(span), g.scale)


def shrink(bound: float) -> float:
    """A power of two that brings sums up to `bound` below the accumulator's limit; codes times it are exact."""
    return 2.0 ** -min(14, max(0, math.ceil(math.log2(max(bound, 1.0) / WHOLE_LIMIT))))


@onnx_op("QLinearConv", since=(10,))
def qlinear_conv(
    node: Node,
    x: Any_,
    x_scale: Known,
    x_zero: Known,
    w: Known,
    w_scale: Known,
    w_zero: Known,
    y_scale: Known,
    y_zero: Known,
    bias: Known | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """The products and sums of codes are exact in the accumulator; the sum is rounded to fp16 once, and so is its
    quotient."""
    a, b = operand(node, 0, 1), operand(node, 3, 0)
    if a.scale.size != 1:
        raise Refused("attribute form", "an input with several scales")
    if w.ndim != a.value.rank:
        raise Refused("attribute form", f"a weight of shape {w.shape} for an input of shape {a.value.shape}")
    weight = b.value.value
    offset = np.zeros(w.shape[0]) if bias is None else bias.astype(np.float64)
    if offset.shape != (w.shape[0],):
        raise Refused("attribute form", f"a bias of shape {offset.shape} for {w.shape[0]} channels")
    sums = np.abs(weight).sum(axis=tuple(range(1, w.ndim)))
    small = shrink(float((sums * a.most + np.abs(offset)).max()))
    out = grid(y_scale, y_zero, y_zero.dtype, (), 0, 0)
    factor = a.scale.reshape(()) * b.scale.reshape(-1) / out.scale
    demand_fine(float((np.abs(offset) * factor).max()))
    y: Tensor = conv(
        node,
        a.value,
        weight * small,
        None if bias is None else offset * small,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    return codes(node, ops.scaled(y, (factor / small).reshape(-1, *(1,) * (w.ndim - 2))), out)


def demand_fine(bias: float) -> None:
    if bias > 1024:
        raise Refused("limit", f"a bias of {bias:g} steps of the result, which fp16 does not hold to half a step")


@onnx_op("QLinearMatMul", since=(10, 21))
def qlinear_matmul(
    node: Node,
    a: Any_,
    a_scale: Known,
    a_zero: Known,
    b: Any_,
    b_scale: Known,
    b_zero: Known,
    y_scale: Known,
    y_zero: Known,
) -> Tensor:
    """As QLinearConv. The scale of a may go by rows, that of b by columns."""
    left, right = operand(node, 0, -2), operand(node, 3, -1)
    out = grid(y_scale, y_zero, y_zero.dtype, (), 0, 0)
    x, y = left.value, right.value
    small = shrink(left.most * right.most * x.shape[-1])
    if y.is_const:
        y = const(y.value * small)
    else:
        x = const(x.value * small) if x.is_const else ops.mul(x, small)
    made = product(x, y)
    factor = np.asarray(left.scale * right.scale / out.scale / small)
    if factor.size > 1 and (x.rank < 2 or y.rank < 2):
        raise Refused("attribute form", "scales by rows or columns beside a vector")
    return codes(node, ops.scaled(made, factor), out)


def _bounded(node: Node, y: Tensor, most: float) -> Tensor:
    """A sum of products of codes, as the integer that it is."""
    return node.prove(y, ranges.demand_exact((-most, most), "the sums"))


def _minus(node: Node, i: int, zero: int, axis: int) -> tuple[Tensor, float]:
    """An integer operand minus its zero point, and the greatest size of that."""
    code, span = node.count(i), node.range(i) or (0, 0)
    if not node.has(zero):
        return code, ranges.size(span)
    at = node.known(zero)
    zeros = _spread(at.astype(np.float64), code.shape, axis, 0)
    size = ranges.size(ranges.sub(span, (float(zeros.min()), float(zeros.max()))))
    if code.is_const:
        value = code.value.astype(np.float64) - zeros
        return const(value), float(np.abs(value).max())
    return (ops.sub(code, zeros) if zeros.any() else code), size


@onnx_op("MatMulInteger", since=(10,))
def matmul_integer(node: Node, a: Any_, b: Any_, a_zero: Known | None = None, b_zero: Known | None = None) -> Tensor:
    """Where the sums are proved to lie within ±2048."""
    (x, p), (y, q) = _minus(node, 0, 2, -2), _minus(node, 1, 3, -1)
    if y.is_const:
        most = p * float(np.abs(y.value).sum(axis=max(0, y.rank - 2)).max())
    elif x.is_const:
        most = q * float(np.abs(x.value).sum(axis=-1).max())
    else:
        most = p * q * x.shape[-1]
    return _bounded(node, product(x, y), most)


@onnx_op("ConvInteger", since=(10,))
def conv_integer(
    node: Node,
    x: Any_,
    w: Known,
    x_zero: Known | None = None,
    w_zero: Known | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Where the sums are proved to lie within ±2048."""
    (value, most), (weight, _) = _minus(node, 0, 2, 1), _minus(node, 1, 3, 0)
    if weight.rank != value.rank:
        raise Refused("attribute form", f"a weight of shape {weight.shape} for an input of shape {value.shape}")
    sums = np.abs(weight.value).sum(axis=tuple(range(1, weight.rank)))
    y: Tensor = conv(
        node,
        value,
        weight.value.astype(np.float64),
        None,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        kernel_shape=kernel_shape,
        pads=pads,
        strides=strides,
    )
    return _bounded(node, y, most * float(sums.max()))
