"""What the rows of Attention do not show: onnx's own cases, windows, many queries, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx_harness import bake, close, compute, imported, refusals
from onnx_rows import Row, c, normal
from test_onnx_handlers import build
from test_onnx_node_suite import cases

from aneforge import passes
from aneforge.onnx.importer import import_graph
from aneforge.onnx.view import from_model

pytestmark = pytest.mark.skipif(onnx.defs.onnx_opset_version() < 25, reason="this onnx has no such Attention")
Q, K = (2, 3, 4, 8), (2, 3, 6, 8)


def numpy_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Plainly, in float64; a query without keys gives 0."""
    scores = np.where(
        allowed, q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -np.inf
    )
    most = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(most), most, 0))
    total = weights.sum(-1, keepdims=True)
    return (weights / np.where(total == 0, 1, total)) @ v


def test_node_suite_of_attention() -> None:
    """Every case of onnx in a type that the engine has is computed, data at run time and all else as it is, or known."""
    found = 0
    for name, model, feeds, want in cases():
        if model.graph.node[0].op_type != "Attention" or any(a.dtype.name == "bfloat16" for a in feeds.values()):
            continue
        lengths = {n: a for n, a in feeds.items() if a.dtype == np.int64}
        for constants in (lengths, {n: a for n, a in feeds.items() if n not in ("Q", "K", "V")}):
            done = imported(bake(model, constants))
            assert refusals(done) == [], name
            got = compute(done, feeds)
            for out, expected in want.items():
                loose = (3e-3, 3e-3) if expected.dtype == np.float16 else (2e-4, 2e-5)
                assert close(got[out], expected, *loose) == "", name
        found += 1
    assert found > 80


@pytest.mark.parametrize(("left", "right", "causal"), [(1, 1, 0), (2, -1, 0), (-1, 0, 0), (0, 3, 1), (1, -1, 1)])
def test_windows(left: int, right: int, causal: int) -> None:
    form = {"left_window_size": left, "right_window_size": right, "is_causal": causal}
    model, feeds = build(Row("Attention", 25, (Q, K, K), form))
    place, key = np.arange(4)[:, None], np.arange(6)[None]
    allowed = (left < 0) | (key >= place - left)
    allowed &= (right < 0) | (key <= place + right)
    allowed &= (not causal) | (key <= place)
    want = numpy_attention(*feeds.values(), allowed)
    for numerics, tolerance in (("fp32", 1e-5), ("fp16", 4e-3)):
        (got,) = compute(imported(model), feeds, numerics).values()
        assert np.abs(got - want).max() <= tolerance * np.abs(want).max()


@pytest.mark.parametrize("known", [True, False])
def test_a_query_that_sees_no_key_gives_0(known: bool) -> None:
    """At both numerics, whatever closes it: the mask, minus infinity, or the mask and its place together."""
    closed = np.ones((4, 6), bool)
    closed[1, :2] = False  # causal: the query at 1 sees keys 0 and 1
    bias = np.where(closed, np.float32(0), np.float32(-np.inf))
    for mask in (closed, bias):
        model, feeds = build(Row("Attention", 23, (Q, K, K, c(mask) if known else mask), {"is_causal": 1}))
        want = numpy_attention(*list(feeds.values())[:3], np.tril(np.ones((4, 6), bool)) & closed)
        for numerics, tolerance in (("fp32", 1e-5), ("fp16", 4e-3)):
            (got,) = compute(imported(model), feeds, numerics).values()
            assert (got[:, :, 1] == 0).all()
            assert np.abs(got - want).max() <= tolerance * np.abs(want).max()


def test_a_finite_bias_is_no_mask() -> None:
    """The upper triangle below -1000, the lower above: a bias all the same, not a causal mask (ALiBi)."""
    slope = -(np.arange(4)[:, None] - np.arange(6)[None]).astype(np.float32)
    bias = np.where(slope > 0, np.float32(-2000), slope)
    model, feeds = build(Row("Attention", 23, (Q, K, K, c(bias))))
    q, k, v = feeds.values()
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(8) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = (weights / weights.sum(-1, keepdims=True)) @ v
    assert close(compute(imported(model), feeds)["o0"], want.astype(np.float32), 1e-4, 1e-5) == ""


