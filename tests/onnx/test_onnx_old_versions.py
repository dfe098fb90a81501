"""Operators as they were before opset 7, most of which ONNX Runtime does not run any more: against numpy, plainly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx_harness import bake, close, compute, imported, refusals
from onnx_rows import Row, c, normal, w
from test_onnx_handlers import build

A, B = (2, 3, 4, 5), np.abs(normal(3, 4, seed=9)) + 0.5
Case = tuple[Row, Callable[..., Any]]


def beside(y: np.ndarray, axis: int, rank: int = 4) -> np.ndarray:
    """y at `axis` of a tensor of that rank, for numpy to broadcast."""
    return y.reshape((*y.shape, *(1,) * (rank - axis - y.ndim)))


def cases() -> Iterator[Case]:
    arithmetic: dict[str, Callable[..., Any]] = {
        "Add": np.add,
        "Sub": np.subtract,
        "Mul": np.multiply,
        "Div": np.divide,
    }
    for op, f in arithmetic.items():
        for opset in (1, 6):
            hint = {"consumed_inputs": [0, 0]} if opset == 1 else {}
            yield Row(op, opset, (A, A), hint), f
            y = B if op == "Div" else normal(3, 4, seed=2)
            yield Row(op, opset, (A, c(y)), {"broadcast": 1, "axis": 1, **hint}), lambda x, y, f=f: f(x, beside(y, 1))
            yield (
                Row(op, opset, (A, c(y.T[:, :1].copy())), {"broadcast": 1, "axis": 2}),
                None,
            )  # not a part of A's shape
            yield Row(op, opset, (A, y), {"broadcast": 1, "axis": -3}), lambda x, y, f=f: f(x, beside(y, 1))
            yield Row(op, opset, (A, c(normal(5, seed=4) + 3)), {"broadcast": 1}), f
            yield Row(op, opset, (A, c(np.array([[0.75]], np.float32))), {"broadcast": 1, "axis": 0}), f
            yield Row(op, opset, (A, c(normal(5, seed=4))), {}), None  # no broadcast asked for
    yield Row("Pow", 1, (np.abs(normal(*A)), c([2.0])), {"broadcast": 1}), np.power
    for op, f in (("Greater", np.greater), ("Less", np.less)):
        yield Row(op, 1, (A, normal(3, 4, seed=2)), {"broadcast": 1, "axis": 1}), lambda x, y, f=f: f(x, beside(y, 1))
    truth = normal(2, 3) > 0
    for op, f in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor), ("Equal", np.equal)):
        form = {"broadcast": 1, "axis": 0}
        yield Row(op, 1, (truth, np.array([True, False])), form), lambda x, y, f=f: f(x, y[:, None])
    unary: dict[str, Callable[..., Any]] = {
        "Abs": np.abs,
        "Neg": np.negative,
        "Exp": np.exp,
        "Floor": np.floor,
        "Ceil": np.ceil,
        "Tanh": np.tanh,
        "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "Relu": lambda x: np.maximum(x, 0),
        "Elu": lambda x: np.where(x < 0, np.expm1(x), x),
        "LeakyRelu": lambda x: np.where(x < 0, 0.01 * x, x),
        "Selu": lambda x: 1.0507 * np.where(x < 0, 1.6732 * np.expm1(x), x),
        "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    }
    for op, f in unary.items():
        yield Row(op, 1, ((3, 4),), {"consumed_inputs": [0]}), f
    for op, f in (("Sqrt", np.sqrt), ("Log", np.log), ("Reciprocal", np.reciprocal)):
        yield Row(op, 1, (np.abs(normal(3, 4)) + 0.5,), {"consumed_inputs": [0]}), f
    yield Row("Clip", 1, ((3, 4),), {"min": -0.5, "max": 0.25}), lambda x: np.clip(x, -0.5, 0.25)
    for op, f in (("Max", np.maximum), ("Min", np.minimum), ("Sum", np.add)):
        yield Row(op, 1, ((3, 4), (3, 4)), {"consumed_inputs": [0, 0]}), f
    yield Row("Mean", 1, ((3, 4), (3, 4)), {}), lambda x, y: (x + y) / 2
    for opset in (1, 6):
        yield Row("PRelu", opset, ((2, 3, 4), w(3)), {}), lambda x, s: np.where(x < 0, x * s[:, None], x)
        yield Row("PRelu", opset, ((2, 3, 4), w(1)), {}), lambda x, s: np.where(x < 0, x * s, x)
        yield Row("PRelu", opset, ((2, 3, 4), w(4)), {}), None
        yield Row("Gemm", opset, ((2, 3), w(4, 3), w(4)), {"transB": 1, "broadcast": 1}), lambda a, b, d: a @ b.T + d
        yield Row("Gemm", opset, ((2, 3), w(3, 4), w(2, 4)), {"alpha": 0.5}), lambda a, b, d: 0.5 * (a @ b) + d
        yield Row("Gemm", opset, ((2, 3), w(3, 4), w(4)), {}), None
        statistics = (w(3), w(3, seed=2), w(3, seed=3), c(np.abs(normal(3)) + 0.5))

        def normalized(x: np.ndarray, g: np.ndarray, b: np.ndarray, m: np.ndarray, v: np.ndarray) -> np.ndarray:
            g, b, m, v = (t[:, None, None] for t in (g, b, m, v))
            return (x - m) / np.sqrt(v + 1e-5) * g + b

        hint = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset == 1 else {}
        yield Row("BatchNormalization", opset, ((2, 3, 4, 4), *statistics), {"is_test": 1, **hint}), normalized
        yield Row("BatchNormalization", opset, ((2, 3, 4, 4), *statistics), hint), None  # training
        yield Row("Dropout", opset, ((3, 4),), {"is_test": 1, "ratio": 0.3}), lambda x: x
        yield Row("Dropout", opset, ((3, 4),), {}), None  # training
    yield Row("Reshape", 1, ((2, 3, 4),), {"shape": [0, -1]}), lambda x: x.reshape(2, 12)
    yield Row("Concat", 1, ((2, 3), (2, 4)), {}), lambda x, y: np.concatenate([x, y], 1)
    yield Row("Split", 1, ((4, 6),), {"axis": 1, "split": [2, 4]}, 2), lambda x: np.split(x, [2], 1)
    yield Row("Split", 1, ((4, 6),), {}, 2), None  # no default axis is named
    yield (
        Row("Tile", 1, ((2, 3), c([3.0]), c([1.0])), {}),
        lambda x, n, axis: np.tile(x, (1, 3)),
    )  # in the type of the data
    yield Row("Tile", 1, ((2, 3), c([1.5]), c([1.0])), {}), None
    yield (
        Row("Pad", 1, ((2, 3),), {"paddings": [1, 1, 1, 1], "value": 0.5}),
        lambda x: np.pad(x, 1, constant_values=0.5),
    )
    yield Row("Pad", 1, ((2, 3),), {"paddings": [0, 0, 2, 0]}), None  # two readings
    yield (
        Row("Upsample", 1, ((1, 2, 3, 3),), {"height_scale": 2.0, "width_scale": 3.0}),
        lambda x: x.repeat(2, 2).repeat(3, 3),
    )
    yield Row("Cast", 1, ((2, 3),), {"to": "FLOAT"}), lambda x: x

    def pooled(x: np.ndarray) -> np.ndarray:
        return x.reshape(1, 2, 2, 2, 2, 2)

    form = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield Row("AveragePool", 1, ((1, 2, 4, 4),), form), lambda x: pooled(x).mean((3, 5))
    yield Row("LpPool", 1, ((1, 2, 4, 4),), form), lambda x: np.sqrt((pooled(x) ** 2).sum((3, 5)))
    yield Row("GlobalLpPool", 1, ((1, 2, 4, 4),), {"p": 1.0}), lambda x: np.abs(x).sum((2, 3), keepdims=True)


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: str(case[0]))
def test_old_form(case: Case) -> None:
    """At run time, and with all inputs known: folded where there is a function for it."""
    row, formula = case
    model, feeds = build(row)
    done = imported(model)
    if formula is None:
        assert [r.split(":")[0] for r in refusals(done)] == ["attribute form"]
        assert refusals(imported(bake(model, feeds))) != [] or row.op == "Dropout"
        return
    assert refusals(done) == []
    values = {**feeds, **{t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}}
    made = formula(*(values[name] for name in model.graph.node[0].input))
    wanted = list(made) if isinstance(made, list) else [made]
    for given, feeds_ in ((done, feeds), (imported(bake(model, feeds)), {})):
        for got, want in zip(compute(given, feeds_).values(), wanted, strict=True):
            assert close(got, np.asarray(want).astype(got.dtype), 1e-4, 1e-5) == ""
