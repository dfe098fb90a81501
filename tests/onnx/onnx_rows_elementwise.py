"""Rows of what computes element by element: activations, arithmetic, elementary functions, logic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto
from onnx_rows import Row, c, normal, w


def activations() -> Iterator[Row]:
    x = (3, 4, 5)
    for opset in (7, 13, 14):
        yield Row("Relu", opset, (x,))
    wide = normal(6, 40, scale=6)
    for op, opset in (
        ("Sigmoid", 13), ("Tanh", 13), ("Softplus", 17), ("Softsign", 17), ("HardSwish", 14), ("Erf", 13), ("Mish", 18),
        ("Gelu", 20), ("Elu", 17), ("Selu", 17), ("HardSigmoid", 17), ("LeakyRelu", 17), ("Celu", 12),
    ):  # fmt: skip
        yield Row(op, opset, (wide,), fp16=(8e-3, 3e-3))
    yield Row("Gelu", 20, (wide,), {"approximate": "tanh"}, fp16=(8e-3, 3e-3))
    yield Row("Elu", 7, (x,), {"alpha": 0.3})
    yield Row("Selu", 7, (x,), {"alpha": 1.2, "gamma": 0.8})
    yield Row("Celu", 12, (x,), {"alpha": 2.5})
    yield Row("LeakyRelu", 7, (x,), {"alpha": 0.2})
    yield Row("HardSigmoid", 7, (x,), {"alpha": 0.3, "beta": 0.4})
    yield Row("ThresholdedRelu", 10, (np.array([0.5, 1, 1.5, -2], np.float32),), {"alpha": 1.0})
    yield Row("ThresholdedRelu", 17, (x,), {"alpha": 0.25})
    yield Row("Shrink", 9, (x,), {"bias": 0.25, "lambd": 0.75})
    for opset in (7, 9, 16):
        for slope in (c(0.1), w(1), w(5), w(4, 1), w(3, 1, 1), w(3, 4, 5)):
            yield Row("PRelu", opset, (x, slope))
    yield Row("PRelu", 16, ((1, 3, 2, 2), w(3, 1, 1)))
    yield Row("PRelu", 16, ((2, 3, 2, 2), (3, 1, 1)))
    yield Row("Clip", 6, (x,), {"min": -0.5, "max": 0.75})
    yield Row("Clip", 6, (x,), {"min": 0.1})
    yield Row("Clip", 6, (x,))
    for opset in (11, 12, 13):
        yield Row("Clip", opset, (x, c(-0.5), c(0.75)))
        yield Row("Clip", opset, (x, None, c(0.25)))
        yield Row("Clip", opset, (x, c(0.25)))
        yield Row("Clip", opset, (x,))
    yield Row("Clip", 13, (x, c(0.0), c(6.0)))
    yield Row("Clip", 13, (x, c(3.0), c(-1.0)))
    yield Row("Clip", 13, (x, c(-3.4e38), c(1e30)))
    yield Row("Clip", 13, (x, np.array(-0.5, np.float32), np.array(0.25, np.float32)))


def arithmetic() -> Iterator[Row]:
    shapes = (((2, 3, 4), (2, 3, 4)), ((2, 1, 4), (3, 1)), ((5,), (2, 1, 5)), ((1, 3, 2, 2), (3, 1, 1)), ((), (2, 3)))
    for op in ("Add", "Sub", "Mul"):
        for opset in (7, 13, 14):
            for a, b in shapes:
                yield Row(op, opset, (a, normal(*b, seed=5)))
        yield Row(op, 14, ((2, 3), w(4, 1, 3)))
        yield Row(op, 14, (w(4, 1, 3), (2, 3)))
    positive = np.abs(normal(2, 3, 4)) + np.float32(0.5)
    for opset in (7, 13, 14):
        yield Row("Div", opset, ((2, 3, 4), positive))
        yield Row("Div", opset, ((2, 3, 4), c(4.0)))
        yield Row("Div", opset, (c(4.0), positive))
    for opset in (7, 12, 13, 15):
        for p in (2.0, 3.0, 0.5, -1.0, 1.7, 1.0):
            yield Row("Pow", opset, (positive, c(p)))
    yield Row("Pow", 15, ((2, 3), c(3.0)))
    yield Row("Pow", 15, ((2, 3), c(2)))
    yield Row("Pow", 15, ((2, 3), c(0.0)))
    yield Row("Pow", 15, (positive, c([2.0] * 4)))
    yield Row("Pow", 15, (c(1.5), (2, 3)))
    for op in ("Max", "Min", "Sum", "Mean"):
        for opset in (8, 13):
            yield Row(op, opset, ((2, 3),))
            yield Row(op, opset, ((2, 3), normal(3, seed=2), normal(2, 1, seed=3)))
        yield Row(op, 13, ((2, 3), c(0.25), w(4, 1, 1)))
    for op, opset in (("Neg", 13), ("Abs", 13), ("Exp", 13), ("Floor", 13), ("Ceil", 13), ("Sign", 13)):
        yield Row(op, opset, ((3, 7),))
    for op in ("Sqrt", "Log", "Reciprocal"):
        yield Row(op, 13, (positive,))
    yield Row("Round", 11, (np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1023.5, 2047, 0.49975586], np.float32),))
    mixed = c([[0.0, 1.0, 2.0, 3.0], [-1.0, 2.0, 1.0, 0.0]])
    yield Row("Pow", 13, (normal(2, 4), mixed))
    yield Row("Pow", 13, (normal(3, 1), c([2, 3, 5])))
    yield Row("Pow", 13, (np.abs(normal(3, 1)) + 0.25, c([0.5, 1.5, -0.5])))


def elementary() -> Iterator[Row]:
    inside = np.linspace(-1, 1, 33, dtype=np.float32)
    for op, x in (
        ("Sin", normal(3, 40, scale=20)),
        ("Cos", normal(3, 40, scale=20)),
        ("Tan", normal(3, 40)),
        ("Asin", inside),
        ("Acos", inside),
        ("Atan", normal(3, 40, scale=3)),
        ("Sinh", normal(3, 40, scale=3)),
        ("Cosh", normal(3, 40, scale=3)),
        ("Asinh", normal(3, 40, scale=30)),
        ("Acosh", 1 + np.abs(normal(3, 40, scale=30))),
        ("Atanh", inside[1:-1]),
    ):
        yield Row(op, 17, (x,))
        yield Row(op, 22, (x,))
    yield Row("Atan", 17, (np.array([0.0, -0.0, 60000.0, -60000.0, 1.0], np.float32),))


def logic() -> Iterator[Row]:
    a = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    b = np.array([[1, 3, 2], [4, 1, 7]], np.float32)
    for op, opsets in (
        ("Greater", (7, 9, 13)), ("Less", (7, 9, 13)), ("GreaterOrEqual", (12, 16)), ("LessOrEqual", (12, 16)),
        ("Equal", (11, 13, 19)),
    ):  # fmt: skip
        for opset in opsets:
            yield Row(op, opset, (a, b))
            yield Row(op, opset, (a, c([1.0, 5.0, 3.0])))
    m, n = np.array([[True, False, True], [False, False, True]]), np.array([True, True, False])
    for op in ("And", "Or", "Xor"):
        yield Row(op, 7, (m, n))
        yield Row(op, 7, (m, c(n)))
    yield Row("Not", 1, (m,))
    yield Row("Equal", 13, (m, n))
    for opset in (9, 16):
        yield Row("Where", opset, (m, (2, 3), normal(2, 3, seed=4)))
        yield Row("Where", opset, (c(np.array([True, False]).reshape(2, 1, 1)), (3, 1), normal(4, seed=4)))
        yield Row("Where", opset, (m, c(np.float32(-np.inf)), (2, 3)))


def doubles() -> Iterator[Row]:
    """Computed as floats are; they leave as doubles."""
    x = normal(2, 3, 4).astype(np.float64)
    yield Row("Add", 14, (x, c(normal(4), np.float64)))
    yield Row("MatMul", 13, (x, c(normal(4, 5), np.float64)))
    yield Row("ReduceLogSumExp", 13, (x * 20,), {"axes": [1]})
    yield Row("CumSum", 14, (x, c(1)))
    for to in (TensorProto.FLOAT, TensorProto.FLOAT16):
        yield Row("Cast", 13, (x,), {"to": to})
    yield Row("Cast", 13, (x,), {"to": TensorProto.DOUBLE})
