"""Convolutions, pools, products, attention, resizing: in float64, as MIL defines them."""

import functools
import itertools

import numpy as np

from .pointwise import softmax_of
from .registry import Any, Flag, Float, FloatConst, FloatVector, Int, Ints, Many, UInt, Word, operation, require

# ---- windows


def _per_axis(values, count, default):
    if values is None:
        return [default] * count
    require(len(values) == count, f"{count} values, not {list(values)}")
    return [int(v) for v in values]


def _pads(pad_type, pad, extents, reach, strides):
    """(before, after) of each spatial axis. `reach`: extent of the dilated kernel."""
    given = _per_axis(pad, 2 * len(extents), 0)
    require(min(given, default=0) >= 0, f"negative pad {given}")
    if pad_type == "custom":
        return list(zip(given[::2], given[1::2], strict=True))
    require(not any(given), f"pad {given} is ignored with pad_type {pad_type!r}")
    if pad_type == "valid":
        return [(0, 0)] * len(extents)
    require(pad_type in ("same", "same_lower"), f"pad_type {pad_type!r}")
    out = []
    for d, r, s in zip(extents, reach, strides, strict=True):
        total = max(0, s * -(-d // s) - d + r - s)
        small, large = total // 2, total - total // 2
        out.append((small, large) if pad_type == "same" else (large, small))
    return out


def _tap(x, offset, strides, counts):
    """The elements of padded x that one kernel position meets."""
    index = tuple(slice(o, o + s * (n - 1) + 1, s) for o, s, n in zip(offset, strides, counts, strict=True))
    return x[(slice(None), slice(None), *index)]


@operation
def conv(
    x: Float,
    weight: Float,
    *,
    bias: FloatVector = None,
    strides: Ints = None,
    pad_type: Word = "valid",
    pad: Ints = None,
    dilations: Ints = None,
    groups: Int = 1,
):
    rank = x.ndim - 2
    require(1 <= rank <= 3 and weight.ndim == x.ndim, f"conv of {x.shape} with {weight.shape}")
    groups = int(groups)
    n, c_in = x.shape[:2]
    c_out, per_group = weight.shape[:2]
    require(
        c_in == per_group * groups and c_out % groups == 0, f"conv of {x.shape} with {weight.shape}, {groups} groups"
    )
    s, dil = _per_axis(strides, rank, 1), _per_axis(dilations, rank, 1)
    reach = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dil, strict=True)]
    pads = _pads(pad_type, pad, x.shape[2:], reach, s)
    padded = np.pad(x, [(0, 0), (0, 0), *pads])
    out = [(d - r) // t + 1 for d, r, t in zip(padded.shape[2:], reach, s, strict=True)]
    require(min(out) >= 1, f"conv of {x.shape} with {weight.shape} has no result")
    w = weight.reshape(groups, c_out // groups, per_group, *weight.shape[2:])
    y = np.zeros((n, groups, c_out // groups, int(np.prod(out))))
    for position in itertools.product(*(range(k) for k in weight.shape[2:])):
        seen = _tap(padded, [p * d for p, d in zip(position, dil, strict=True)], s, out)
        y += w[(..., *position)] @ seen.reshape(n, groups, per_group, -1)
    y = y.reshape(n, c_out, *out)
    return y if bias is None else y + _channel(bias, c_out, rank)


@operation
def conv_transpose(
    x: Float,
    weight: FloatConst,
    *,
    bias: FloatVector = None,
    pad: Ints = None,
    pad_type: Word = "valid",
    strides: Ints = None,
    dilations: Ints = None,
    groups: Int = 1,
):
    rank = x.ndim - 2
    require(1 <= rank <= 3 and weight.ndim == x.ndim, f"conv_transpose of {x.shape} with {weight.shape}")
    require(pad_type in ("valid", "custom"), f"pad_type {pad_type!r} of conv_transpose")
    groups = int(groups)
    n, c_in = x.shape[:2]
    per_group = weight.shape[1]
    require(weight.shape[0] == c_in and c_in % groups == 0, f"{x.shape} with {weight.shape}, {groups} groups")
    s, dil = _per_axis(strides, rank, 1), _per_axis(dilations, rank, 1)
    reach = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dil, strict=True)]
    pads = _pads(pad_type, pad, x.shape[2:], reach, s)
    whole = [(d - 1) * t + r for d, t, r in zip(x.shape[2:], s, reach, strict=True)]
    w = weight.reshape(groups, c_in // groups, per_group, *weight.shape[2:])
    y = np.zeros((n, groups * per_group, *whole))
    flat = x.reshape(n, groups, c_in // groups, -1)
    for position in itertools.product(*(range(k) for k in weight.shape[2:])):
        part = np.swapaxes(w[(..., *position)], 1, 2) @ flat
        met = _tap(y, [p * d for p, d in zip(position, dil, strict=True)], s, x.shape[2:])
        met += part.reshape(met.shape)
    for axis, (before, after) in enumerate(pads, 2):
        require(before + after < y.shape[axis], "the pads leave nothing")
        y = np.take(y, np.arange(before, y.shape[axis] - after), axis)
    return y if bias is None else y + _channel(bias, y.shape[1], rank)


def _channel(bias, channels, rank):
    require(bias.shape == (channels,), f"bias {bias.shape} for {channels} channels")
    return bias.reshape(-1, *[1] * rank)


# ---- pools


def _windows(x, *, kernel_sizes, strides, pad_type, pad, ceil_mode, filler):
    """Elements met by each kernel position, stacked on a new first axis; and how many of them are not padding."""
    rank = x.ndim - 2
    require(1 <= rank <= 3, f"a pool of rank {x.ndim}")
    k, s = _per_axis(kernel_sizes, rank, 0), _per_axis(strides, rank, 1)
    pads = _pads(pad_type, pad, x.shape[2:], k, s)
    if ceil_mode:
        require(rank <= 2 and not pad_type.startswith("same"), "ceil_mode: rank 3 or 4, not with same")
        require(all(a == b for a, b in pads), "ceil_mode needs symmetric pads")
    out, extra = [], []
    for d, w, t, (before, after) in zip(x.shape[2:], k, s, pads, strict=True):
        room = d + before + after - w
        require(room >= 0, "the window is larger than its input")
        n = -(-room // t) + 1 if ceil_mode else room // t + 1
        if ceil_mode and (before or after) and (n - 1) * t >= d + before:
            n -= 1
        out.append(n)
        extra.append(max(0, (n - 1) * t + w - (d + before + after)))
    around = [(b, a + e) for (b, a), e in zip(pads, extra, strict=True)]
    padded = np.pad(x, [(0, 0), (0, 0), *around], constant_values=filler)
    real = np.pad(np.ones((1, 1, *x.shape[2:])), [(0, 0), (0, 0), *around])
    positions = list(itertools.product(*(range(w) for w in k)))
    return [_tap(padded, p, s, out) for p in positions], sum(_tap(real, p, s, out) for p in positions)


@operation
def max_pool(
    x: Float, *, kernel_sizes: Ints, pad_type: Word, strides: Ints = None, pad: Ints = None, ceil_mode: Flag = False
):
    met, _ = _windows(
        x, kernel_sizes=kernel_sizes, strides=strides, pad_type=pad_type, pad=pad, ceil_mode=ceil_mode, filler=-np.inf
    )
    return functools.reduce(np.maximum, met)


@operation
def avg_pool(
    x: Float,
    *,
    kernel_sizes: Ints,
    pad_type: Word,
    strides: Ints = None,
    pad: Ints = None,
    exclude_padding_from_average: Flag = False,
    ceil_mode: Flag = False,
):
    met, real = _windows(
        x, kernel_sizes=kernel_sizes, strides=strides, pad_type=pad_type, pad=pad, ceil_mode=ceil_mode, filler=0.0
    )
    return sum(met) / (real if exclude_padding_from_average else len(met))


@operation
def l2_pool(
    x: Float, *, kernel_sizes: Ints, pad_type: Word, strides: Ints = None, pad: Ints = None, ceil_mode: Flag = False
):
    require(x.ndim <= 4, "l2_pool takes rank 3 or 4")
    met, _ = _windows(
        x, kernel_sizes=kernel_sizes, strides=strides, pad_type=pad_type, pad=pad, ceil_mode=ceil_mode, filler=0.0
    )
    return np.sqrt(sum(m * m for m in met))


# ---- products


@operation
def matmul(x: Float, y: Float, transpose_x: Flag = False, transpose_y: Flag = False):
    require(x.ndim >= 2 or not transpose_x, "transpose_x at rank 1")
    require(y.ndim >= 2 or not transpose_y, "transpose_y at rank 1")
    return np.matmul(
        np.swapaxes(x, -1, -2) if transpose_x else x,
        np.swapaxes(y, -1, -2) if transpose_y else y,
    )


@operation
def linear(x: Float, weight: FloatConst, bias: FloatVector = None):
    require(weight.ndim == 2 and x.shape[-1] == weight.shape[1], f"linear of {x.shape} with {weight.shape}")
    require(bias is None or bias.shape == (weight.shape[0],), "the bias of linear")
    return x @ weight.T + (0 if bias is None else bias)


@operation
def einsum(values: Many, equation: Word):
    require(len(values) == 2 and "->" in equation, "einsum takes two operands and an explicit result")
    return np.einsum(equation, *values)


@operation
def scaled_dot_product_attention(query: Float, key: Float, value: Float, attn_mask: Any = None):
    require(query.ndim == key.ndim == value.ndim >= 3, "query, key, value of one rank from 3 up")
    require(query.shape[:-2] == key.shape[:-2] == value.shape[:-2], "equal leading extents")
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    if attn_mask is not None:
        require(attn_mask.shape[-1] == key.shape[-2], "the mask spans the keys")
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    return softmax_of(scores, -1) @ value


# ---- image


def _resample(x, axis, positions):
    """Linear interpolation at fractional positions, clamped to the ends."""
    last = x.shape[axis] - 1
    at = np.clip(np.asarray(positions, np.float64), 0, last)
    low = np.floor(at).astype(int)
    shape = [-1 if a == axis else 1 for a in range(x.ndim)]
    t = (at - low).reshape(shape)
    return np.take(x, low, axis) * (1 - t) + np.take(x, np.minimum(low + 1, last), axis) * t


def _positions(n_in, n_out, mode):
    i = np.arange(n_out)
    if mode == "STRICT_ALIGN_CORNERS":
        return i * ((n_in - 1) / (n_out - 1)) if n_out > 1 else np.zeros(1)
    if mode == "ALIGN_CORNERS":
        return i * ((n_in - 1) / (n_out - 1)) if n_out > 1 else np.full(1, (n_in - 1) / 2)
    if mode == "DEFAULT":
        return i * (n_in / n_out)
    if mode == "UNALIGN_CORNERS":
        return (i + 0.5) * (n_in / n_out) - 0.5
    require(mode == "OFFSET_CORNERS", f"sampling_mode {mode!r}")
    return (i + 0.5) * (max(1, n_in - 1) / n_out)


def _bilinear(x, height, width, mode):
    require(x.ndim >= 3, "resizing takes rank 3 or more")
    for axis, size in ((x.ndim - 2, int(height)), (x.ndim - 1, int(width))):
        x = _resample(x, axis, _positions(x.shape[axis], size, mode))
    return x


@operation
def resize_bilinear(x: Float, target_size_height: Int = 1, target_size_width: Int = 1, sampling_mode: Word = "DEFAULT"):
    return _bilinear(x, target_size_height, target_size_width, sampling_mode)


@operation
def resize_nearest_neighbor(x: Float, target_size_height: Int, target_size_width: Int):
    require(x.ndim >= 3, "resizing takes rank 3 or more")
    for axis, size in ((x.ndim - 2, int(target_size_height)), (x.ndim - 1, int(target_size_width))):
        x = np.take(x, np.arange(size) * x.shape[axis] // size, axis)
    return x


@operation
def upsample_nearest_neighbor(x: Float, scale_factor_height: Int = 1, scale_factor_width: Int = 1):
    return np.repeat(np.repeat(x, int(scale_factor_height), -2), int(scale_factor_width), -1)


@operation
def upsample_bilinear(x: Float, scale_factor_height: Int = 1, scale_factor_width: Int = 1, align_corners: Flag = True):
    mode = "STRICT_ALIGN_CORNERS" if align_corners else "UNALIGN_CORNERS"
    return _bilinear(x, x.shape[-2] * int(scale_factor_height), x.shape[-1] * int(scale_factor_width), mode)


def _quad(x):
    require(x.ndim == 4, "rank 4")
    return x.shape


@operation
def pixel_shuffle(x: Float, upscale_factor: Int):
    n, c, h, w = _quad(x)
    r = int(upscale_factor)
    require(c % (r * r) == 0, "channels divide by the square of the factor")
    y = x.reshape(n, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(n, c // (r * r), h * r, w * r)


@operation
def pixel_unshuffle(x: Float, downscale_factor: UInt):
    n, c, h, w = _quad(x)
    r = int(downscale_factor)
    require(h % r == 0 == w % r, "extents divide by the factor")
    y = x.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return y.reshape(n, c * r * r, h // r, w // r)


@operation
def depth_to_space(x: Float, block_size: Int):
    n, c, h, w = _quad(x)
    b = int(block_size)
    require(c % (b * b) == 0, "channels divide by the square of the block")
    y = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    return y.reshape(n, c // (b * b), h * b, w * b)


@operation
def space_to_depth(x: Float, block_size: Int):
    n, c, h, w = _quad(x)
    b = int(block_size)
    require(h % b == 0 == w % b, "extents divide by the block")
    y = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * b * b, h // b, w // b)
