"""RotaryEmbedding, ONNX's and ONNX Runtime's."""

from __future__ import annotations

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from ..node import Node, finite, flag
from ..registry import Known, Value, onnx_op
from ..tensors import Array


@onnx_op("RotaryEmbedding", since=(23,))
def rotary_embedding(
    node: Node,
    x: Tensor,
    cos_cache: Value,
    sin_cache: Value,
    position_ids: Known | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """x [B, H, S, D] or [B, S, H * D]; caches [B, S, n], or [P, n] with known positions [B, S]."""
    split = _split(x, num_heads)
    n = (rotary_embedding_dim or split.shape[-1]) // 2
    if rotary_embedding_dim % 2:
        raise Refused("attribute form", f"rotary_embedding_dim = {rotary_embedding_dim}, which is odd")
    return _turned(x, split, cos_cache, sin_cache, position_ids, n, flag(interleaved, "interleaved"))


@onnx_op("RotaryEmbedding", since=(1,), domain="com.microsoft")
def rotary_embedding_of_runtime(
    node: Node,
    x: Tensor,
    position_ids: Known,
    cos_cache: Value,
    sin_cache: Value,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Tensor:
    """As ONNX's; one position is that of the first token."""
    if is_packed_batching or scale != 1.0 or rotary_embedding_dim % 2:
        text = f"is_packed_batching, a scale of {scale}, or an odd rotary_embedding_dim ({rotary_embedding_dim})"
        raise Refused("attribute form", text)
    if len(cos_cache.shape) != 2:
        raise Refused("rank", f"caches of shape {cos_cache.shape}")
    n = cos_cache.shape[-1]
    if x.rank == 3 and not num_heads and not rotary_embedding_dim:
        num_heads = x.shape[2] // (2 * n)
    split = _split(x, num_heads)
    count = x.shape[1] if x.rank == 3 else x.shape[2]
    if position_ids.size == 1 and position_ids.ndim == 1:
        position_ids = np.tile(position_ids.reshape(1, 1) + np.arange(count), (x.shape[0], 1))
    return _turned(x, split, cos_cache, sin_cache, position_ids, n, flag(interleaved, "interleaved"))


def _split(x: Tensor, heads: int) -> Tensor:
    """x with an axis of its own for the head's elements: [B, H, S, D], or [B, S, H, D] of what is packed."""
    if x.rank == 4:
        return x
    if x.rank != 3 or heads < 1 or x.shape[2] % heads:
        raise Refused("attribute form", f"{heads} heads of an input of shape {x.shape}")
    return ops.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))


def _turned(
    x: Tensor, split: Tensor, cos: Value, sin: Value, positions: Array | None, n: int, interleaved: bool
) -> Tensor:
    packed = x.rank == 3
    batch, count = x.shape[0], x.shape[1] if packed else x.shape[2]
    if positions is None:
        wanted: tuple[int, ...] = (batch, count, n)
    elif positions.shape != (batch, count) or positions.dtype.kind not in "iu":
        text = f"position_ids ({positions.dtype}) of shape {positions.shape} for {batch} times {count} tokens"
        raise Refused("attribute form", text)
    else:
        wanted = (*cos.shape[:1], n)
        if cos.shape and positions.size and (positions.min() < 0 or positions.max() >= cos.shape[0]):
            raise Refused("attribute form", f"position_ids beyond the {cos.shape[0]} rows of the caches")
    if cos.shape != wanted or sin.shape != wanted or not 0 < 2 * n <= split.shape[-1]:
        raise Refused("attribute form", f"caches of shape {cos.shape} and {sin.shape} where {wanted} is needed")
    shape = (batch, count, 1, n) if packed else (batch, 1, count, n)
    caches = [_at(given, positions, shape) for given in (cos, sin)]
    y = ops.rotary(split, caches[0], caches[1], interleaved)
    return ops.reshape(y, x.shape) if packed else y


def _at(given: Value, positions: Array | None, shape: tuple[int, ...]) -> Value:
    if isinstance(given, np.ndarray):
        finite(given, "cache")
        return (given if positions is None else given[positions]).reshape(shape)
    taken = given if positions is None else ops.gather_constant(given, positions, 0)
    return ops.reshape(taken, shape)
