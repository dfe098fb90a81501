"""Matrix products."""

from __future__ import annotations

from ..errors import Refused
from ..ir import Tensor, Type
from .base import Operand, broadcast, declare, floating, make, operand


@declare
def matmul(x: Operand, y: Operand, transpose_x: bool = False, transpose_y: bool = False) -> Tensor:
    """numpy's matmul for ranks 2 and more, each operand's last two axes swapped first if asked.

    A constant right side is best given as [N, K] with transpose_y. Results beyond 32752 become infinite (Q04).
    `matmul_any` takes vectors, constants on the left, and rank 5.
    """
    a, b = operand("matmul", "x", x), operand("matmul", "y", y)
    floating("matmul", "x", a)
    floating("matmul", "y", b)
    tx, ty = bool(transpose_x), bool(transpose_y)
    if a.rank < 2 or b.rank < 2:
        raise ValueError(f"matmul: x {a.shape} and y {b.shape} have rank 2 and more")
    m, k = (a.shape[-1], a.shape[-2]) if tx else (a.shape[-2], a.shape[-1])
    k2, n = (b.shape[-1], b.shape[-2]) if ty else (b.shape[-2], b.shape[-1])
    if k != k2:
        raise ValueError(f"matmul: x {a.shape} gives {k} terms, y {b.shape} {k2} (transpose_x={tx}, transpose_y={ty})")
    batch = broadcast("matmul", a.shape[:-2], b.shape[:-2])
    return make("matmul", {"x": a, "y": b}, {"transpose_x": tx, "transpose_y": ty}, Type(a.dtype, (*batch, m, n)))


@declare
def linear(x: Tensor, weight: Operand, bias: Operand | None = None) -> Tensor:
    """x @ weight.T + bias: weight [out, in], bias [out]."""
    floating("linear", "x", x)
    w = operand("linear", "weight", weight)
    if w.rank != 2 or x.rank < 1 or x.shape[-1] != w.shape[1]:
        raise ValueError(f"linear: weight {w.shape} does not fit x {x.shape}")
    inputs = {"x": x, "weight": w}
    if bias is not None:
        inputs["bias"] = b = operand("linear", "bias", bias)
        if b.shape != (w.shape[0],):
            raise ValueError(f"linear: bias {b.shape} is not ({w.shape[0]},)")
    return make("linear", inputs, {}, Type(x.dtype, (*x.shape[:-1], w.shape[0])))


@declare
def einsum(values: tuple[Tensor, ...], equation: str) -> Tensor:
    """Two operands. Kept for completeness: write a matmul, the only form that is known to be right on the engine."""
    raise Refused("no engine form", f"einsum {equation!r} has no verified form on the engine; use matmul")


@declare
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """softmax(query @ key.T / sqrt(E) + mask) @ value. Verified without a mask and for short sequences only (Q40)."""
    kind = "scaled_dot_product_attention"
    for name, given in (("query", query), ("key", key), ("value", value)):
        floating(kind, name, given)
        if given.rank < 3:
            raise ValueError(f"{kind}: {name} has rank 3 and more, not {given.shape}")
    lead = query.shape[:-2]
    if (
        key.shape[:-2] != lead
        or value.shape[:-2] != lead
        or query.shape[-1] != key.shape[-1]
        or key.shape[-2] != value.shape[-2]
    ):
        raise ValueError(f"{kind}: query {query.shape}, key {key.shape} and value {value.shape} do not fit")
    inputs = {"query": query, "key": key, "value": value}
    if attn_mask is not None:
        inputs["attn_mask"] = attn_mask
        scores = (*lead, query.shape[-2], key.shape[-2])
        if attn_mask.shape[-1:] != scores[-1:] or broadcast(kind, attn_mask.shape, scores) != scores:
            raise ValueError(f"{kind}: attn_mask {attn_mask.shape} does not fit the scores {scores}")
    return make(kind, inputs, {}, Type(query.dtype, (*query.shape[:-1], value.shape[-1])))
