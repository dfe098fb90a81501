"""Normalizations that neither overflow nor lose their epsilon in fp16.

All share one form. With m = max(max |x|, sqrt(eps)) and t = x / m, x / sqrt(mean(x²) + eps) = t / sqrt(mean(t²) +
(sqrt(eps) / m)²), exactly, for any m; and every number in it lies in fp16's range: |t| <= 1, sqrt(eps) / m <= 1.
Without it (x - mean)² overflows above 255 (Q37) and an epsilon of 1e-5 is subnormal (Q19). Means are products with 1 /
count (Q06).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..errors import Refused
from ..ir import Tensor, const
from . import elementwise as e
from . import reduce as r
from . import shape as s
from .base import Operand, axes_of, axis_of, number
from .contract import contract_axis, reshape_if
from .order import argmax_first
from .smooth import FP16_MAX
from .sums import TINY, reduce_mean_wide, reduce_sum_wide, scaled_by_peak


def unit_variance(x: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """x / sqrt(mean(x²) + epsilon) over `axes`, in the scaled form above."""
    t, factor, _ = _scaled(x, axes, epsilon)
    return e.mul(t, factor)


def _scaled(x: Tensor, axes: Sequence[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """t, 1 / sqrt(mean(t²) + ..), and 1 / m of the scaled form above."""
    root = math.sqrt(number("unit_variance", "epsilon", epsilon))
    t, _, inverse = scaled_by_peak(x, axes, root)
    power = reduce_mean_wide(e.mul(t, t), axes, True)
    if (
        root >= 2.0**-20
    ):  # a smaller one is nothing beside the square of the least normal fp16, and may round to 0 itself
        share = e.mul(inverse, root)
        power = e.add(power, e.mul(share, share))
    else:
        power = e.maximum(power, TINY)
    return t, e.rsqrt(power, 0.0), inverse


def standardize(x: Tensor, axes: int | Sequence[int], epsilon: float) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) over `axes`; the variance is the biased one."""
    over = axes_of("standardize", "axes", axes, x.rank)
    return unit_variance(centred(centred(x, over), over), over, epsilon)


