"""softmax(q kᵀ scale) v as the engine's own attention, where that is known to be right: asked for by `fuse_attention`.

The text operation was seen to compile and to be right without a mask and for short sequences only (Q40). With a mask the
products stay as they are, mask and all, unless the target's table has no word against it.
"""

from __future__ import annotations

import math
from functools import lru_cache

from .. import ops
from ..ir import Op, Replacement, Rule, Tensor, Uses, miss, rule
from ..targets import Target
from .forms import composed
from .match import made_by, scalar, split_constant

KIND = "scaled_dot_product_attention"
LONGEST, SHORT_SIDE = 2048, 512
"""Q40: garbage for more than 2048 queries or keys, and where neither count is below 512."""


def engine_form(target: Target) -> bool | None:
    """Whether the target's attention takes a mask; None where it has no attention."""
    if target.supports(KIND) is not None:
        return None
    return not any("no mask" in word for word in target.vocabulary[KIND].restrictions)


def distrust(op: Op, masked: bool) -> str | None:
    """Why the engine's attention is not known to be right for these operands; None if it is."""
    query, key = op.operand("query"), op.operand("key")
    return _distrust(query.shape, key.shape, "attn_mask" in op.inputs, masked)


def _distrust(query: tuple[int, ...], key: tuple[int, ...], has_mask: bool, masked: bool) -> str | None:
    if has_mask and not masked:
        return "its form with a mask was never checked on an engine"
    if len(query) != 4:
        return "only rank 4 was checked on an engine"
    if max(query[-2], key[-2]) > LONGEST or min(query[-2], key[-2]) >= SHORT_SIDE:
        return f"more than {LONGEST} positions, or {SHORT_SIDE} and more on both sides, give garbage (Q40)"
    return None


@lru_cache(maxsize=2)
def sdpa_rule(masked: bool) -> Rule:
    """The rule `sdpa`, for targets whose attention takes a mask or does not."""

    @rule("sdpa", "matmul", "the engine's own attention instead of two products and a softmax", quirks="Q40")
    def sdpa(op: Op, uses: Uses) -> Replacement:
        weights, value = op.operand("x"), op.operand("y")
        soft = made_by(weights, "softmax")
        if soft is None or soft.params["axis"] != weights.rank - 1 or op.params["transpose_x"]:
            return None
        scores, after = _peel(soft.operand("x"))
        mask: Tensor | None = None
        if scores.op.kind == "add":
            masks = _masked(scores)
            if masks is None:
                return None
            scores, mask = masks
            if after != 1.0:
                return miss("the mask is scaled with the scores", weights)
            scores, after = _peel(scores)
        product = made_by(scores, "matmul")
        if product is None or product.params["transpose_x"]:
            return None
        query, before = _peel(product.operand("x"))
        keys = _keys(product)
        if keys is None:
            return miss("the keys are not transposed", scores)
        key, between = keys
        if op.params["transpose_y"]:
            return miss("the values are transposed", weights)
        if uses(weights) != 1:
            return miss("the attention weights have another reader", weights)
        if any(t.is_const for t in (query, key, value)):
            return miss("queries, keys or values are constant", scores)
        if not query.rank == key.rank == value.rank or not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
            return miss("queries, keys and values have different batches or heads", scores)
        if query.rank == 3:
            query, key, value = (ops.reshape(t, (1, *t.shape)) for t in (query, key, value))
        why = _distrust(query.shape, key.shape, mask is not None, masked)
        if why is not None:
            return miss(why, scores, weights)
        scale = after * before * between * math.sqrt(query.shape[-1])
        if abs(scale - 1.0) > 1e-5:
            query = ops.mul(query, scale)
        made = ops.scaled_dot_product_attention(query, key, value, mask)
        return ops.reshape_if(made, op.types[0].shape)

    return sdpa


@lru_cache(maxsize=32)
def beyond(target: Target) -> Rule:
    """The rule `attention` of `forms`, for those that the engine's own is not known to be right for."""

    @rule("attention", KIND, "right only for short sequences without a mask", required=True, quirks="Q40")
    def attention(op: Op, uses: Uses) -> Replacement:
        masked = engine_form(target)
        return None if masked is not None and distrust(op, masked) is None else composed(op)

    return attention


def _peel(x: Tensor) -> tuple[Tensor, float]:
    """(y, c) with x = c y: scalar factors taken off, under a transpose, too."""
    if x.op.kind == "transpose":
        inner, factor = _peel(x.op.operand("x"))
        return (x, 1.0) if factor == 1.0 else (ops.transpose(inner, x.op.params["perm"]), factor)
    factor = 1.0
    while x.op.kind in ("mul", "real_div"):
        pair = (x.op.operand("x"), x.op.operand("y")) if x.op.kind == "real_div" else split_constant(x.op)
        value = None if pair is None else scalar(pair[1])
        if pair is None or value is None or not math.isfinite(value) or value == 0.0 or pair[0].type != x.type:
            break
        factor = factor / value if x.op.kind == "real_div" else factor * value
        x = pair[0]
    return x, factor


def _masked(x: Tensor) -> tuple[Tensor, Tensor] | None:
    """(scores, mask) of a sum of a product and something else that broadcasts to it."""
    for scores, mask in ((x.op.operand("x"), x.op.operand("y")), (x.op.operand("y"), x.op.operand("x"))):
        if _peel(scores)[0].op.kind == "matmul" and scores.type == x.type and mask.shape[-1:] == x.shape[-1:]:
            return scores, mask
    return None


def _keys(product: Op) -> tuple[Tensor, float] | None:
    """(k, c): the product's right side is c times k with its last two axes swapped."""
    y = product.operand("y")
    if product.params["transpose_y"]:
        return _peel(y)
    y, outer = _peel(y)
    if y.op.kind != "transpose":
        return None
    swap = (*range(y.rank - 2), y.rank - 1, y.rank - 2)
    order = tuple(y.op.params["perm"][p] for p in swap)
    x = y.op.operand("x")
    return (x if order == tuple(range(y.rank)) else ops.transpose(x, order)), outer


RULES = (sdpa_rule(False),)
