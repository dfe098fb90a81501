"""Which element is greatest: positions as fp16 whole numbers, up to 2048, which fp16 counts exactly (Q38).

Infinities take part as the greatest finite numbers: the difference of two infinities is none.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..errors import Refused
from ..ir import Tensor, const
from . import compare as c
from . import elementwise as e
from . import reduce as r
from . import shape as s
from .activation import relu
from .base import axis_of
from .contract import reshape_if
from .masks import broadcast_to, filled, where
from .sums import reduce_sum_wide

COUNTED = 2048
_PAIRS = 1 << 20
"""Comparisons of all elements with each other that a sort may make."""
_STEPS = 16
"""Maxima that are taken one after the other."""
_END = float(np.finfo(np.float32).max)


def _places(shape: tuple[int, ...], at: int) -> NDArray[np.float32]:
    return np.arange(shape[at], dtype=np.float32).reshape([-1 if i == at else 1 for i in range(len(shape))])


def _finite(x: Tensor) -> Tensor:
    return e.clip(x, -_END, _END)


def _first(behind: Tensor, at: int, keep_dims: bool, last: bool) -> Tensor:
    """The first (or last) place where `behind`, which is 0 or -1, is 0."""
    places = _places(behind.shape, at)
    if last:
        return r.reduce_max(e.add(places, e.mul(behind, 4096.0)), (at,), keep_dims)
    return r.reduce_min(e.sub(places, e.mul(behind, 4096.0)), (at,), keep_dims)


def argmax_first(
    x: Tensor, axis: int = -1, keep_dims: bool = True, smallest: bool = False, last: bool = False
) -> Tensor:
    """Index of the first (`last`: the last) greatest element, as fp16 whole numbers; up to 2048 elements.

    min over i of (i + 4096 where x < max): sign(x - max) is -1 there and 0 at the maximum.
    """
    at = axis_of("argmax_first", "axis", axis, x.rank)
    n = x.shape[at]
    if n > COUNTED:
        raise Refused("limit", f"ArgMax over {n} elements: fp16 counts to {COUNTED}")
    x = _finite(e.mul(x, -1.0) if smallest else x)
    return _first(e.sign(e.sub(x, r.reduce_max(x, (at,), True))), at, keep_dims, last)


def first_k(
    x: Tensor, k: int, axis: int = -1, largest: bool = True, values: bool = True, indices: bool = True
) -> tuple[Tensor | None, Tensor | None]:
    """The k greatest (or smallest) elements in order, and their places; equal ones by place (ONNX TopK).

    Few elements are sorted, by counting for each how many come before it; of more, up to 16 maxima are taken one after
    the other.

    Raises:
        Refused: too many of both."""
    at = axis_of("first_k", "axis", axis, x.rank)
    n, outer = x.shape[at], math.prod(x.shape[:at] + x.shape[at + 1 :])
    if n > COUNTED:
        raise Refused("limit", f"TopK over {n} elements: fp16 counts to {COUNTED}")
    lead = x.shape[:at]
    flat = reshape_if(x, (math.prod(lead), n, math.prod(x.shape[at + 1 :])))
    if n * n * outer <= _PAIRS:
        made = _sorted(flat, k, largest, values, indices)
    elif k <= _STEPS and k * x.type.size <= 4 * _PAIRS:
        made = _one_by_one(flat, k, largest, values, indices)
    else:
        raise Refused("limit", f"the first {k} of {n} elements, {outer} times: too many to compare on the engine")
    shape = (*lead, k, *x.shape[at + 1 :])
    return tuple(None if y is None else reshape_if(y, shape) for y in made)  # type: ignore[return-value]


def _pick(hit: Tensor, x: Tensor, at: int) -> Tensor:
    """The element of `x` where `hit` (bool, of its shape) holds, along an axis that is kept."""
    return r.reduce_max(where(hit, x, np.float32(-np.inf)), (at,), True)


def _sorted(x: Tensor, k: int, largest: bool, values: bool, indices: bool) -> tuple[Tensor | None, Tensor | None]:
    """[A, N, B] -> [A, k, B]. rank[i] = how many j come before i: sign(2 sign(x_j - x_i) + order) is 1 for them, where
    order is 1 for j < i and -1 else, so that equal ones count by place."""
    a, n, b = x.shape
    given = _finite(x)
    left, right = s.reshape(given, (a, n, 1, b)), s.reshape(given, (a, 1, n, b))  # [., i, j, .]
    over = e.sign(e.sub(right, left) if largest else e.sub(left, right))
    before = np.where(np.arange(n)[None, :] < np.arange(n)[:, None], 1.0, -1.0).astype(np.float32)
    counted = relu(e.sign(e.add(e.add(over, over), before.reshape(1, n, n, 1))))
    rank = reduce_sum_wide(counted, (2,), True, bound=1.0)  # [A, N, 1, B]
    rank = broadcast_to(rank, (a, n, k, b))
    hit = c.equal(rank, const(np.broadcast_to(np.arange(k, dtype=np.float32).reshape(1, 1, k, 1), rank.shape)))
    picked = None
    if values:
        picked = s.reshape(_pick(hit, broadcast_to(s.reshape(x, (a, n, 1, b)), rank.shape), 1), (a, k, b))
    if not indices:
        return picked, None
    place = where(hit, const(np.broadcast_to(_places(rank.shape, 1), rank.shape)), const(filled(rank.shape, 0.0)))
    return picked, s.reshape(r.reduce_max(place, (1,), True), (a, k, b))


def _one_by_one(x: Tensor, k: int, largest: bool, values: bool, indices: bool) -> tuple[Tensor | None, Tensor | None]:
    """[A, N, B] -> [A, k, B]. What was taken becomes the least number, and its place the last."""
    rest = _finite(x if largest else e.mul(x, -1.0))
    taken: Tensor | None = None
    picked, found = [], []
    for _ in range(k):
        behind = e.sign(e.sub(rest, r.reduce_max(rest, (1,), True)))
        if taken is not None:
            behind = e.sub(behind, e.add(taken, taken))
        place = _first(behind, 1, True, False)
        found.append(place)
        hit = c.equal(e.sub(_places(x.shape, 1), place), 0.0)
        hit = hit if hit.shape == x.shape else broadcast_to(hit, x.shape)
        if values:
            picked.append(_pick(hit, x, 1))
        mark = where(hit, filled(x.shape, 1.0), filled(x.shape, 0.0))
        taken = mark if taken is None else e.add(taken, mark)
        rest = where(hit, filled(x.shape, -_END), rest)
    return (
        s.concat(tuple(picked), 1) if len(picked) > 1 else (picked[0] if picked else None),
        (s.concat(tuple(found), 1) if len(found) > 1 else found[0]) if indices else None,
    )