def moments(x: Tensor, axes: Sequence[int], epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """`standardize`, and what it knows on the way: (normalized x, mean, 1 / sqrt(variance + epsilon)), the latter two with
    extents of 1 along `axes`.

    Raises:
        Refused: the inverse deviation of a constant row, 1 / sqrt(epsilon), is beyond fp16's range."""
    if epsilon < FP16_MAX**-2.0:
        raise Refused("limit", f"1 / sqrt(variance + {epsilon}) can be beyond {FP16_MAX:.0f}, the largest fp16")
    mean = reduce_mean_wide(x, axes, True)
    rest = e.sub(x, mean)
    left = reduce_mean_wide(rest, axes, True)
    t, factor, inverse = _scaled(e.sub(rest, left), axes, epsilon)
    return e.mul(t, factor), e.add(mean, left), e.mul(factor, inverse)


def centred(x: Tensor, axes: Sequence[int]) -> Tensor:
    """x - mean. Once leaves what the mean lost when it was rounded, as much as 2^-11 of a large mean beside a small
    spread; differences from a mean are small and nearly exact, and twice takes the rest away."""
    return e.sub(x, reduce_mean_wide(x, axes, True))


def affine(x: Tensor, gamma: Operand | None, beta: Operand | None) -> Tensor:
    """x * gamma + beta; None leaves a part out."""
    if gamma is not None:
        x = e.mul(x, gamma)
    return x if beta is None else e.add(x, beta)


def layer_norm_fp16(
    x: Tensor, axis: int = -1, gamma: Operand | None = None, beta: Operand | None = None, epsilon: float = 1e-5
) -> Tensor:
    """ONNX LayerNormalization over the axes from `axis` on; gamma and beta broadcast to those axes from the right."""
    first = axis_of("layer_norm", "axis", axis, x.rank)
    return affine(standardize(x, range(first, x.rank), epsilon), gamma, beta)


def rms_norm(x: Tensor, axis: int = -1, gamma: Operand | None = None, epsilon: float = 1e-5) -> Tensor:
    """x / sqrt(mean(x²) + epsilon) * gamma over the axes from `axis` on (ONNX RMSNormalization)."""
    first = axis_of("rms_norm", "axis", axis, x.rank)
    return affine(unit_variance(x, range(first, x.rank), epsilon), gamma, None)


def _per_channel(given: Operand, rank: int) -> Operand:
    """[C] as [1, C, 1, ..]."""
    if isinstance(given, Tensor):
        return (
            const(given.value.reshape(1, -1, *(1,) * (rank - 2)))
            if given.is_const
            else s.reshape(given, (1, given.type.size, *(1,) * (rank - 2)))
        )
    return np.asarray(given).reshape(1, -1, *(1,) * (rank - 2))


def instance_norm_any(
    x: Tensor, gamma: Operand | None = None, beta: Operand | None = None, epsilon: float = 1e-5
) -> Tensor:
    """Over the axes after the channel, gamma and beta [C]; any rank from 3 on."""
    if x.rank < 3:
        raise ValueError(f"instance_norm: x has rank 3 and more, not {x.shape}")
    y = standardize(x, range(2, x.rank), epsilon)
    return affine(
        y, None if gamma is None else _per_channel(gamma, x.rank), None if beta is None else _per_channel(beta, x.rank)
    )


def group_norm(
    x: Tensor, groups: int, gamma: Operand | None = None, beta: Operand | None = None, epsilon: float = 1e-5
) -> Tensor:
    """Over each of `groups` groups of channels, gamma and beta [C] applied after the reshape back (Q31)."""
    n, c = x.shape[0], x.shape[1]
    if x.rank < 2 or groups < 1 or c % groups:
        raise ValueError(f"group_norm: {groups} groups do not divide the channels of {x.shape}")
    spatial = x.shape[2:] or (1,)
    grouped = reshape_if(x, (n * groups, c // groups, math.prod(spatial[:-1]), spatial[-1]))
    y = reshape_if(standardize(grouped, (1, 2, 3), epsilon), x.shape)
    return affine(
        y, None if gamma is None else _per_channel(gamma, x.rank), None if beta is None else _per_channel(beta, x.rank)
    )


def batch_norm_any(
    x: Tensor, gamma: np.ndarray, beta: np.ndarray, mean: np.ndarray, variance: np.ndarray, epsilon: float = 1e-5
) -> Tensor:
    """x * scale + shift along axis 1, scale and shift computed once in float64; any rank from 2 on.

    MIL's batch_norm would hold variance and epsilon in fp16, where small ones vanish.
    """
    scale = np.asarray(gamma, np.float64) / np.sqrt(np.asarray(variance, np.float64) + epsilon)
    shift = np.asarray(beta, np.float64) - np.asarray(mean, np.float64) * scale
    if x.rank < 2 or scale.shape != (x.shape[1],) or shift.shape != scale.shape:
        raise ValueError(f"batch_norm: parameters {scale.shape} do not fit the channels of {x.shape}")
    shape = (1, -1, *(1,) * (x.rank - 2))
    return e.add(e.mul(x, scale.reshape(shape)), shift.reshape(shape))


def l2_normalize(x: Tensor, axis: int | Sequence[int] = -1, epsilon: float = 0.0) -> Tensor:
    """x / max(|x|_2, epsilon) over `axis`; 0 for a zero vector (ONNX LpNormalization p=2; torch's normalize with its
    epsilon).
    """
    over = axes_of("l2_normalize", "axis", axis, x.rank)
    t, _, inverse = scaled_by_peak(x, over)
    norm = e.sqrt(reduce_sum_wide(e.mul(t, t), over, True, bound=1.0))
    floor: Operand = e.mul(inverse, epsilon) if epsilon >= TINY else TINY
    return e.real_div(t, e.maximum(norm, floor))


def l2_unit(x: Tensor, axis: int = -1, epsilon: float = 0.0) -> Tensor:
    """x / sqrt(sum(x²) + epsilon) over one axis; 0 for a zero vector."""
    at = axis_of("l2_unit", "axis", axis, x.rank)
    count = x.shape[at]
    return e.mul(unit_variance(x, (at,), epsilon / count), 1.0 / math.sqrt(count))


def l1_normalize(x: Tensor, axis: int | Sequence[int] = -1) -> Tensor:
    """x / sum(|x|) over `axis`; 0 for a zero vector (ONNX LpNormalization p=1)."""
    over = axes_of("l1_normalize", "axis", axis, x.rank)
    t, _, _ = scaled_by_peak(x, over)
    return e.real_div(t, e.maximum(reduce_sum_wide(e.abs(t), over, True, bound=1.0), TINY))


def response_norm(x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ** beta (ONNX LRN, even sizes too).

    The window is a banded matrix along the channels; x is scaled before it is squared.
    """
    if x.rank < 3 or size < 1:
        raise ValueError(f"response_norm: x has rank 3 and more, not {x.shape}; size is 1 and more, not {size}")
    channels = x.shape[1]
    offset = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    band = ((offset >= -((size - 1) // 2)) & (offset <= size // 2)).astype(np.float32)
    share = alpha / size
    if share <= 1e-4:  # as models have it: |x| may be up to 25,000
        small = e.mul(x, math.sqrt(share))
        total = e.add(contract_axis(e.mul(small, small), 1, band), bias)
        return e.mul(x, _negative_power(total, beta))
    # With t = x * root / m, the sum is m² (bias / m² + sum t²); m is no greater than it must be for sums below 16384,
    # since bias / m² loses digits with it.
    root, most = math.sqrt(share), math.sqrt(16384.0 / size)
    peak = e.maximum(e.mul(r.reduce_max(e.abs(x), (1,), True), root / most), 1.0)
    inverse = e.inverse(peak, 0.0)
    t = e.mul(e.mul(x, inverse), root)
    total = e.add(contract_axis(e.mul(t, t), 1, band), e.mul(e.mul(inverse, inverse), bias))
    gain = e.pow(inverse, 2.0 * beta) if beta != 0.5 else inverse
    return e.mul(e.mul(x, gain), _negative_power(total, beta))


def _negative_power(x: Tensor, beta: float) -> Tensor:
    """x ** -beta for a positive x."""
    if beta not in (0.5, 0.75):
        return e.pow(x, -beta)
    root = e.rsqrt(x, 0.0)
    return root if beta == 0.5 else e.mul(root, e.sqrt(root))


def hardmax(x: Tensor, axis: int = -1) -> Tensor:
    """1 at the first greatest element along `axis`, 0 elsewhere (ONNX Hardmax)."""
    at = axis_of("hardmax", "axis", axis, x.rank)
    n = x.shape[at]
    index = np.arange(n, dtype=np.float32).reshape([n if i == at else 1 for i in range(x.rank)])
    first = argmax_first(x, at, True)
    return e.sub(1.0, e.sign(e.abs(e.sub(index, first))))
