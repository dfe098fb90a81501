"""Rows of the recurrent operators; see `onnx_rows`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
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


def sequence_rows() -> Iterator[Row]:
    yield from recurrents()
