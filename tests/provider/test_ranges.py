"""Sessions on numbers at the ends of fp16, and on scalars, against ONNX Runtime's CPU provider."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

import aneforge.provider  # noqa: F401 - registers it
from tests.provider.graphs import NAME, close, floats, model, node, placement, reference, session


def test_constants_beyond_fp16_stay_on_the_cpu() -> None:
    made = model(
        [node("Mul", "x big", "a"), node("Add", "a one", "b"), node("Tanh", "b", "y")],
        {"x": [2, 4]},
        {"y": [2, 4]},
        {"big": np.float32(1e-28), "one": np.float32(0.5)},
    )
    x = floats(2, 4) * np.float32(1e28)
    run = session(made)
    assert placement(run)["CPUExecutionProvider"] == ["Mul"]
    close(run.run(None, {"x": x})[0], reference(made, {"x": x})[0])


def test_decibels_of_faint_sounds() -> None:
    made = model(
        [
            node("MatMul", "x w", "r"),
            node("Mul", "r r", "s"),
            node("Add", "s eps", "a"),
            node("Log", "a", "l"),
            node("Mul", "l scale", "y"),
        ],
        {"x": [4, 16]},
        {"y": [4, 8]},
        {"w": floats(16, 8, seed=3), "eps": np.float32(1e-10), "scale": np.float32(0.25)},
    )
    x = floats(4, 16) * np.float32(1e-3)
    run = session(made)
    assert placement(run) == {NAME: ["MatMul", "Mul"], "CPUExecutionProvider": ["Mul", "Add", "Log"]}
    close(run.run(None, {"x": x})[0], reference(made, {"x": x})[0])


@pytest.mark.parametrize("padded", [0, 3])
def test_a_mask_of_integers(padded: int) -> None:
    made = model(
        [
            node("Cast", "m", "f", to=TensorProto.FLOAT),
            node("Sub", "one f", "i"),
            node("Mul", "i low", "b"),
            node("Add", "x b", "s"),
            node("Softmax", "s", "y"),
        ],
        {"x": [2, 6], "m": [2, 6]},
        {"y": [2, 6]},
        {"one": np.float32(1), "low": np.finfo(np.float32).min},
        {"m": TensorProto.INT64},
    )
    m = np.ones((2, 6), np.int64)
    m[0, 6 - padded :] = 0
    feeds = {"x": floats(2, 6), "m": m}
    run = session(made)
    assert placement(run)["CPUExecutionProvider"] == ["Cast"]
    close(run.run(None, feeds)[0], reference(made, feeds)[0])


@pytest.mark.parametrize("tail", [[], [node("Relu", "p", "y")], [node("Mul", "p z", "y")]])
def test_products_of_vectors(tail: list) -> None:
    """Rank 0 comes out of a product of two vectors."""
    last = "y" if not tail else "p"
    shape = [2, 3] if tail and tail[0].op_type == "Mul" else []
    made = model(
        [node("MatMul", "x w", last), *tail],
        {"x": [5], "w": [5], **({"z": [2, 3]} if shape else {})},
        {"y": shape},
    )
    feeds = {"x": floats(5), "w": floats(5, seed=1), **({"z": floats(2, 3)} if shape else {})}
    run = session(made)
    assert "CPUExecutionProvider" not in placement(run)
    close(run.run(None, feeds)[0], reference(made, feeds)[0])