def test_many_queries_are_taken_in_blocks() -> None:
    """1,100 queries: 512 at a time, the mask with them; two heads share their keys."""
    q, k = (1, 2, 1100, 4), (1, 1, 1100, 4)
    mask = np.random.RandomState(0).rand(1100, 1100) > 0.5
    mask[700] = False
    for form in (c(mask), mask):
        model, feeds = build(Row("Attention", 23, (q, k, k, form), {"is_causal": 1}))
        done = imported(model)
        assert sum(op.kind == "softmax" for op in done.program().ops) == 3
        want = numpy_attention(*list(feeds.values())[:3], np.tril(mask))
        (got,) = compute(done, feeds).values()
        assert np.abs(got - want).max() <= 1e-5


@pytest.mark.parametrize(("inputs", "form", "words"), [
    ((Q, K, K, None, K), {}, "attribute form: past_key without past_value"),
    ((Q, K, (2, 3, 5, 8)), {}, "attribute form: Q (2, 3, 4, 8), K"),
    ((Q, (2, 2, 6, 8), (2, 2, 6, 8)), {}, "attribute form: Q (2, 3, 4, 8), K"),
    (((2, 4, 24), (2, 6, 24), (2, 6, 24)), {"q_num_heads": 5, "kv_num_heads": 3}, "attribute form: 5 heads"),
    ((Q, K, K, c(np.zeros((4, 7), np.float32))), {}, "attribute form: an attn_mask of shape"),
    ((Q, K, K, c(np.zeros((5, 6), np.float32))), {}, "attribute form: the shapes (5, 6)"),
    ((Q, K, K, c(np.full((4, 6), np.inf, np.float32))), {}, "data type: the constant attn_mask"),
    ((Q, K, K, None, None, None, np.array([4, 6])), {}, "computed parameter: its 'nonpad_kv_seqlen'"),
    ((Q, K, K, None, None, None, c([4, 7])), {}, "attribute form: nonpad_kv_seqlen"),
    ((Q, K, K), {"is_causal": 2}, "attribute form: is_causal = 2; 0 and 1"),
    (((2, 4, 24), (2, 3, 6, 8), (2, 3, 6, 8)), {"q_num_heads": 3, "kv_num_heads": 3}, "rank: K of rank 4"),
    ((Q, K, K), {"softcap": -1.0}, "attribute form: a softcap"),
    ((Q, K, K), {"left_window_size": -3}, "attribute form: a window"),
])  # fmt: skip
def test_refusals(inputs: tuple[Any, ...], form: dict[str, Any], words: str) -> None:
    (reason,) = refusals(imported(build(Row("Attention", 25, inputs, form))[0]))
    assert reason.startswith(words)


@pytest.mark.parametrize("mask", [None, c(normal(4, 6)), normal(4, 6) > 0, normal(4, 6)])
def test_the_target_takes_it(mask: Any) -> None:
    model, _ = build(Row("Attention", 23, (Q, K, K, mask), {"is_causal": 1, "softcap": 3.0}))
    done = import_graph(from_model(model), check=passes.check_node)
    assert refusals(done) == []


@pytest.mark.parametrize(("row", "words"), [
    (Row("RotaryEmbedding", 23, (Q, c(np.ones((9, 2))), c(np.ones((9, 2))), c(np.ones((2, 4), int))), {"rotary_embedding_dim": 5}), "attribute form: rotary_embedding_dim = 5"),
    (Row("RotaryEmbedding", 23, (Q, c(np.ones((9, 4))), c(np.ones((9, 4))), c(np.ones((2, 4), int))), {"interleaved": 3}), "attribute form: interleaved = 3"),
    (Row("RotaryEmbedding", 23, (Q, c(np.ones((9, 4))), c(np.ones((9, 4))), c(np.full((2, 4), 9))), {}), "attribute form: position_ids beyond"),
    (Row("MultiHeadAttention", 17, ((2, 4, 24), (1, 4, 24), (2, 4, 24)), {"num_heads": 3}, domain="com.microsoft"), "attribute form: query"),
    (Row("SkipSimplifiedLayerNormalization", 17, ((2, 8), (2, 8), c(np.ones(7))), {}, domain="com.microsoft"), "attribute form: gamma"),
])  # fmt: skip
def test_refusals_of_its_relatives(row: Row, words: str) -> None:
    (reason,) = refusals(imported(build(row)[0]))
    assert reason.startswith(words)
