"""Attention."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor, const
from ...ops.attend import MASKED, Attended, additive_mask, grouped_attention
from ..node import FLOATS, Node, broadcast, flag, wholes
from ..registry import Any_, Known, onnx_op
from ..tensors import Array

LEAST = {name: float(np.finfo(name).min) for name in FLOATS}
"""A bias that is not above its dtype's lowest number closes a key, as minus infinity does (so has ONNX Runtime it). In
fp16 it is -65504, to which finite numbers are narrowed."""


def split_heads(x: Tensor, heads: int, what: str) -> Tensor:
    """[B, S, H * D] as [B, H, S, D]."""
    if x.rank != 3:
        raise Refused("rank", f"{what} of rank {x.rank} where the others are packed")
    batch, count, width = x.shape
    if heads < 1 or width % heads:
        raise Refused("attribute form", f"{heads} heads of {what} of shape {x.shape}")
    return ops.transpose(ops.reshape(x, (batch, count, heads, width // heads)), (0, 2, 1, 3))


def merge_heads(x: Tensor) -> Tensor:
    """[B, H, S, D] as [B, S, H * D]."""
    batch, heads, count, width = x.shape
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, count, heads * width))


@dataclass(eq=False)
class Masks:
    """What every query of `shape` [B, H, S, T] may see, known and not.

    `allowed` and `bias` are known and broadcast to `shape`; `open` are run-time masks of 0 and 1, `added` run-time
    biases, each with what it closes.
    """

    shape: tuple[int, ...]
    allowed: Array = field(default_factory=lambda: np.ones((1, 1), bool))
    bias: Array | None = None
    open: list[Tensor] = field(default_factory=list)
    added: list[tuple[Tensor, Tensor | None]] = field(default_factory=list)
    raw: list[Tensor] = field(default_factory=list)
    lowest: float = LEAST["float32"]

    def terms(self) -> list[Tensor]:
        """What is added to the scores: nothing below MASKED, which fp16 holds and whose exponential is 0 (Q27)."""
        terms = []
        known = np.where(self.allowed, np.float32(0) if self.bias is None else self.bias, np.float32(MASKED))
        if known.any():
            terms.append(const(np.maximum(known, np.float32(MASKED)).astype(np.float32)))
        terms += [ops.mul(ops.sub(mask, 1.0), -MASKED) for mask in self.open]
        return terms + [term for term, _ in self.added]

    def add(self, bias: Tensor) -> None:
        """One more run-time bias."""
        self.raw.append(bias)
        self.added.append(additive_mask(bias, self.lowest))

    def seen(self) -> Array:
        """What the known masks leave open."""
        return self.allowed if self.bias is None else self.allowed & (self.bias > self.lowest)

    def live(self) -> Tensor | None:
        """0 for a query that may see no key, 1 for others, [.., S, 1]; None where all may."""
        seen = self.seen()
        open_ = [*self.open, *(mask for _, mask in self.added if mask is not None)]
        if not open_:
            alive = seen.any(-1, keepdims=True)
            return None if alive.all() else const(alive.astype(np.float32))
        if not seen.all():
            open_.append(const(seen.astype(np.float32)))
        both = open_[0]
        for other in open_[1:]:
            both = ops.mul(both, other)
        return ops.reduce_max(both, (both.rank - 1,), True)

    def biased(self, scores: Tensor) -> Tensor:
        """The scores with everything added as it is: minus infinity where a key is closed."""
        for bias in self.raw:
            scores = ops.add(scores, bias)
        closed = self.allowed
        if self.bias is not None:
            closed = self.allowed & (self.bias > -np.inf)
            scores = ops.add(scores, np.where(closed, self.bias, np.float32(0)))
        for mask in self.open:
            scores = ops.where(ops.as_bool(mask), scores, -np.inf)
        return (
            scores if closed.all() else ops.where(const(np.broadcast_to(closed, self.shape), "bool"), scores, -np.inf)
        )


def _add_mask(node: Node, masks: Masks, position: int) -> None:
    """The input attn_mask: bool or float, known or not; a shorter last axis is closed beyond its end (from 24 on)."""
    shape, dtype, keys = node.shape(position), node.dtype(position), masks.shape[-1]
    if not shape or dtype is None:
        raise Refused("rank", "an attn_mask without axes, or of unknown type")
    short = keys - shape[-1]
    if short and shape[-1] == 1 and node.since >= 24:
        raise Refused("attribute form", f"an attn_mask for 1 of {keys} keys: whether it broadcasts is not said")
    short = 0 if shape[-1] == 1 else short
    if (
        short < 0
        or (short and node.since < 24)
        or broadcast((*shape[:-1], shape[-1] + short), masks.shape) != masks.shape
    ):
        raise Refused("attribute form", f"an attn_mask of shape {shape} for scores of {masks.shape}")
    value = node.value(position)
    masks.lowest = LEAST.get(dtype.name, masks.lowest)
    cells = [(0, 0)] * (len(shape) - 1) + [(0, short)]
    if isinstance(value, np.ndarray):
        if dtype.kind == "b":
            masks.allowed = masks.allowed & np.pad(value, cells)
            return
        node.const(value, "attn_mask")
        if (value == np.inf).any():
            raise Refused("data type", "the constant attn_mask holds an infinity")
        masks.bias = np.pad(value.astype(np.float32), cells, constant_values=-np.inf)
        return
    if dtype.kind == "b":
        mask = node.mask(position)
        masks.open.append(ops.pad_any(mask, cells) if short else mask)
        return
    bias = node.tensor(position)
    masks.add(ops.pad_any(bias, cells, value=MASKED) if short else bias)
    if short:
        masks.allowed = masks.allowed & (np.arange(keys) < shape[-1])


@onnx_op("Attention", since=(23, 24, 25), ignores=("softmax_precision",))
def attention(
    node: Node,
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    attn_mask: Any_ = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Known | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    left_window_size: int = -1,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
) -> list[Tensor | None]:
    """[B, H, S, D], or packed [B, S, H * D]; heads may share keys; masks known or not; a query that sees no key gives 0."""
    if (past_key is None) != (past_value is None):
        raise Refused("attribute form", "past_key without past_value, or the reverse")
    packed = Q.rank == 3
    if packed:
        Q, K, V = (
            split_heads(x, heads, what)
            for x, heads, what in ((Q, q_num_heads, "Q"), (K, kv_num_heads, "K"), (V, kv_num_heads, "V"))
        )
    past = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2] if past_key.rank == 4 else 0
        K, V = joined(past_key, K, "past_key"), joined(past_value, V, "past_value")
    masks = _masks(node, Q, K, V)
    if attn_mask is not None or node.has(3):
        _add_mask(node, masks, 3)
    _positions(node, masks, past, nonpad_kv_seqlen, flag(is_causal, "is_causal"), left_window_size, right_window_size)
    wants_scores = node.wanted(3)
    if softcap < 0 or scale == 0:
        raise Refused("attribute form", f"a softcap of {softcap}, a scale of {scale}")
    made = grouped_attention(
        Q,
        K,
        V,
        1.0 / math.sqrt(Q.shape[-1]) if scale is None else scale,
        masks.terms(),
        masks.live(),
        softcap,
        wants_scores,
    )
    y = merge_heads(made.output) if packed else made.output
    return [y, K, V, _tap(made, masks, qk_matmul_output_mode) if wants_scores else None]


def joined(past: Tensor, new: Tensor, what: str) -> Tensor:
    """What was cached [B, H, P, D], and what is new."""
    if past.rank != 4 or new.rank != 4 or (*past.shape[:2], past.shape[3]) != (*new.shape[:2], new.shape[3]):
        raise Refused("attribute form", f"{what} of shape {past.shape} for {new.shape}")
    return ops.concat_any([past, new], 2)


def _masks(node: Node, q: Tensor, k: Tensor, v: Tensor) -> Masks:
    if not q.rank == k.rank == v.rank == 4:
        raise Refused("rank", f"Q, K and V of rank {q.rank}, {k.rank} and {v.rank}")
    fits = q.shape[0] == k.shape[0] == v.shape[0] and k.shape[1:3] == v.shape[1:3] and q.shape[3] == k.shape[3]
    if not fits or q.shape[1] % k.shape[1]:
        raise Refused("attribute form", f"Q {q.shape}, K {k.shape} and V {v.shape} do not fit")
    return Masks((*q.shape[:3], k.shape[2]))


def _positions(node: Node, masks: Masks, past: int, lengths: Array | None, causal: bool, left: int, right: int) -> None:
    """Closes keys by their places: what lies after a query (aligned at its offset), outside its window, or is padding."""
    batch, _, queries, keys = masks.shape
    offset = np.full((1, 1, 1, 1), past)
    if lengths is not None:
        valid = wholes(lengths)
        if lengths.shape != (batch,) or past or min(valid) < 0 or max(valid) > keys:
            raise Refused("attribute form", f"nonpad_kv_seqlen {valid} for {batch} sequences of {keys} keys")
        ends = np.asarray(valid).reshape(batch, 1, 1, 1)
        masks.allowed = masks.allowed & (np.arange(keys) < ends)
        offset = ends - queries
    place = offset + np.arange(queries).reshape(queries, 1)  # of each query, among the keys
    if left < -1 or right < -1:
        raise Refused("attribute form", f"a window of {left} to the left and {right} to the right")
    if causal:
        right = 0
    if left >= 0:
        masks.allowed = masks.allowed & (np.arange(keys) >= place - left)
    if right >= 0:
        masks.allowed = masks.allowed & (np.arange(keys) <= place + right)


def _tap(made: Attended, masks: Masks, mode: int) -> Tensor:
    """The fourth output."""
    match mode:
        case 0:
            return made.scores
        case 1:
            return made.capped
        case 2:
            return masks.biased(made.capped)
        case 3:
            return made.weights
        case _:
            raise Refused("attribute form", f"qk_matmul_output_mode = {mode}")
