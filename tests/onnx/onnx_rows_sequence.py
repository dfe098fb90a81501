"""Rows of the recurrent operators and of attention; see `onnx_rows`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx_rows import Row, c, normal, w

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(
    op: str,
    steps: int = 5,
    batch: int = 3,
    features: int = 4,
    hidden: int = 6,
    *,
    opset: int = 17,
    bias: bool = True,
    lens: Sequence[int] | None = None,
    states: str = "",
    holes: bool = False,
    **attributes: Any,
) -> Row:
    """`states`: "" for none, "run" for run-time ones, "known" for constants."""
    gates, d = GATES[op], 2 if attributes.get("direction") == "bidirectional" else 1
    many = 2 if op == "LSTM" else 1

    def state(seed: int) -> Any:
        value = normal(d, batch, hidden, seed=seed)
        return {"": None, "run": value, "known": c(value)}[states]

    inputs = [
        (steps, batch, features),
        w(d, gates * hidden, features),
        w(d, gates * hidden, hidden, seed=2),
        w(d, 2 * gates * hidden, seed=3) if bias else None,
        c(lens, np.int32) if lens else None,
        *(state(seed) for seed in (4, 5)[:many]),
        *([w(d, 3 * hidden, seed=6)] if holes else []),
    ]
    while inputs[-1] is None:
        inputs.pop()
    return Row(op, opset, tuple(inputs), {"hidden_size": hidden, **attributes}, 1 + many)


def recurrents() -> Iterator[Row]:
    for op in GATES:
        for opset in (7, 14, 22):
            yield recurrent(op, opset=opset)
        yield recurrent(op, bias=False)
        yield recurrent(op, steps=1)
        yield recurrent(op, batch=1)
        yield recurrent(op, states="run", clip=0.3)
        for direction in ("forward", "reverse", "bidirectional"):
            for lens in (None, [5, 2, 4], [3, 3, 3]):
                for states in ("", "run", "known"):
                    yield recurrent(op, lens=lens, states=states, direction=direction)
    for direction in ("forward", "bidirectional"):
        for late in (0, 1):
            form = {"linear_before_reset": late, "direction": direction}
            yield recurrent("GRU", **form)
            yield recurrent("GRU", bias=False, **form)
            yield recurrent("GRU", states="run", lens=[1, 5, 3], clip=0.4, **form)
        for coupled in (0, 1):
            form = {"input_forget": coupled, "direction": direction}
            yield recurrent("LSTM", **form)
            yield recurrent("LSTM", holes=True, **form)
            yield recurrent("LSTM", holes=True, states="run", clip=0.4, **form)
    yield recurrent("RNN", activations=["Relu", "Tanh"])  # one too many, as the schema's default has it
    both = {"activation_alpha": [0.3], "activation_beta": [0.7]}
    for function in ("Relu", "Sigmoid", "Softsign", "Softplus", "HardSigmoid", "Elu", "LeakyRelu"):
        yield recurrent("RNN", states="run", activations=[function])
    for function in ("LeakyRelu", "ThresholdedRelu", "Elu"):
        yield recurrent("RNN", states="run", activations=[function], activation_alpha=[0.3])
    for function in ("ScaledTanh", "HardSigmoid", "Affine"):
        yield recurrent("RNN", states="run", activations=[function], **both)
    yield recurrent(
        "LSTM",
        activations=["HardSigmoid", "Softsign", "LeakyRelu"],
        activation_alpha=[0.3, 0.2],
        activation_beta=[0.6],
    )
    four = ["HardSigmoid", "Softsign", "HardSigmoid", "Elu"]
    for alphas, betas in (([0.3, 0.2, 0.5], [0.6, 0.4]), ([0.3], [0.6])):
        form = {"activations": four, "activation_alpha": alphas, "activation_beta": betas}
        yield recurrent("GRU", direction="bidirectional", **form)


def attentions() -> Iterator[Row]:
    rng = np.random.RandomState(7)
    q, k = (2, 3, 4, 8), (2, 3, 6, 8)
    bools = rng.rand(4, 6) > 0.4
    bools[2] = False  # a query that may see nothing
    floats = normal(2, 1, 4, 6, seed=8)
    closed = np.where(bools, floats[:1], -np.inf).astype(np.float32)
    for opset in (23, 24):
        yield Row("Attention", opset, (q, k, k))
        yield Row("Attention", opset, (q, k, (2, 3, 6, 5)), {"scale": 0.7, "softcap": 1.5})
        yield Row("Attention", opset, ((2, 4, 24), (2, 6, 24), (2, 6, 24)), {"q_num_heads": 3, "kv_num_heads": 3})
        packed = {"q_num_heads": 6, "kv_num_heads": 2, "is_causal": 1}
        yield Row("Attention", opset, ((2, 4, 24), (2, 6, 8), (2, 6, 8)), packed)
        for heads in (1, 2):
            yield Row("Attention", opset, ((2, 4, 4, 8), (2, heads, 6, 8), (2, heads, 6, 8)))
        for causal in ({}, {"is_causal": 1}):
            for mask in (bools, floats, closed, bools[None, None], np.stack([bools, ~bools])[:, None]):
                yield Row("Attention", opset, (q, k, k, c(mask)), causal)
                yield Row("Attention", opset, (q, k, k, mask), causal)
            yield Row("Attention", opset, (q, k, k, None, (2, 3, 5, 8), (2, 3, 5, 8)), causal, outputs=3)
            mask = np.concatenate([bools, ~bools[:, :5]], 1)
            for form in (mask, c(mask)):
                yield Row("Attention", opset, (q, k, k, form, (2, 3, 5, 8), (2, 3, 5, 8)), causal, outputs=3)
        for mode in (0, 1, 2, 3):
            form = {"qk_matmul_output_mode": mode, "softcap": 2.0}
            yield Row("Attention", opset, (q, k, k, c(floats)), form, outputs=4)
            if mode != 2:  # ONNX Runtime has the least float where ONNX has minus infinity
                yield Row("Attention", opset, (q, k, k, bools), {**form, "is_causal": 1}, outputs=4)
    yield Row("Attention", 24, (q, k, k, None, None, None, c([4, 6])))
    yield Row("Attention", 24, (q, k, k, None, None, None, c([5, 2])), {"is_causal": 1})
    yield Row("Attention", 24, (q, k, k, c(bools), None, None, c([5, 2])), {"is_causal": 1})


def rotaries() -> Iterator[Row]:
    angles = np.random.RandomState(3).rand(10, 4) * 6
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    ids = np.array([[3, 4, 5], [9, 0, 1]])
    heads = {"num_heads": 2}
    for interleaved in (0, 1):
        for x, more in (((2, 2, 3, 8), {}), ((2, 3, 16), heads)):
            form = {**more, "interleaved": interleaved}
            yield Row("RotaryEmbedding", 23, (x, c(cos), c(sin), c(ids)), form)
            yield Row("RotaryEmbedding", 23, (x, cos, sin, c(ids)), form)
            yield Row("RotaryEmbedding", 23, (x, cos[ids], sin[ids]), form)
            for first in (ids, np.array([4])):
                yield Row("RotaryEmbedding", 17, (x, c(first), c(cos), c(sin)), form, domain="com.microsoft")
        form = {"rotary_embedding_dim": 4, "interleaved": interleaved, **heads}
        for part in ((c(cos[:, :2]), c(sin[:, :2])), (cos[:, :2], sin[:, :2])):
            yield Row("RotaryEmbedding", 23, ((2, 2, 3, 8), *part, c(ids)), form)
            yield Row("RotaryEmbedding", 23, ((2, 3, 16), *part, c(ids)), form)
        yield Row(
            "RotaryEmbedding", 17, ((2, 3, 16), c(ids), c(cos[:, :2]), c(sin[:, :2])), form, domain="com.microsoft"
        )


def contribs() -> Iterator[Row]:
    ms: dict[str, Any] = {"domain": "com.microsoft"}
    q, k = (2, 4, 24), (2, 6, 24)
    heads = {"num_heads": 3}
    bias = normal(2, 1, 4, 6, seed=9)
    mask = np.array([[1, 1, 1, 0, 0, 1], [0, 1, 1, 1, 1, 1]], np.int32)
    yield Row("MultiHeadAttention", 17, (q, k, k), heads, **ms)
    yield Row("MultiHeadAttention", 17, (q, q, q), {**heads, "scale": 0.3, "unidirectional": 1}, **ms)
    yield Row("MultiHeadAttention", 17, (q, k, (2, 6, 12), w(60)), heads, **ms)
    yield Row("MultiHeadAttention", 17, (q, k, k, None, c(mask, np.int32)), heads, **ms)
    yield Row("MultiHeadAttention", 17, (q, k, k, None, None, np.concatenate([bias] * 3, 1)), heads, **ms)
    past = (2, 3, 2, 8)
    yield Row("MultiHeadAttention", 17, (q, q, q, None, None, None, past, past), heads, outputs=3, **ms)
    form = {**heads, "unidirectional": 1}
    yield Row("MultiHeadAttention", 17, (q, q, q, None, None, None, past, past), form, outputs=3, **ms)
    yield Row("MultiHeadAttention", 17, (q, (2, 3, 6, 8), (2, 3, 6, 8)), heads, **ms)
    x = (2, 4, 10)
    yield Row("Attention", 17, (x, w(10, 72), w(72)), heads, **ms)
    yield Row("Attention", 17, (x, w(10, 72), w(72)), {**heads, "unidirectional": 1}, **ms)
    yield Row("Attention", 17, (x, w(10, 60), w(60)), {**heads, "qkv_hidden_sizes": [24, 24, 12]}, **ms)
    yield Row("Attention", 17, (x, w(10, 72), w(72), c(mask[:, :4], np.int32)), heads, **ms)
    yield Row("Attention", 17, (x, w(10, 72), w(72), c([3, 4], np.int32)), heads, **ms)
    yield Row("Attention", 17, (x, w(10, 72), w(72), None, (2, 2, 3, 5, 8)), heads, outputs=2, **ms)
    yield Row("Attention", 17, (x, w(10, 72), w(72), None, None, normal(2, 3, 4, 4, seed=9)), heads, **ms)
    yield Row("FusedGemm", 17, ((3, 4), w(5, 4), w(5)), {"activation": "Relu", "transB": 1, "alpha": 0.5}, **ms)
    form = {"activation": "LeakyRelu", "activation_alpha": 0.3}
    yield Row("FusedGemm", 17, ((3, 4), w(4, 5)), form, **ms)
    x, skip = (2, 3, 8), normal(2, 3, 8, seed=4)
    yield Row("SkipSimplifiedLayerNormalization", 17, (x, skip, w(8)), {"epsilon": 1e-5}, outputs=1, **ms)
    yield Row("SkipSimplifiedLayerNormalization", 17, (x, skip, w(8), w(8, seed=3)), **ms)


def sequence_rows() -> Iterator[Row]:
    for part in (recurrents, attentions, rotaries, contribs):
        yield from (row for row in part() if row.opset <= onnx.defs.onnx_opset_version())
