"""Scaled dot-product attention as plain products: the engine's own is only right for short sequences without a mask
(Q40).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..ir import Tensor, const, substitute
from . import activation as a
from . import compare as c_
from . import elementwise as e
from . import matrix as mx
from . import shape as s
from .base import Operand
from .contract import matmul_any, reshape_if
from .layout import slice_axis
from .masks import as_mask

MASKED = -1e4
"""An additive mask's least value: exp gives exactly 0, and two of them still add up inside fp16 (Q27)."""
TILE, LONG = 512, 1024


def causal_mask(queries: int, keys: int) -> np.ndarray:
    """[queries, keys], 0 where key <= query (aligned at the start), MASKED elsewhere."""
    return np.where(np.tril(np.ones((queries, keys), bool)), np.float32(0), np.float32(MASKED))


def attention(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None = None, mask: Operand | None = None, causal: bool = False
) -> Tensor:
    """softmax(scale * q @ k.T + mask) @ v; q [.., S, D], k [.., T, D], v [.., T, E]; scale defaults to 1 / sqrt(D).

    The scale goes on q, before the product, whose results must stay below 32752 (Q04). From 1024 queries on they are
    taken 512 at a time, so that the scores stay on the chip.
    """
    q = e.mul(q, 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale)
    swap = [*range(k.rank - 2), k.rank - 1, k.rank - 2]
    keys = s.transpose(k, swap)
    count = q.shape[-2]
    masks: list[Tensor] = []
    if mask is not None:
        masks.append(mask if isinstance(mask, Tensor) else const(np.maximum(np.asarray(mask), MASKED)))
    if causal:
        masks.append(const(causal_mask(count, k.shape[-2])))
    step = TILE if count >= LONG else count
    parts = []
    for begin in range(0, count, step):
        size = min(step, count - begin)
        scores = matmul_any(slice_axis(q, -2, begin, size), keys)
        for each in masks:
            scores = e.add(scores, _rows(each, begin, size))
        parts.append(matmul_any(a.softmax(scores, -1), v))
    return parts[0] if len(parts) == 1 else s.concat(parts, parts[0].rank - 2)


def _rows(mask: Tensor, begin: int, size: int) -> Tensor:
    if mask.rank < 2 or mask.shape[-2] == 1:
        return mask
    if mask.is_const:
        return const(mask.value[..., begin : begin + size, :])
    return slice_axis(mask, -2, begin, size)


_MOVING = frozenset(
    "reshape expand_dims squeeze transpose slice_by_size concat pad add sub select minimum maximum".split()  # noqa: SIM905
)


def additive_mask(bias: Tensor, least: float) -> tuple[Tensor, Tensor | None]:
    """A computed bias as (what is added to scores, a mask of 0 where it closes a key); no mask: it closes none.

    What is not above `least`, the dtype's lowest number, closes a key, as it does in ONNX Runtime; infinities do.
    (1 - mask) * -3.4e38, as models write it, has no such number in fp16: its factor becomes MASKED, and where the
    factor was the lowest number, MASKED closes.
    """
    scaled: dict[Tensor, Tensor] = {}
    lowest = False
    todo, seen = [bias], {bias}
    while todo and len(seen) < 64:
        op = todo.pop().op
        if op.kind == "mul":
            for x, c in ((op.operand("x"), op.operand("y")), (op.operand("y"), op.operand("x"))):
                if c.is_const and not x.is_const and bool((c.value == 1).all()):  # a broadcast
                    todo.append(x)
                elif c.is_const and c.type.size and float(c.value.max()) <= -32752:
                    scaled[op.outputs[0]] = e.mul(x, np.full(c.shape, MASKED))
                    lowest = lowest or float(c.value.min()) <= 0.99 * least
        elif op.kind in _MOVING:
            todo += [s for s in op.sources if s.dtype == bias.dtype and s not in seen]
        seen.update(todo)
    if not scaled:
        return e.maximum(bias, MASKED), as_mask(c_.greater(bias, least))
    (clamped,) = substitute([bias], scaled)
    return e.maximum(clamped, MASKED), as_mask(c_.greater(clamped, MASKED)) if lowest else None


@dataclass(frozen=True)
class Attended:
    """What an attention computes on its way: scores [B, H, S, T] before and after the soft cap, weights after the
    softmax, the result [B, H, S, E].
    """

    scores: Tensor
    capped: Tensor
    weights: Tensor
    output: Tensor


def grouped_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    masks: Sequence[Tensor] = (),
    live: Tensor | None = None,
    softcap: float = 0.0,
    whole: bool = False,
) -> Attended:
    """softmax(cap(scale * q @ k.T) + masks) @ v; q [B, H, S, D], k [B, G, T, D], v [B, G, T, E], H a multiple of G.

    Heads that share keys are rows of one product, so that nothing is repeated. `masks` add up to no less than MASKED
    each, and `live` is 0 where a query may see no key at all: such a row is 0. Taken in blocks of queries as `attention`
    does, unless the scores or weights are wanted (`whole`).
    """
    (b, h, count, d), (_, groups, keys, _), width = q.shape, k.shape, v.shape[-1]
    q = e.mul(q, scale)
    step = TILE if count >= LONG and not whole else count
    parts: list[Attended] = []
    for begin in range(0, count, step):
        size = min(step, count - begin)
        rows = reshape_if(slice_axis(q, -2, begin, size), (b, groups, h // groups * size, d))
        scores = reshape_if(mx.matmul(rows, k, transpose_y=True), (b, h, size, keys))
        capped = e.mul(a.tanh(e.mul(scores, 1.0 / softcap)), softcap) if softcap else scores
        biased = capped
        for each in masks:
            biased = e.add(biased, _rows(each, begin, size))
        weights = a.softmax(biased, -1)
        if live is not None:
            weights = e.mul(weights, _rows(live, begin, size))
        grouped = reshape_if(weights, (b, groups, h // groups * size, keys))
        parts.append(Attended(scores, capped, weights, reshape_if(mx.matmul(grouped, v), (b, h, size, width))))
    if len(parts) == 1:
        return parts[0]
    return replace(parts[0], output=s.concat([part.output for part in parts], 2))
