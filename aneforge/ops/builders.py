"""The graph API by hand: what is not a method of Tensor. `aneforge` re-exports these names.

As in `methods`: names, defaults and meanings of ANEForge 0.4.0; weights are float arrays (TypeError), ranks up to 5
(ValueError).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Op, Program, Tensor, Type, topological
from . import attend as at
from . import elementwise as e
from . import image, masks, norms
from . import shape as s
from .activation import gelu
from .base import Operand
from .einsums import einsum_any
from .layout import concat_any as _concat
from .layout import gather_constant, pad_any, slice_axis
from .methods import MAX_RANK, checked, pairs, weight
from .order import first_k
from .windows import conv_any, conv_transpose_any

_order = itertools.count()

Ints = int | Sequence[int]


def input(shape: Sequence[int], dtype: str = "fp16", max_abs: float | None = None, name: str | None = None) -> Tensor:
    """A value given at run time; inputs are given in the order in which they were made.

    Args:
        shape: static extents, rank 1 to 5, each 1 and more.
        dtype: "fp16" or "uint8", what the engine takes at its ports.
        max_abs: a bound on |x| that the caller promises; recorded, for range analysis.
        name: of the port; made up if absent.
    """
    extents = tuple(int(d) for d in shape)
    if dtype not in ("fp16", "uint8"):
        raise ValueError(f"input: the engine takes fp16 and uint8 at its ports, not {dtype!r}")
    if not 1 <= len(extents) <= MAX_RANK or min(extents) < 1:
        raise ValueError(f"input: shape {extents} has rank 1 to {MAX_RANK} and extents of 1 and more")
    order = next(_order)
    params: dict[str, Any] = {"name": name if name is not None else f"x{order}", "order": order}
    if max_abs is not None:
        params["max_abs"] = float(max_abs)
    return Op("input", {}, params, (Type(dtype, extents),)).outputs[0]


def image_input(
    shape: Sequence[int],
    scale: float | Sequence[float] | NDArray[Any] = 1 / 255,
    bias: float | Sequence[float] | NDArray[Any] = 0.0,
    name: str | None = None,
) -> Tensor:
    """A uint8 port, cast to fp16, times `scale`, plus `bias`: numbers, or one for each channel (axis 1)."""
    pixels = e.cast(input(shape, "uint8", name=name), "fp16")
    x = e.mul(pixels, _per_channel("scale", scale, pixels))
    return e.add(x, _per_channel("bias", bias, pixels)) if np.any(bias) else x


def _per_channel(name: str, given: object, x: Tensor) -> Operand:
    value = np.asarray(given, np.float64)
    if value.size == 1:
        return float(value.reshape(()))
    if x.rank < 2 or value.shape != (x.shape[1],):
        raise ValueError(f"image_input: {name} is a number or one for each of the channels of {x.shape}")
    return value.reshape(1, -1, *(1,) * (x.rank - 2))


def program(outputs: Tensor | Sequence[Tensor]) -> Program:
    """The program that computes `outputs` (named y0, y1, …) from the inputs that they need, in the order these were
    made.
    """
    wanted = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    leaves = [op for op in topological(wanted) if op.kind == "input"]
    leaves.sort(key=lambda op: op.params.get("order", -1))
    return Program(
        [(op.params["name"], op.outputs[0]) for op in leaves], [(f"y{i}", out) for i, out in enumerate(wanted)]
    )


def maximum(a: Operand, b: Operand) -> Tensor:
    return e.maximum(a, b)


def minimum(a: Operand, b: Operand) -> Tensor:
    return e.minimum(a, b)


def select(cond: Tensor, a: Operand, b: Operand) -> Tensor:
    """a where cond, else b; all three broadcast."""
    return masks.where(cond, a, b)


where = select


def concat(tensors: Sequence[Tensor], axis: int = 1) -> Tensor:
    return _concat(list(tensors), axis)


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    return checked(s.stack(list(tensors), axis))


def split(x: Tensor, num_splits: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """That many equal pieces, or pieces of the given sizes."""
    if isinstance(num_splits, int):
        return list(s.split(x, num_splits=num_splits, axis=axis))
    return list(s.split(x, split_sizes=num_splits, axis=axis))


def gather(x: Tensor, indices: Sequence[int] | NDArray[Any], axis: int = 0) -> Tensor:
    """Known indices along one axis."""
    return checked(gather_constant(x, np.asarray(indices), axis))


def crop(x: Tensor, top: int, bottom: int, left: int, right: int) -> Tensor:
    """Without the given rows and columns of the last two axes."""
    x = slice_axis(x, -2, top, x.shape[-2] - top - bottom)
    return slice_axis(x, -1, left, x.shape[-1] - left - right)


def pad(x: Tensor, pads: Sequence[tuple[int, int]], mode: str = "constant", value: float = 0.0) -> Tensor:
    """Cells before and after each axis: constant, reflect, edge, wrap."""
    return pad_any(x, pads, mode, value)


def conv(
    x: Tensor,
    weight: NDArray[Any],
    stride: Ints = 1,
    pad: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    bias: NDArray[Any] | None = None,
) -> Tensor:
    """Convolution; weight [Cout, Cin / groups, kH, kW] ([.., k] for rank 3), pad one number or (top, bottom, left,
    right).
    """
    return conv_any(
        x,
        _weight("conv", "weight", weight),
        None if bias is None else _weight("conv", "bias", bias),
        stride,
        pairs(pad, x.rank - 2),
        dilation,
        groups,
    )


def dynamic_conv(
    x: Tensor, weight: Tensor, stride: Ints = 1, pad: Ints = 0, dilation: Ints = 1, groups: int = 1
) -> Tensor:
    """Convolution with a weight computed in the graph: batch 1, and no dilation, which the engine gets wrong (Q33)."""
    if x.shape[0] != 1:
        raise ValueError(f"dynamic_conv: a batch of 1, not {x.shape}")
    return conv_any(x, weight, None, stride, pairs(pad, x.rank - 2), dilation, groups)


def conv_transpose(
    x: Tensor,
    weight: NDArray[Any],
    stride: Ints = 1,
    pad: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    bias: NDArray[Any] | None = None,
    output_padding: Ints = 0,
) -> Tensor:
    """Transposed convolution; weight [Cin, Cout / groups, kH, kW]."""
    return conv_transpose_any(
        x,
        _weight("conv_transpose", "weight", weight),
        None if bias is None else _weight("conv_transpose", "bias", bias),
        stride,
        pairs(pad, x.rank - 2),
        dilation,
        groups,
        output_padding,
    )


def resize_nearest_neighbor(x: Tensor, target_h: int, target_w: int) -> Tensor:
    """Reads at floor(i * in / out)."""
    return image.resize_nearest_neighbor(x, target_h, target_w)


def resize_bilinear(x: Tensor, target_h: int, target_w: int, align_corners: bool = False) -> Tensor:
    """Reads at i * in / out, or with align_corners at i * (in - 1) / (out - 1)."""
    return image.resize_bilinear(x, target_h, target_w, "STRICT_ALIGN_CORNERS" if align_corners else "DEFAULT")


def upsample_bilinear(x: Tensor, scale: float = 2, align_corners: bool = False) -> Tensor:
    """Reads at (i + 0.5) / scale - 0.5, or with align_corners from corner to corner."""
    return image.upsample_bilinear(x, scale, scale, align_corners)


def pixel_shuffle(x: Tensor, r: int) -> Tensor:
    return s.pixel_shuffle(x, r)


def pixel_unshuffle(x: Tensor, r: int) -> Tensor:
    return s.pixel_unshuffle(x, r)


def space_to_depth(x: Tensor, block_size: int = 2) -> Tensor:
    return s.space_to_depth(x, block_size)


def depth_to_space(x: Tensor, block_size: int = 2) -> Tensor:
    return s.depth_to_space(x, block_size)


def batch_norm(
    x: Tensor, gamma: NDArray[Any], beta: NDArray[Any], mean: NDArray[Any], var: NDArray[Any], eps: float = 1e-5
) -> Tensor:
    return norms.batch_norm_any(
        x,
        _weight("batch_norm", "gamma", gamma),
        _weight("batch_norm", "beta", beta),
        _weight("batch_norm", "mean", mean),
        _weight("batch_norm", "var", var),
        eps,
    )


def instance_norm(
    x: Tensor, gamma: NDArray[Any] | None = None, beta: NDArray[Any] | None = None, eps: float = 1e-5
) -> Tensor:
    return norms.instance_norm_any(x, gamma, beta, eps)


def local_response_norm(x: Tensor, size: int = 5, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    return norms.response_norm(x, size, alpha, beta, k)


def sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None = None,
    is_causal: bool = False,
    attn_mask: Operand | None = None,
) -> Tensor:
    """Scaled dot-product attention; q, k, v [.., S, D]."""
    return at.attention(q, k, v, scale, attn_mask, is_causal)


def mha(
    x: Tensor,
    Wq: NDArray[Any],
    bq: NDArray[Any] | None,
    Wk: NDArray[Any],
    bk: NDArray[Any] | None,
    Wv: NDArray[Any],
    bv: NDArray[Any] | None,
    Wo: NDArray[Any],
    bo: NDArray[Any] | None,
    n_heads: int,
    mask: Operand | None = None,
) -> Tensor:
    """Multi-head self-attention; x [S, D] or [B, S, D], weights [out, in]. `mask` is added to the scores."""
    return _attention(x, x, (Wq, bq), (Wk, bk), (Wv, bv), (Wo, bo), n_heads, mask)


def cross_attention(
    x: Tensor,
    context: Tensor,
    Wq: NDArray[Any],
    Wk: NDArray[Any],
    Wv: NDArray[Any],
    Wo: NDArray[Any],
    n_heads: int,
    bq: NDArray[Any] | None = None,
    bk: NDArray[Any] | None = None,
    bv: NDArray[Any] | None = None,
    bo: NDArray[Any] | None = None,
) -> Tensor:
    """Multi-head attention of x [S, D] to a context [T, Dctx]; weights [out, in]."""
    return _attention(x, context, (Wq, bq), (Wk, bk), (Wv, bv), (Wo, bo), n_heads)


Layer = tuple[NDArray[Any], NDArray[Any] | None]


def _attention(
    x: Tensor,
    context: Tensor,
    query: Layer,
    key: Layer,
    value: Layer,
    out: Layer,
    n_heads: int,
    mask: Operand | None = None,
) -> Tensor:
    def heads(t: Tensor) -> Tensor:
        split_up = s.reshape(t, (*t.shape[:-1], n_heads, t.shape[-1] // n_heads))
        order = [*range(t.rank - 2), t.rank - 1, t.rank - 2, t.rank]
        return s.transpose(split_up, order)

    q, k, v = x.linear(*query), context.linear(*key), context.linear(*value)
    if q.shape[-1] % n_heads or v.shape[-1] % n_heads:
        raise ValueError(f"mha: {n_heads} heads do not divide {q.shape[-1]} and {v.shape[-1]}")
    y = at.attention(heads(q), heads(k), heads(v), None, mask)
    back = s.transpose(y, [*range(y.rank - 3), y.rank - 2, y.rank - 3, y.rank - 1])
    return s.reshape(back, (*x.shape[:-1], v.shape[-1])).linear(*out)


def geglu(x: Tensor, W: NDArray[Any], b: NDArray[Any] | None = None) -> Tensor:
    """u * gelu(v), where x @ W.T + b = [u, v] along the last axis."""
    both = x.linear(W, b)
    half = both.shape[-1] // 2
    return e.mul(slice_axis(both, -1, 0, half), gelu(slice_axis(both, -1, half, half)))


def topk(x: Tensor, k: int, largest: bool = True) -> Tensor:
    """The k greatest (or smallest) elements along the last axis, in order. Refused where they are too many to compare."""
    return _first("topk", x, k, largest, False)


def sort(x: Tensor, descending: bool = False, return_indices: bool = False) -> Tensor:
    """The elements along the last axis in order, or their places (whole numbers in fp16). Refused where they are too
    many to compare."""
    return _first("sort", x, x.shape[-1] if x.rank else 0, descending, return_indices)


def _first(kind: str, x: Tensor, k: int, largest: bool, places: bool) -> Tensor:
    if x.rank == 0 or not 1 <= k <= x.shape[-1]:
        raise ValueError(f"{kind}: the first {k} elements of {x.shape}")
    values, indices = first_k(x, k, -1, largest, not places, places)
    found = indices if places else values
    assert found is not None
    return found


def einsum(equation: str, *operands: Tensor) -> Tensor:
    """numpy's einsum: sums, transposes, matmuls, and diagonals of operands."""
    if not operands or not all(isinstance(x, Tensor) for x in operands):
        raise TypeError("einsum: one operand or more, all of them Tensors")
    return einsum_any(equation, *operands)


_weight = weight  # `conv` and others name an argument `weight`
