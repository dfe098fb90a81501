"""Convolutions and pools in kernels that an engine takes: rank 4, window extents within the limits of the target.

A kernel that is too wide but not too high is swapped with it, between two transposes. One that is too large both ways
is cut into bands of rows: conv(x, W) is the sum of the bands' convolutions of the rows that each of them sees. Rows,
not columns, because a slice at an offset along the width is a hazard of its own (Q08).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from .. import ops
from ..ir import Op, Replacement, Rule, Tensor, Uses, const, rule
from ..targets import Target

_WINDOWED = "conv conv_transpose max_pool avg_pool l2_pool"


def _again(op: Op, inputs: Mapping[str, Tensor], params: Mapping[str, Any]) -> Tensor:
    """The same operation with some operands and parameters replaced."""
    return getattr(ops, op.kind)(**{**op.inputs, **inputs}, **{**op.params, **params})  # type: ignore[no-any-return]


def _explicit_pads(op: Op) -> tuple[int, ...]:
    """Pads in numbers, for any pad_type."""
    x = op.operand("x")
    if op.params["pad_type"] == "custom":
        return tuple(op.params["pad"])
    if op.params["pad_type"] == "valid":
        return (0,) * (2 * (x.rank - 2))
    kernel = op.params["kernel_sizes"] if "kernel_sizes" in op.params else op.operand("weight").shape[2:]
    dilations = op.params.get("dilations", (1,) * len(kernel))
    lower = op.params["pad_type"] == "same_lower"
    out: list[int] = []
    for extent, k, s, d in zip(x.shape[2:], kernel, op.params["strides"], dilations, strict=True):
        out += ops.same_pads(extent, k, s, d, lower)
    return tuple(out)


@rule("explicit-pads", _WINDOWED, "pads in numbers are the one form that is known", required=True)
def explicit_pads(op: Op, uses: Uses) -> Replacement:
    """conv_transpose is left out unless valid: its "same" means another thing, and is not used."""
    kind = op.params["pad_type"]
    if kind == "custom" or (op.kind == "conv_transpose" and kind != "valid"):
        return None
    return _again(op, {}, {"pad_type": "custom", "pad": _explicit_pads(op)})


@rule("one-axis", _WINDOWED, "the engine takes rank 4: one spatial axis becomes H, with W = 1", required=True)
def one_axis(op: Op, uses: Uses) -> Replacement:
    x = op.operand("x")
    if x.rank != 3 or op.params["pad_type"] != "custom" or "output_shape" in op.params:
        return None
    params = dict(op.params)
    for name in ("strides", "dilations", "kernel_sizes"):
        if name in params:
            params[name] = (*params[name], 1)
    params["pad"] = (*params["pad"], 0, 0)
    inputs = {**op.inputs, "x": ops.expand_dims(x, (3,))}
    if "weight" in inputs:
        w = op.operand("weight")
        inputs["weight"] = const(w.value[..., None], w.dtype) if w.is_const else ops.expand_dims(w, (3,))
    return ops.squeeze(getattr(ops, op.kind)(**inputs, **params), (3,))


def _swap(x: Tensor) -> Tensor:
    return const(x.value.swapaxes(2, 3), x.dtype) if x.is_const else ops.transpose(x, (0, 1, 3, 2))


def _swapped(op: Op) -> Tensor:
    """The same window operation with H and W exchanged, and back."""
    params = dict(op.params)
    for name in ("strides", "dilations", "kernel_sizes"):
        if name in params:
            params[name] = params[name][::-1]
    top, bottom, left, right = params["pad"]
    params["pad"] = (left, right, top, bottom)
    inputs = {**op.inputs, "x": _swap(op.operand("x"))}
    if "weight" in inputs:
        inputs["weight"] = _swap(op.operand("weight"))
    return _swap(getattr(ops, op.kind)(**inputs, **params))


def _bands(op: Op, size: int) -> Tensor:
    """A convolution as the sum of convolutions by bands of `size` rows of its kernel."""
    x, weight = op.operand("x"), op.operand("weight")
    kernel, step = weight.shape[2], op.params["strides"][0]
    dilation, out = op.params["dilations"][0], op.types[0].shape[2]
    top, bottom, left, right = op.params["pad"]
    if top or bottom:
        x = ops.pad(x, (0, 0, 0, 0, top, bottom, 0, 0))
    total: Tensor | None = None
    for first in range(0, kernel, size):
        count = min(size, kernel - first)
        rows = (out - 1) * step + (count - 1) * dilation + 1
        seen = ops.slice_axis(x, 2, first * dilation, rows)
        band = const(weight.value[:, :, first : first + count], weight.dtype)
        params = {**op.params, "pad": (0, 0, left, right)}
        if count == 1:
            params["dilations"] = (1, op.params["dilations"][1])
        part = ops.conv(seen, band, **params)
        total = part if total is None else ops.add(total, part)
    assert total is not None
    return total


@lru_cache(maxsize=1024)
def _useful(extent: int, kernel: int, stride: int, dilation: int, before: int, out: int) -> tuple[int, int]:
    """First and last + 1 kernel index that ever meets the input and not only its padding."""
    start = np.arange(out) * stride - before
    met = [bool(((start + k * dilation >= 0) & (start + k * dilation < extent)).any()) for k in range(kernel)]
    return (met.index(True), kernel - met[::-1].index(True)) if any(met) else (0, kernel)


@rule(
    "kernel-in-padding", "conv", "rows and columns of a kernel that only ever meet padding are dropped", required=True
)
def kernel_in_padding(op: Op, uses: Uses) -> Replacement:
    """A 3x3 kernel with padding 1 on a 1x1 input is its centre; and a kernel must not be higher than the input."""
    x, weight = op.operand("x"), op.operand("weight")
    if x.rank != 4 or op.params["pad_type"] != "custom" or not weight.is_const:
        return None
    cut, pads = [], list(op.params["pad"])
    for i in (0, 1):
        stride, dilation, out = op.params["strides"][i], op.params["dilations"][i], op.types[0].shape[2 + i]
        extent = x.shape[2 + i]
        first, last = _useful(extent, weight.shape[2 + i], stride, dilation, pads[2 * i], out)
        before = pads[2 * i] - first * dilation
        after = (out - 1) * stride + (last - first - 1) * dilation + 1 - before - extent
        if before < 0 or after < 0:  # would need a crop instead of padding: leave the axis as it is
            first, last = 0, weight.shape[2 + i]
        else:
            pads[2 * i : 2 * i + 2] = [before, after]
        cut.append((first, last))
    if all((a, b) == (0, k) for (a, b), k in zip(cut, weight.shape[2:], strict=True)):
        return None
    (top, bottom), (left, right) = cut
    dilations = [1 if last - first == 1 else d for (first, last), d in zip(cut, op.params["dilations"], strict=True)]
    params = {**op.params, "pad": tuple(pads), "dilations": tuple(dilations)}
    return ops.conv(x, const(weight.value[:, :, top:bottom, left:right], weight.dtype), **params)


@rule("unit-dilation", "conv", "the dilation of a kernel of one row or column means nothing", required=True)
def unit_dilation(op: Op, uses: Uses) -> Replacement:
    kernel = op.operand("weight").shape[2:]
    plain = tuple(1 if k == 1 else d for k, d in zip(kernel, op.params["dilations"], strict=True))
    if plain == op.params["dilations"]:
        return None
    return _again(op, {}, {"dilations": plain})


def _spans(op: Op) -> tuple[int, int]:
    kernel = op.operand("weight").shape[2:]
    dilations = op.params["dilations"]
    return (kernel[0] - 1) * dilations[0] + 1, (kernel[1] - 1) * dilations[1] + 1


def window_rules(target: Target) -> tuple[Rule, ...]:
    """Rules that need the limits of a target."""
    limits = target.limits
    wide, high = limits.kernel_width, limits.kernel_height

    def fits(height: int, width: int, dilations: tuple[int, int]) -> bool:
        return height <= high and width <= wide and max(dilations) <= limits.dilation

    @rule(
        "kernel-extent",
        "conv",
        "kernels wider or higher than the engine takes are swapped or cut into bands",
        required=True,
    )
    def kernel_extent(op: Op, uses: Uses) -> Replacement:
        weight = op.operand("weight")
        if op.operand("x").rank != 4 or op.params["pad_type"] != "custom" or not weight.is_const:
            return None
        height, width = _spans(op)
        dilations = op.params["dilations"]
        if fits(height, width, dilations):
            return None
        if fits(width, height, dilations):
            return _swapped(op)
        rows = weight.shape[2]
        if rows > 1:
            # Bands must fit as they are, or after the swap that a too wide kernel needs next.
            room = high if width <= wide and dilations[1] <= limits.dilation else min(high, wide)
            size = 1 if dilations[0] > limits.dilation else max(1, (room - 1) // dilations[0] + 1)
            return _bands(op, min(size, rows - 1)) if size < rows else _bands(op, 1)
        return _swapped(op)  # one row: as one column it can be cut into bands

    @rule(
        "kernel-above-input",
        "conv",
        "a kernel higher than its input needs the padding to be part of the input",
        required=True,
    )
    def kernel_above_input(op: Op, uses: Uses) -> Replacement:
        x = op.operand("x")
        if x.rank != 4 or op.params["pad_type"] != "custom":
            return None
        height, width = _spans(op)
        if height <= x.shape[2] and width <= x.shape[3]:
            return None
        pads = op.params["pad"]
        if not any(pads):
            return None
        return _again(op, {"x": ops.pad(x, (0, 0, 0, 0, *pads))}, {"pad": (0, 0, 0, 0)})

    @rule(
        "transposed-kernel-extent",
        "conv_transpose",
        "a kernel that is too wide but not too high is swapped",
        required=True,
    )
    def transposed_kernel_extent(op: Op, uses: Uses) -> Replacement:
        if op.operand("x").rank != 4 or op.params["pad_type"] != "custom" or "output_shape" in op.params:
            return None
        height, width = _spans(op)
        return _swapped(op) if width > wide >= height and width <= high else None

    @rule(
        "global-pool",
        "avg_pool max_pool",
        "one window over the whole input is a reduction, whatever its extent",
        required=True,
    )
    def global_pool(op: Op, uses: Uses) -> Replacement:
        x, kernel = op.operand("x"), op.params["kernel_sizes"]
        if x.rank != 4 or tuple(kernel) != x.shape[2:] or any(op.params["pad"]) or op.types[0].shape[2:] != (1, 1):
            return None
        if op.kind == "avg_pool":
            return ops.reduce_mean_wide(x, (2, 3))
        return ops.reduce_max(x, (2, 3), True) if max(kernel) > limits.pool_window else None

    return (kernel_extent, kernel_above_input, transposed_kernel_extent, global_pool)


@rule("unequal-pads", "max_pool avg_pool", "the engine is only sure of symmetric pads: pad first", required=True)
def unequal_pads(op: Op, uses: Uses) -> Replacement:
    x, cells = op.operand("x"), op.params["pad"]
    if x.rank != 4 or op.params["pad_type"] != "custom" or cells[::2] == cells[1::2]:
        return None
    kind, whole = op.kind.removesuffix("_pool"), not op.params.get("exclude_padding_from_average", True)
    pads = [(cells[0], cells[1]), (cells[2], cells[3])]
    return ops.pool_any(x, kind, op.params["kernel_sizes"], op.params["strides"], pads, False, whole)


RULES = (explicit_pads, one_axis, unequal_pads, unit_dilation, kernel_in_padding)
