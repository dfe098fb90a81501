"""The attentions of com.microsoft, which ONNX Runtime's transformer optimizer writes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from ...ops.attend import grouped_attention
from ..node import Node, broadcast, finite, flag
from ..registry import Known, onnx_op
from ..tensors import Array
from .attention import Masks, joined, merge_heads, split_heads
from .contrib import MS


@onnx_op("MultiHeadAttention", since=(1,), domain=MS)
def multi_head_attention(
    node: Node,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Known | None = None,
    key_padding_mask: Known | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    *,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> list[Tensor | None]:
    """query [B, S, H * D], key [B, T, H * D] or [B, H, T, D], value alike."""
    causal = flag(unidirectional, "unidirectional")
    if key is None or value is None or query.rank != 3 or key.rank != value.rank or key.rank not in (3, 4):
        raise Refused("attribute form", "MultiHeadAttention of packed queries, keys or values")
    widths = [query.shape[2], key.shape[2], value.shape[2]]
    parts = _bias_parts(node, bias, widths if key.rank == 3 else widths[:1])
    given = [query, key, value]
    given = [x if b is None else ops.add(x, b) for x, b in zip(given, [*parts, None, None], strict=False)]
    q, k, v = (split_heads(x, num_heads, "an input") if x.rank == 3 else x for x in given)
    if (past_key is None) != (past_value is None):
        raise Refused("attribute form", "past_key without past_value, or the reverse")
    past = 0
    if past_key is not None and past_value is not None:
        k, v = joined(past_key, k, "past_key"), joined(past_value, v, "past_value")
        past = past_key.shape[2]
    y = _attended(q, k, v, past, key_padding_mask, mask_filter_value, attention_bias, scale, causal)
    return [y, k, v]


def _bias_parts(node: Node, bias: Array | None, widths: Sequence[int]) -> list[Array | None]:
    """The bias of all projections, one piece for each; zeros for a key and a value that need none are left out."""
    if bias is None:
        return [None] * len(widths)
    node.const(finite(bias, "bias"), "bias")
    if bias.ndim != 1 or bias.size < sum(widths):
        raise Refused("attribute form", f"a bias of shape {bias.shape} for widths {list(widths)}")
    if bias.size > sum(widths) and bias[sum(widths) :].any():
        raise Refused("attribute form", "a bias for keys and values that are projected already")
    return list(np.split(bias[: sum(widths)], np.cumsum(widths)[:-1]))


def _attended(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past: int,
    padding: Array | None,
    filter_value: float,
    bias: Tensor | None,
    scale: float,
    causal: bool,
) -> Tensor:
    if q.shape[:2] != k.shape[:2] or k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
        raise Refused("attribute form", f"query {q.shape}, key {k.shape} and value {v.shape} do not fit")
    masks = Masks((*q.shape[:3], k.shape[2]))
    batch, _, count, keys = masks.shape
    if padding is not None:
        if padding.shape == (batch,):
            seen = np.arange(keys) < padding.reshape(batch, 1)
        elif padding.shape == (batch, keys):
            seen = padding != 0
        else:
            raise Refused("attribute form", f"a mask of shape {padding.shape} for {batch} times {keys} keys")
        masks.bias = np.where(seen, np.float32(0), np.float32(filter_value)).reshape(batch, 1, 1, keys)
    if bias is not None:
        if broadcast(bias.shape, masks.shape) != masks.shape:
            raise Refused("attribute form", f"an attention_bias of shape {bias.shape} for scores of {masks.shape}")
        masks.add(bias)
    if causal:
        if count + past != keys:
            raise Refused("attribute form", f"unidirectional, with {count} queries for {keys} keys")
        masks.allowed = np.arange(keys) <= np.arange(count).reshape(count, 1) + past
    factor = scale or 1.0 / math.sqrt(q.shape[-1])
    return merge_heads(grouped_attention(q, k, v, factor, masks.terms()).output)


@onnx_op("Attention", since=(1,), domain=MS)
def attention(
    node: Node,
    x: Tensor,
    weights: Known,
    bias: Known | None = None,
    mask_index: Known | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    qkv_hidden_sizes: Sequence[int] = (),
    scale: float = 0.0,
    unidirectional: int = 0,
) -> list[Tensor | None]:
    """Projection and attention in one: x [B, S, I], weights [I, 3 * H * D]; past and present [2, B, H, P, D]."""
    causal = flag(unidirectional, "unidirectional")
    if do_rotary or x.rank != 3 or weights.ndim != 2 or weights.shape[0] != x.shape[2]:
        raise Refused("attribute form", f"do_rotary, or x of shape {x.shape} with weights of {weights.shape}")
    widths = list(qkv_hidden_sizes) or [weights.shape[1] // 3] * 3
    if len(widths) != 3 or sum(widths) != weights.shape[1]:
        raise Refused("attribute form", f"widths {widths} for weights of shape {weights.shape}")
    node.const(finite(weights, "weights"), "weights")
    products = [ops.matmul_any(x, w) for w in np.split(weights, np.cumsum(widths)[:-1], 1)]
    parts = _bias_parts(node, bias, widths)
    q, k, v = (
        split_heads(y if b is None else ops.add(y, b), num_heads, "a projection")
        for y, b in zip(products, parts, strict=True)
    )
    earlier = 0
    if past is not None:
        if past.rank != 5 or past.shape[:3] != (2, *k.shape[:2]) or past.shape[4] != k.shape[3]:
            raise Refused("attribute form", f"past of shape {past.shape} for keys of {k.shape}")
        earlier = past.shape[3]
        old = [ops.reshape(ops.slice_axis(past, 0, i, 1), past.shape[1:]) for i in range(2)]
        k, v = joined(old[0], k, "past"), joined(old[1], v, "past")
    y = _attended(q, k, v, earlier, mask_index, mask_filter_value, attention_bias, scale, causal)
    if not node.wanted(1):
        return [y, None]
    if k.shape != v.shape:
        raise Refused("attribute form", f"present of keys {k.shape} and values {v.shape}")
    return [y, ops.concat_any([ops.expand_dims(k, (0,)), ops.expand_dims(v, (0,))], 0)]
