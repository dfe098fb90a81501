"""Programs, models and processes for the tests of the engine's road."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from standin import COMPILER

from aneforge import backends, ops
from aneforge.ir import Program, input
from aneforge.mil import write
from aneforge.options import Options
from aneforge.targets import resolve
from tests.provider.graphs import close, cnn, floats, model, node

X = floats(1, 3, 8, 8, seed=7)
ENGINE = Options(backend="e5rt")
NEEDS_THE_STANDIN = [
    pytest.mark.skipif(not COMPILER or sys.platform != "linux", reason="needs a C++ compiler on Linux"),
    pytest.mark.filterwarnings("ignore::aneforge.errors.DispatchFloorWarning"),
]


def small(k: float = 0.5) -> Program:
    x = input("x", (2, 3))
    return Program([("x", x)], [("y", ops.add(ops.relu(x), k))])


def compiled(k: float = 0.5) -> backends.Executable:
    return backends.compile(write(small(k)), ENGINE, resolve("m1"))


def several() -> onnx.ModelProto:
    return model(
        [node("Add", "a b", "s"), node("Greater", "a b", "g"), node("Exp", "s", "e")],
        {"a": [2, 3], "b": [2, 3]},
        {"e": [2, 3], "g": [2, 3], "s": [2, 3]},
        types={"g": 9},
    )


def image() -> onnx.ModelProto:
    scale = np.float32([1 / 255])
    return model(
        [
            node("Cast", "x", "f", to=1),
            node("Mul", "f k", "m"),
            node("Conv", "m w", "c", pads=[1, 1, 1, 1]),
            node("Relu", "c", "y"),
        ],
        {"x": [1, 3, 9, 7]},
        {"y": [1, 4, 9, 7]},
        {"k": scale, "w": floats(4, 3, 3, 3, seed=3)},
        types={"x": 2},
    )


def masked() -> onnx.ModelProto:
    return model(
        [node("Where", "m x z", "w"), node("Softmax", "w", "y", axis=-1), node("Not", "m", "n")],
        {"m": [2, 5], "x": [2, 5]},
        {"y": [2, 5], "n": [2, 5]},
        {"z": np.float32([-3])},
        types={"m": 9, "n": 9},
    )


CASES = {
    "cnn": (cnn, {"x": X}),
    "several outputs": (several, {"a": floats(2, 3), "b": floats(2, 3, seed=1)}),
    "bytes": (image, {"x": np.random.default_rng(1).integers(0, 256, (1, 3, 9, 7), np.uint8)}),
    "bools": (masked, {"m": floats(2, 5) > 0, "x": floats(2, 5, seed=2)}),
}


def agree(got: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for g, e in zip(got, expected, strict=True):
        assert g.dtype == e.dtype
        if e.dtype == bool:
            assert np.array_equal(g, e)
        else:
            close(g, e)


CHILD = """
import os, sys
sys.path[:0] = {path!r}
import numpy as np
import aneforge as af
from aneforge.errors import AneforgeError
x = af.input((2, 3))
net = af.compile(x.relu(), backend="e5rt")
assert np.array_equal(net(np.full((2, 3), -1, np.float32)), np.zeros((2, 3)))
"""


def child(body: str) -> str:
    """What a process with a compiled program prints; it must end with 0."""
    path = [p for p in sys.path if p]
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(path=path) + body], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout
