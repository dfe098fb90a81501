"""Sums and what is built on them, accumulated wide.

The engine's own reductions round to fp16 at each addition (Q06); convolutions and matrix products accumulate in fp32
and round once. So a long sum is a product with ones. Maxima and minima need no care.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..errors import Refused
from ..ir import Tensor, const
from . import elementwise as e
from . import reduce as r
from . import shape as s
from .base import axes_of, axis_of
from .contract import LONGEST, contract_axis, reshape_if
from .masks import filled

SHORT = 16
"""Below this many terms the native reduction's rounding stays within a few units in the last place."""
ACCUMULATOR_LIMIT = 32752.0
TINY = 2.0**-14
"""Smallest normal fp16: what divides is kept at or above it."""


@lru_cache(maxsize=256)
def _weights(count: int, weight: float) -> NDArray[np.float64]:
    return np.full((1, count), weight)


def _blocks(axes: Sequence[int], shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Neighbouring axes that are reduced together: [first, last] pairs, the last first, each of at most LONGEST
    elements.
    """
    out: list[tuple[int, int]] = []
    for axis in sorted(axes, reverse=True):
        if shape[axis] == 1 and out and out[-1][0] != axis + 1:
            continue
        if out and out[-1][0] == axis + 1 and math.prod(shape[axis : out[-1][1] + 1]) <= LONGEST:
            out[-1] = (axis, out[-1][1])
        else:
            out.append((axis, axis))
    return out


def _weighted_sum(x: Tensor, axes: Sequence[int], first_weight: float, mean: bool) -> tuple[Tensor, float]:
    """Sum over `axes` (kept as 1) with products by constants; also the factor that is still missing."""
    missing = 1.0
    for i, (first, last) in enumerate(_blocks(axes, x.shape)):
        count = math.prod(x.shape[first : last + 1])
        if mean:
            # 1 / count is subnormal in fp16 beyond 16384; take a power of two then, and leave the rest to a multiply.
            weight = 1.0 / count if count <= LONGEST else 2.0**-14
            missing /= count * weight
        else:
            weight = first_weight if i == 0 else 1.0
        shape = (*x.shape[:first], count, *x.shape[last + 1 :])
        summed = contract_axis(reshape_if(x, shape), first, _weights(count, weight))
        x = reshape_if(summed, (*x.shape[:first], *(1,) * (last - first + 1), *x.shape[last + 1 :]))
    return x, missing


def weighted_sum(x: Tensor, axes: int | Sequence[int], weight: float) -> Tensor:
    """Sum of weight * x over `axes`, which are kept as 1, accumulated wide: |sum| may be 32752 at most (Q04)."""
    return _weighted_sum(x, axes_of("weighted_sum", "axes", axes, x.rank), weight, mean=False)[0]


def reduce_sum_wide(
    x: Tensor, axes: int | Sequence[int] | None = None, keep_dims: bool = True, bound: float | None = None
) -> Tensor:
    """Sum over `axes`. Long ones as products with 1/2, doubled at the end: sums up to 65504 pass the accumulator's
    limit of 32752 (Q04). `bound`, a known bound on |x|, saves the doubling where it proves the sum small."""
    over = axes_of("reduce_sum_wide", "axes", axes, x.rank)
    count = math.prod(x.shape[i] for i in over)
    if count < SHORT:
        return r.reduce_sum(x, over, keep_dims) if over else x
    small = bound is not None and bound * count <= ACCUMULATOR_LIMIT
    out, _ = _weighted_sum(x, over, 1.0 if small else 0.5, mean=False)
    if not small:
        out = e.mul(out, 2.0)
    return reshape_if(out, r.reduced(x.shape, over, keep_dims))


def reduce_mean_wide(x: Tensor, axes: int | Sequence[int] | None = None, keep_dims: bool = True) -> Tensor:
    """Mean over `axes`. Long ones as products with 1 / count, so that no partial sum exceeds the greatest |x|."""
    over = axes_of("reduce_mean_wide", "axes", axes, x.rank)
    count = math.prod(x.shape[i] for i in over)
    if count < SHORT:
        return r.reduce_mean(x, over, keep_dims) if over else x
    out, missing = _weighted_sum(x, over, 1.0, mean=True)
    if missing != 1.0:
        out = e.mul(out, missing)
    return reshape_if(out, r.reduced(x.shape, over, keep_dims))


def reduce_l1(x: Tensor, axes: int | Sequence[int] | None = None, keep_dims: bool = True) -> Tensor:
    """Sum of |x|."""
    return reduce_sum_wide(e.abs(x), axes, keep_dims)


def sum_square(x: Tensor, axes: int | Sequence[int] | None = None, keep_dims: bool = True) -> Tensor:
    """Sum of x * x. Overflows only where the result itself exceeds fp16."""
    return reduce_sum_wide(e.mul(x, x), axes, keep_dims)


def scaled_by_peak(x: Tensor, axes: Sequence[int], floor: float = TINY) -> tuple[Tensor, Tensor, Tensor]:
    """(t, m, 1 / m): t = x / m with m = max(max |x| over axes, floor), so that |t| <= 1 and its squares neither
    overflow above 255 (Q36, Q37) nor vanish."""
    peak = e.maximum(r.reduce_max(e.abs(x), axes, True), max(floor, TINY))
    inverse = e.inverse(peak, 0.0)
    return e.mul(x, inverse), peak, inverse


def reduce_l2(x: Tensor, axes: int | Sequence[int] | None = None, keep_dims: bool = True) -> Tensor:
    """sqrt of the sum of squares: m * sqrt(sum (x / m)²), m the greatest |x|."""
    over = axes_of("reduce_l2", "axes", axes, x.rank)
    if not over:
        return e.abs(x)
    t, peak, _ = scaled_by_peak(x, over)
    out = e.mul(e.sqrt(reduce_sum_wide(e.mul(t, t), over, True, bound=1.0)), peak)
    return reshape_if(out, r.reduced(x.shape, over, keep_dims))


def log_sum(x: Tensor, axes: int | Sequence[int] | None = None, keep_dims: bool = True) -> Tensor:
    """log of the sum (ONNX ReduceLogSum)."""
    return e.log(reduce_sum_wide(x, axes, keep_dims), 0.0)


def logsumexp(x: Tensor, axes: int | Sequence[int] | None = None, keep_dims: bool = True) -> Tensor:
    """m + log(sum(exp(x - m))), m the maximum: the native op does not subtract it and falls to 0 (Q13)."""
    over = axes_of("logsumexp", "axes", axes, x.rank)
    if not over:
        return x
    peak = r.reduce_max(x, over, True)
    total = reduce_sum_wide(e.exp(e.sub(x, peak)), over, True, bound=1.0)
    return reshape_if(e.add(e.log(total, 0.0), peak), r.reduced(x.shape, over, keep_dims))


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """t - log(sum(exp(t))), t = x - max: log(softmax(x)) would turn small probabilities into -inf (Q24)."""
    over = (axis_of("log_softmax", "axis", axis, x.rank),)
    t = e.sub(x, r.reduce_max(x, over, True))
    return e.sub(t, e.log(reduce_sum_wide(e.exp(t), over, True, bound=1.0), 0.0))


def product(x: Tensor, axes: int | Sequence[int] | None = None, keep_dims: bool = True) -> Tensor:
    """Product over up to 64 elements, halving by multiplication; longer ones are refused."""
    over = axes_of("product", "axes", axes, x.rank)
    count = math.prod(x.shape[i] for i in over)
    if count > 64:
        raise Refused("no engine form", f"a product over {count} elements; up to 64 have a form")
    kept = [i for i in range(x.rank) if i not in over]
    order = [*over, *kept]
    flat = x if order == list(range(x.rank)) else s.transpose(x, order)
    out = reshape_if(flat, (count, math.prod(x.shape[i] for i in kept)))
    while count > 1:
        half, width = count // 2, out.shape[1]
        pair = e.mul(s.slice_by_size(out, (0, 0), (half, width)), s.slice_by_size(out, (half, 0), (half, width)))
        if count % 2:
            pair = s.concat((pair, s.slice_by_size(out, (count - 1, 0), (1, width))), 0)
        out, count = pair, out.shape[0] - half
    return reshape_if(out, r.reduced(x.shape, over, keep_dims))


def running_product(x: Tensor, axis: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Cumulative product along `axis`, over up to 256 elements: log2(n) times, each element takes on the one that
    stands 1, 2, 4, … before it. With the axis in front, where slices are safe (Q08, Q09)."""
    at = axis_of("running_product", "axis", axis, x.rank)
    n = x.shape[at]
    if n > 256:
        raise Refused("limit", f"a running product over {n} elements; up to 256 have a form")
    order = [at, *(i for i in range(x.rank) if i != at)]
    moved = x if at == 0 else s.transpose(x, order)
    rest = math.prod(moved.shape[1:])
    y = reshape_if(moved, (n, rest))
    y = s.reverse(y, (0,)) if reverse else y

    def rows(first: int, count: int) -> Tensor:
        return s.slice_by_size(y, (first, 0), (count, rest))

    if exclusive:
        ones = const(filled((1, rest), 1.0))
        y = s.concat((ones, rows(0, n - 1)), 0) if n > 1 else ones
    step = 1
    while step < n:
        y = s.concat((rows(0, step), e.mul(rows(step, n - step), rows(0, n - step))), 0)
        step *= 2
    y = s.reverse(y, (0,)) if reverse else y
    y = reshape_if(y, moved.shape)
    return y if at == 0 else s.transpose(y, [order.index(i) for i in range(x.rank)])
