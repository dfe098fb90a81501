"""One row for each form of each operator: what the model holds, judged by ONNX Runtime's CPU provider.

A row is (operator, opset, inputs, attributes). An input is a shape (computed at run time, normal numbers), an array
(computed at run time, as given), `c(...)` (a constant), or None (absent).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper


@dataclass(frozen=True)
class Const:
    value: np.ndarray


@dataclass(frozen=True)
class Row:
    op: str
    opset: int
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    domain: str = ""
    fp32: tuple[float, float] = (1e-4, 1e-5)  # relative, and absolute in shares of the greatest value
    fp16: tuple[float, float] = (6e-3, 3e-3)
    kind: int = TensorProto.FLOAT  # of results that onnx does not infer
    steps: int = 0  # by how much a few codes may differ in fp16, where the middle between two of them is near

    def __str__(self) -> str:
        shown = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        forms = "x".join(_form(i) for i in self.inputs)
        return f"{self.op}-{self.opset}({forms};{shown})".replace(" ", "")


def _form(given: Any) -> str:
    if given is None:
        return "_"
    if isinstance(given, Const):
        return "c" + "".join(f"{d}." for d in given.value.shape)
    return "".join(f"{d}." for d in (given.shape if isinstance(given, np.ndarray) else given))


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.RandomState(seed).standard_normal(shape) * scale).astype(np.float32)


def c(value: Any, dtype: Any = None) -> Const:
    """A constant; ints become int64, floats float32."""
    array = np.asarray(value)
    if dtype is None:
        dtype = {"i": np.int64, "f": np.float32, "b": np.bool_}[array.dtype.kind]
    return Const(array.astype(dtype))


def w(*shape: int, seed: int = 1, scale: float = 0.4) -> Const:
    """A constant of normal numbers."""
    return Const(normal(*shape, seed=seed, scale=scale))


def rows() -> Iterator[Row]:
    """All rows whose opset the installed onnx knows."""
    from onnx_rows_images import images  # noqa: PLC0415 - these need the words of this file
    from onnx_rows_indexing import indexing  # noqa: PLC0415

    for part in (
        images,
        indexing,
        convolutions,
        pools,
        activations,
        arithmetic,
        elementary,
        logic,
        products,
        layouts,
        norms,
        reductions,
        orders,
        integers,
        one_hots,
        quantizations,
        quantized,
        resizes,
        contrib,
        doubles,
    ):
        yield from (row for row in part() if row.opset <= onnx.defs.onnx_opset_version())


def convolutions() -> Iterator[Row]:
    for opset in (7, 11, 17, 22):
        yield Row("Conv", opset, ((1, 3, 8, 9), w(4, 3, 3, 3)), {"pads": [1, 1, 1, 1]})
    yield Row("Conv", 17, ((2, 3, 8, 9), w(4, 3, 3, 2), w(4)), {"pads": [0, 1, 2, 0], "strides": [2, 1]})
    yield Row("Conv", 17, ((1, 4, 9, 9), w(6, 2, 3, 3), w(6)), {"group": 2, "dilations": [2, 1], "pads": [2, 1, 2, 1]})
    yield Row("Conv", 17, ((1, 4, 7, 7), w(8, 1, 3, 3)), {"group": 4, "strides": [2, 2]})
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield Row("Conv", 17, ((1, 2, 7, 6), w(3, 2, 3, 4)), {"auto_pad": auto, "strides": [2, 2]})
        yield Row("Conv", 17, ((1, 2, 11), w(3, 2, 4)), {"auto_pad": auto, "strides": [3]})
    yield Row("Conv", 17, ((2, 3, 17), w(4, 3, 5), w(4)), {"pads": [2, 1], "strides": [2], "dilations": [2]})
    yield Row("Conv", 17, ((1, 2, 61), w(3, 2, 12)), {"pads": [3, 3], "strides": [6]})
    yield Row("Conv", 17, ((1, 2, 5, 5), (3, 2, 3, 3), (3,)), {"pads": [1, 1, 1, 1]})
    yield Row("Conv", 17, ((1, 2, 5, 5), w(3, 2, 3, 3), (3,)), {"pads": [1, 1, 1, 1]})
    yield Row("ConvTranspose", 7, ((1, 3, 4, 5), w(3, 2, 3, 3)), {"strides": [2, 2]})
    both = {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}
    yield Row("ConvTranspose", 17, ((1, 3, 4, 5), w(3, 2, 3, 3), w(2)), both)
    yield Row(
        "ConvTranspose", 17, ((1, 4, 3, 4), w(4, 2, 2, 3), w(4)), {"group": 2, "strides": [1, 2], "pads": [0, 1, 1, 0]}
    )
    yield Row("ConvTranspose", 17, ((2, 3, 5), w(3, 2, 4), w(2)), {"strides": [3], "pads": [1, 2]})
    yield Row("ConvTranspose", 17, ((1, 2, 4, 4), w(2, 1, 3, 3)), {"strides": [2, 2], "output_shape": [8, 8]})
    yield Row("ConvTranspose", 17, ((1, 2, 4, 4), w(2, 1, 3, 3)), {"strides": [2, 2], "output_shape": [9, 8]})
    yield Row("ConvTranspose", 17, ((1, 1, 4, 4), w(1, 2, 2, 2)), {"dilations": [2, 3]})
    # More output padding than end padding: rows of bias alone.
    yield Row("ConvTranspose", 17, ((1, 2, 3, 3), w(2, 2, 2, 2), w(2)), {"strides": [3, 3], "output_padding": [2, 1]})
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield Row("ConvTranspose", 17, ((1, 1, 3, 4), w(1, 1, 3, 3)), {"strides": [2, 2], "auto_pad": auto})
    shaped = {"strides": [2, 2], "output_shape": [6, 7], "auto_pad": "SAME_UPPER"}
    yield Row("ConvTranspose", 17, ((1, 1, 3, 4), w(1, 1, 4, 3)), shaped)


def pools() -> Iterator[Row]:
    for op, opsets in (("MaxPool", (8, 10, 11, 12, 22)), ("AveragePool", (7, 10, 11, 19, 22))):
        for opset in opsets:
            yield Row(op, opset, ((1, 2, 7, 8),), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]})
        for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
            yield Row(op, 17, ((1, 2, 7, 6),), {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": auto})
        for pads in ([0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 1]):
            for strides in ([1, 1], [2, 2], [3, 2]):
                form = {"kernel_shape": [3, 3], "strides": strides, "pads": pads, "ceil_mode": 1}
                yield Row(op, 17, ((1, 2, 6, 7),), form)
        yield Row(op, 17, ((2, 3, 11),), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]})
        yield Row(op, 17, ((2, 3, 11),), {"kernel_shape": [4], "strides": [3], "pads": [0, 2], "ceil_mode": 1})
        yield Row(
            op, 17, ((1, 2, 4, 5, 6),), {"kernel_shape": [2, 2, 3], "strides": [2, 1, 3], "pads": [0, 1, 1, 1, 0, 1]}
        )
        yield Row(op, 17, ((1, 2, 6, 7),), {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [0, 0, 2, 2]})
        yield Row(op, 17, ((1, 1, 3, 3),), {"kernel_shape": [1, 1], "strides": [3, 3], "ceil_mode": 1})
    for pads in ([1, 1, 1, 1], [2, 0, 1, 1]):
        for ceil in (0, 1):
            form = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": pads, "count_include_pad": 1, "ceil_mode": ceil}
            yield Row("AveragePool", 17, ((1, 2, 6, 7),), form)
    deep = {"kernel_shape": [2, 2, 2], "pads": [1, 0, 1, 0, 1, 1], "count_include_pad": 1, "strides": [2, 1, 2]}
    yield Row("AveragePool", 17, ((1, 2, 4, 5, 6),), deep)
    yield Row("MaxPool", 17, ((1, 2, 8, 8),), {"kernel_shape": [2, 3], "strides": [1, 2], "dilations": [3, 2]})
    dilated = {"kernel_shape": [2, 3], "strides": [1, 2], "dilations": [3, 2], "pads": [1, 2, 0, 1]}
    yield Row("MaxPool", 17, ((1, 2, 8, 8),), dilated)
    yield Row("MaxPool", 17, ((1, 2, 12),), {"kernel_shape": [3], "dilations": [3], "pads": [2, 1]})
    yield Row("AveragePool", 19, ((1, 2, 8, 8),), dilated)
    yield Row("AveragePool", 19, ((1, 2, 8, 8),), {**dilated, "count_include_pad": 1})
    for opset in (11, 18, 22):
        for p in (1, 2):
            form = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 0, 1], "p": p}
            yield Row("LpPool", opset, ((1, 2, 6, 7),), form)
    yield Row("LpPool", 11, ((1, 2, 9),), {"kernel_shape": [3], "strides": [2]})
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield Row(op, 17, ((2, 3, 9),))
        yield Row(op, 17, ((1, 3, 6, 7),))
        yield Row(op, 17, ((1, 2, 3, 4, 5),))
    yield Row("GlobalLpPool", 17, ((1, 3, 6, 7),), {"p": 1})


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


def products() -> Iterator[Row]:
    for opset in (7, 9, 13):
        for left, right in (
            ((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)),
            ((6,), (6,)), ((2, 1, 2, 3, 4), (1, 2, 2, 4, 3)), ((3, 4), (2, 4, 5)),
        ):  # fmt: skip
            yield Row("MatMul", opset, (left, normal(*right, seed=3)))
            yield Row("MatMul", opset, (left, w(*right)))
            yield Row("MatMul", opset, (w(*left), right))
    for opset in (7, 9, 11, 13):
        for bias in (c(3.0), w(5), w(1, 5), w(3, 1), w(3, 5), w(1, 1)):
            yield Row("Gemm", opset, ((3, 4), w(4, 5), bias), {"alpha": 0.5, "beta": 2.0})
        yield Row("Gemm", opset, ((4, 3), w(5, 4), w(5)), {"transA": 1, "transB": 1})
    for opset in (11, 13):
        yield Row("Gemm", opset, ((3, 4), w(4, 5)))
        yield Row("Gemm", opset, ((3, 4), (5, 4), (3, 1)), {"transB": 1, "alpha": 0.5, "beta": 0.25})
        yield Row("Gemm", opset, (w(3, 4), (4, 5)), {"alpha": 2.0})
        yield Row("Gemm", opset, ((3, 4), w(4, 5), (5,)), {"beta": 0.0})
    yield Row("Gemm", 13, ((3, 3), w(3, 3), w(3, 1)))  # M = N: C is a column all the same
    for equation, *shapes in (
        ("bhqd,bhkd->bhqk", (1, 2, 3, 4), (1, 2, 5, 4)), ("ij,jk", (3, 4), (4, 2)), ("i,i->", (5,), (5,)),
        ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)), ("abc,cd->bda", (2, 3, 4), (4, 5)), ("ij->ji", (3, 4)),
        ("ij->", (3, 4)), ("ij->j", (3, 4)), ("ij,kl->ijkl", (2, 3), (4, 2)), ("bij,bjk->ik", (2, 3, 4), (2, 4, 5)),
        ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)), ("...i->...", (2, 3, 4)), ("ij,ij->ij", (3, 4), (3, 4)),
        ("bhwc,hkc->bhwk", (1, 3, 4, 5), (3, 6, 5)), (" ij , jk -> ik ", (2, 3), (3, 4)), ("ba,ca", (2, 3), (4, 3)),
        ("...ij,jk->...ik", (2, 2, 3, 4), (4, 5)), ("ii->i", (4, 4)), ("ii", (3, 3)), ("...ii->...i", (2, 3, 3)),
        ("iij->ji", (3, 3, 2)), ("iji->ij", (3, 2, 3)), ("bii,bi->b", (2, 3, 3), (2, 3)), ("ii->i", (1, 1)),
    ):  # fmt: skip
        yield Row("Einsum", 12, tuple(normal(*s, seed=i) for i, s in enumerate(shapes)), {"equation": equation})


def layouts() -> Iterator[Row]:
    x = (2, 3, 4)
    for opset in (5, 13, 14, 19):
        yield Row("Reshape", opset, (x, c([0, -1])))
        yield Row("Reshape", opset, (x, c([0, 0, 2, -1])))
    yield Row("Reshape", 14, ((1, 1), c(np.zeros(0, np.int64))))
    yield Row("Reshape", 14, ((), c([1, 1])))
    yield Row("Reshape", 14, (x, c([4, 6])), {"allowzero": 1})
    for opset in (7, 9, 11, 13):
        for axis in (0, 1, 2, 3):
            yield Row("Flatten", opset, (x,), {"axis": axis})
    yield Row("Flatten", 13, (x,), {"axis": -1})
    yield Row("Transpose", 13, (x,))
    yield Row("Transpose", 13, ((4, 4, 4),), {"perm": [1, 2, 0]})
    yield Row("Transpose", 13, ((1, 3, 1, 4),), {"perm": [2, 0, 1, 3]})
    yield Row("Transpose", 13, ((1, 2, 3, 4, 4),), {"perm": [0, 2, 1, 3, 4]})
    yield Row("Squeeze", 11, ((1, 3, 1, 2),), {"axes": [-2]})
    yield Row("Squeeze", 11, ((1, 3, 1, 2),))
    yield Row("Squeeze", 13, ((1, 3, 1, 2), c([0])))
    yield Row("Squeeze", 13, ((1, 3, 1, 2),))
    yield Row("Unsqueeze", 11, ((2, 3),), {"axes": [0, 3]})
    yield Row("Unsqueeze", 13, ((2, 3), c([-2, 0])))
    for opset in (7, 11, 13):
        yield Row("Concat", opset, (x, normal(2, 1, 4), w(2, 2, 4)), {"axis": 1})
        yield Row("Concat", opset, (x,), {"axis": 0})
    yield Row("Concat", 13, (x, c(np.zeros((2, 0, 4), np.float32))), {"axis": -2})
    yield Row("Split", 11, ((4, 6, 5),), {"axis": 1, "split": [1, 3, 2]}, outputs=3)
    yield Row("Split", 11, ((4, 6, 5),), {"axis": 1}, outputs=2)
    yield Row("Split", 13, ((4, 6, 5), c([2, 3])), {"axis": -1}, outputs=2)
    yield Row("Split", 18, ((4, 6, 5),), {"axis": 2, "num_outputs": 3}, outputs=3)
    y = (4, 6, 5)
    yield Row("Slice", 9, (y,), {"axes": [0, 2], "starts": [1, -9], "ends": [3, -1]})
    yield Row("Slice", 9, (y,), {"starts": [1, 2], "ends": [3, 2**63 - 1]})
    for opset in (10, 11, 13):
        yield Row("Slice", opset, (y, c([2, 1]), c([2**63 - 1, 2**31 - 1]), c([0, 1])))
        yield Row("Slice", opset, (y, c([-1, 3]), c([-(2**63), 0]), c([-2, -1]), c([-2, -1])))
        yield Row("Slice", opset, (y, c([0, 0, 1]), c([9, 9, 9]), None, c([2, 3, 2])))
        yield Row("Slice", opset, (y, c([1], np.int32), c([5], np.int32), c([1], np.int32), c([2], np.int32)))
    yield Row("Slice", 13, ((3, 20), c([1]), c([18]), c([1]), c([5])))
    yield Row("Slice", 13, ((3, 20), c([19]), c([-100]), c([1]), c([-3])))
    yield Row("Expand", 8, ((3, 1), c([2, 1, 4])))
    yield Row("Expand", 13, ((), c([2, 3])))
    yield Row("Expand", 13, ((2, 3), c([1])))
    yield Row("Tile", 13, ((1, 2, 3), c([2, 1, 3])))
    yield Row("Tile", 6, ((2, 3), c([1, 5])))
    yield Row("Identity", 13, (x,))
    yield Row("Dropout", 7, (x,), {"ratio": 0.5})
    yield Row("Dropout", 10, (x,))
    yield Row("Dropout", 13, (x,), outputs=2)
    yield Row("Dropout", 13, (x, c(0.5), c(np.array(False))))
    for opset in (7, 11, 13):
        yield Row("DepthToSpace", opset, ((1, 8, 2, 3),), {"blocksize": 2})
    yield Row("DepthToSpace", 13, ((1, 8, 2, 3),), {"blocksize": 2, "mode": "CRD"})
    yield Row("SpaceToDepth", 7, ((1, 2, 6, 3),), {"blocksize": 3})
    yield Row("Shape", 13, (x,))
    yield Row("Shape", 15, (x,), {"start": -2})
    yield Row("Size", 13, (x,))
    yield Row("EyeLike", 9, ((3, 4),), {"k": 1})
    image = (1, 2, 4, 5)
    yield Row("Pad", 10, (image,), {"pads": [0, 0, 1, 3, 0, 0, 2, 0], "value": 1.5})
    for mode in ("reflect", "edge"):
        yield Row("Pad", 10, (image,), {"pads": [0, 0, 1, 3, 0, 0, 2, 0], "mode": mode})
        yield Row("Pad", 13, (image, c([0, 1, 1, 3, 0, 0, 2, 4])), {"mode": mode})
    yield Row("Pad", 13, (image, c([1, 0, 1, 3, 0, 2, 2, 0]), c(-2.0)))
    yield Row("Pad", 13, (image, c([0, 0, -1, 0, 0, 0, -1, 2])))
    yield Row("Pad", 18, (image, c([1, 0, 1, 2]), c(-2.0), c([1, -1])))
    yield Row("Pad", 18, ((2, 5), c([1, 0, 0, 3])))
    yield Row("Pad", 18, ((2, 3, 5), c([1, 0, 0, 0, 1, 3])), {"mode": "reflect"})
    yield Row("Pad", 19, (image, c([0, 0, 1, 3, 0, 0, 2, 0])), {"mode": "wrap"})
    yield Row("Gather", 13, (y, c([-1, 0, -6])), {"axis": 1})
    yield Row("Gather", 13, (y, c(-3)), {"axis": -1})
    yield Row("Gather", 11, (y, c([[0, 3], [2, 2], [1, 0]], np.int32)))
    yield Row("Gather", 7, (y, c([4, 1, 0, 2, 3])), {"axis": 2})
    yield Row("Gather", 13, ((3, 40), c([7, 3, 3, 39, 0, 21, 22, 5, 11, 30])), {"axis": 1})
    yield Row("GatherND", 12, ((3, 4), c([[0, 1], [-1, -1]])))
    yield Row("GatherND", 13, ((3, 4, 2), c([[[0], [2]]])))
    for upper in (0, 1):
        for k in (-2, 0, 1, 9):
            yield Row("Trilu", 14, ((2, 4, 5), c(k)), {"upper": upper})
    yield Row("Trilu", 14, (np.array([[1, np.inf], [np.inf, 2]], np.float32),), {"upper": 0})
    yield Row("Cast", 13, (x,), {"to": TensorProto.FLOAT})
    yield Row("Cast", 13, (np.array([True, False]),), {"to": TensorProto.FLOAT})
    yield Row("Cast", 13, (np.arange(12, dtype=np.uint8).reshape(3, 4) * 20,), {"to": TensorProto.FLOAT})
    yield Row("CastLike", 15, (np.array([True, False]), c(0.0)))


def norms() -> Iterator[Row]:
    for opset in (7, 9, 14, 15):
        for shape in ((5, 3), (2, 3, 7), (2, 3, 4, 5)):
            parameters = (w(3), w(3, seed=2), w(3, seed=3), c(np.array([0.3, 2, 1e-3], np.float32)))
            yield Row("BatchNormalization", opset, (shape, *parameters), {"epsilon": 1e-3})
    for axis in (-1, 1, 2):
        sizes = {-1: (5,), 1: (3, 4, 5), 2: (4, 5)}[axis]
        yield Row("LayerNormalization", 17, ((2, 3, 4, 5), w(*sizes), w(*sizes, seed=2)), {"axis": axis})
    yield Row("LayerNormalization", 17, ((2, 3, 32), w(32)), {"epsilon": 1e-3})
    yield Row("LayerNormalization", 17, (normal(2, 3, 32, scale=1000), w(32), w(32, seed=2)))
    yield Row("LayerNormalization", 17, ((2, 32), w(1), (32,)))
    for axis, scale in ((-1, 3.0), (1, 200.0), (0, 0.01)):
        sizes = (2, 3, 4, 32)[axis:] if axis else (2, 3, 4, 32)
        given = (normal(2, 3, 4, 32, scale=scale) + 5 * scale, w(*sizes), w(*sizes, seed=2))
        yield Row("LayerNormalization", 17, given, {"axis": axis}, outputs=3)
    for shape in ((2, 3, 9), (2, 3, 4, 5)):
        yield Row("InstanceNormalization", 6, (shape, w(3), w(3, seed=2)), {"epsilon": 1e-3})
        yield Row("InstanceNormalization", 17, (shape, (3,), (3,)))
    yield Row("GroupNormalization", 21, ((2, 6, 3, 3), w(6), w(6, seed=2)), {"num_groups": 3})
    yield Row("GroupNormalization", 21, ((2, 6, 5), w(6), w(6, seed=2)), {"num_groups": 2})
    for p in (1, 2):
        for axis in (-1, 1):
            yield Row("LpNormalization", 17, ((3, 4, 5),), {"p": p, "axis": axis})
    yield Row("MeanVarianceNormalization", 13, ((2, 3, 4, 5),))
    yield Row("MeanVarianceNormalization", 9, ((2, 3, 4, 5),), {"axes": [2, 3]})
    yield Row("LRN", 13, ((1, 7, 3, 3),), {"size": 3, "alpha": 0.5, "beta": 0.6, "bias": 2.0})
    yield Row("LRN", 7, ((1, 7, 3, 3),), {"size": 5})
    yield Row("RMSNormalization", 23, ((2, 3, 16), w(16)))


def reductions() -> Iterator[Row]:
    x = np.abs(normal(2, 3, 4, 2)) + np.float32(0.1)
    for op in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"):
        for opset in (7, 11, 12, 13):
            if op == "Sum" and opset == 13:
                yield Row("ReduceSum", 13, (x, c([1, -1])), {"keepdims": 0})
                continue
            yield Row(f"Reduce{op}", opset, (x,), {"axes": [1, 3], "keepdims": 0})
            yield Row(f"Reduce{op}", opset, (x,), {"axes": [2]})
            if opset > 7:
                yield Row(f"Reduce{op}", opset, (x,), {"axes": [-2]})
        yield Row(f"Reduce{op}", 18, (x, c([-1, 1])), {"keepdims": 0})
        yield Row(f"Reduce{op}", 18, (x[0],), {"keepdims": 0})
        yield Row(f"Reduce{op}", 18, (x[0], c(np.zeros(0, np.int64))))
    for op in ("Sum", "Mean", "Max", "Min"):
        yield Row(f"Reduce{op}", 18, (x, c(np.zeros(0, np.int64))), {"noop_with_empty_axes": 1})
    yield Row("ReduceSum", 13, (np.ones((2, 2049), np.float32), c([1])))
    yield Row("ReduceMean", 18, (np.full((2, 512), 3000, np.float32), c([1])))
    yield Row("ReduceLogSumExp", 18, (np.array([[30, 31, 29], [-40, -41, -39]], np.float32), c([1])))
    yield Row("ReduceL2", 18, (np.array([[3000, 4000], [0.003, 0.004]], np.float32), c([1])))
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for opset in (7, 11):
            yield Row(op, opset, ((2, 3, 4),))
            for axis in (0, 1, 2):
                yield Row(op, opset, ((2, 3, 4),), {"axis": axis})
        yield Row(op, 11, ((2, 3, 4),), {"axis": -2})
        yield Row(op, 13, ((2, 3, 4),))
        for axis in (0, 1, -1):
            yield Row(op, 13, ((2, 3, 4),), {"axis": axis})
    yield Row("Hardmax", 13, (np.array([[1, 3, 3, 2], [5, 5, 5, 5]], np.float32),))
    yield Row("Softmax", 13, (np.array([[1000, 1001, 999, -1000]], np.float32),))
    for exclusive in (0, 1):
        for reverse in (0, 1):
            yield Row("CumSum", 14, ((2, 5, 3), c(1)), {"exclusive": exclusive, "reverse": reverse})
    yield Row("CumSum", 11, ((2, 20), c(-1, np.int32)))


def orders() -> Iterator[Row]:
    ties = np.array([[1, 3, 3, 2], [5, 5, 5, 5], [-1, -2, -1, -3], [np.inf, 0, np.inf, -np.inf]], np.float32)
    for op in ("ArgMax", "ArgMin"):
        for opset in (7, 11, 12, 13):
            yield Row(op, opset, ((2, 3, 4),))
            for axis, keep in ((0, 0), (1, 1), (2, 0)):
                yield Row(op, opset, ((2, 3, 4),), {"axis": axis, "keepdims": keep})
        yield Row(op, 13, ((5,),), {"keepdims": 0})
        yield Row(op, 13, ((2, 3, 2, 2, 3),), {"axis": -2})
        yield Row(op, 13, ((1, 2048),), {"axis": 1})
        for last in (0, 1):
            yield Row(op, 13, (ties,), {"axis": -1, "select_last_index": last})
        yield Row(op, 13, (np.arange(12, dtype=np.uint8).reshape(3, 4) * 7 % 11,), {"axis": 1})
        yield Row(op, 13, ((np.arange(12, dtype=np.int8) * 7 % 11 - 5).reshape(3, 4),), {"axis": 1})
    x = (3, 6, 4)
    yield Row("TopK", 9, (x,), {"k": 2}, outputs=2)
    yield Row("TopK", 10, (x, c([3])), {"axis": 1}, outputs=2)
    for opset in (11, 24):
        for largest in (0, 1):
            for k in (1, 2, 6):
                yield Row("TopK", opset, (x, c([k])), {"axis": 1, "largest": largest}, outputs=2)
            yield Row("TopK", opset, (ties, c([4])), {"largest": largest}, outputs=2)
            yield Row("TopK", opset, ((2, 1500), c([5])), {"largest": largest}, outputs=2, fp16=(2e-3, 1e-3))
            steps = (np.arange(4500, dtype=np.float32) * 7 % 1123).reshape(3, 1500)
            yield Row("TopK", opset, (steps, c([16])), {"largest": largest}, outputs=2)
            yield Row("TopK", opset, (steps % 3, c([9])), {"largest": largest}, outputs=2)
    yield Row("TopK", 11, (np.arange(12, dtype=np.int64).reshape(3, 4).astype(np.float32), c([2])), outputs=2)


def integers() -> Iterator[Row]:
    """Types whose values are all small."""
    for dtype in (np.uint8, np.int8):
        low = np.iinfo(dtype).min
        a = (np.arange(24).reshape(2, 3, 4) * 11 % 256 + low).astype(dtype)
        b = (np.arange(12).reshape(3, 4) * 5 % 31 + (low // 8)).astype(dtype)
        for to in (
            TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8,
            TensorProto.INT8, TensorProto.INT16, TensorProto.FLOAT16,
        ):  # fmt: skip
            yield Row("Cast", 13, (a,), {"to": to})
        for op in ("Max", "Min"):
            yield Row(op, 13, (a, b))
        for op in ("ReduceMax", "ReduceMin"):
            yield Row(op, 13, (a,), {"axes": [1]})
        yield Row("Clip", 13, (a, c(3, dtype), c(100, dtype)))
        yield Row("Clip", 13, (a, None, c(90, dtype)))
        yield Row("Where", 16, (np.array([True, False, True, True]), a, b))
        yield Row("Where", 16, (np.array([True, False, True, True]), a, c(7, dtype)))
        yield Row("Concat", 13, (a, a[:, :1], c(a[:, :2], dtype)), {"axis": 1})
        yield Row("Transpose", 13, (a,))
        yield Row("Reshape", 13, (a, c([4, -1])))
        yield Row("Gather", 13, (a, c([1, 0, 1])), {"axis": 1})
        yield Row("Slice", 13, (a, c([1]), c([3]), c([1])))
        yield Row("Split", 13, (a,), {"axis": 2}, outputs=2)
        yield Row("Pad", 13, (a, c([0, 0, 1, 0, 1, 2]), c(5, dtype)))
        yield Row("Identity", 13, (a,))
        for by in (1, 7, 100, *(() if low == 0 else (-3, -100))):
            yield Row("Div", 14, (a, c(by, dtype)))
        yield Row("Div", 14, (a, c(np.array([3, 5, 7, 11]), dtype)))
        yield Row("Mod", 13, (a, c(7, dtype)))
        yield Row("Mod", 13, (a, c(7, dtype)), {"fmod": 1})
    yield Row("Cast", 13, (np.array([True, False]),), {"to": TensorProto.INT64})
    yield Row("Cast", 13, (np.array([True, False]),), {"to": TensorProto.UINT8})
    yield Row("Cast", 13, (np.array([True, False]),), {"to": TensorProto.BOOL})
    yield Row("Mod", 13, (np.arange(-40, 40).astype(np.int8), c(-7, np.int8)))
    yield Row("Mod", 13, (np.arange(-40, 40).astype(np.int8), c(-7, np.int8)), {"fmod": 1})


def one_hots() -> Iterator[Row]:
    """Of floats; the ones of integers that ONNX Runtime has are of 32 and 64 bits, and stand in test_onnx_integers."""
    ids = np.array([[0, 3, 2], [-1, 4, -5]], np.float32)
    for opset in (9, 11, 28):
        for axis in (-1, 0, 1):
            yield Row("OneHot", opset, (ids, c(5.0), c([0.0, 1.0])), {"axis": axis})
        yield Row("OneHot", opset, (ids, c([6.0]), c([-2.0, 5.5])))
        yield Row("OneHot", opset, (ids, c(3.0), c([2.0, 0.25])), {"axis": -2})


def spaced(*shape: int, step: float, seed: int = 0, most: int = 140) -> np.ndarray:
    """Numbers at a quarter of a step from the middle between two steps, and some far out: no rounding decides."""
    r = np.random.RandomState(seed)
    whole = r.randint(-most, most, shape)
    return ((whole + r.choice([-0.25, 0.0, 0.25], shape)) * step).astype(np.float32)


def quantizations() -> Iterator[Row]:
    x = spaced(2, 3, 5, step=0.25)
    ties = np.arange(-300, 300, dtype=np.float32) * np.float32(0.25)
    for opset in (10, 13, 19, 21, 23, 24, 25):
        for zero, dtype in (
            (0, np.uint8),
            (128, np.uint8),
            (255, np.uint8),
            (0, np.int8),
            (-128, np.int8),
            (5, np.int8),
        ):
            z = c(zero, dtype)
            yield Row("QuantizeLinear", opset, (ties, c(0.5), z))
            yield Row("QuantizeLinear", opset, (x, c(0.25), z))
            codes = (np.arange(256).reshape(4, 64) + np.iinfo(dtype).min).astype(dtype)
            yield Row("DequantizeLinear", opset, (codes, c(0.375), z))
        yield Row("QuantizeLinear", opset, (x, c(0.25)))
        yield Row(
            "QuantizeLinear", opset, (np.array([np.inf, -np.inf, 6e4, -6e4, 0], np.float32), c(0.25), c(3, np.int8))
        )
        if opset >= 13:
            scales = np.array([0.25, 0.125, 2.0], np.float32)
            y = spaced(2, 3, 5, step=1.0) * scales[:, None]
            zeros = np.array([0, 7, 250], np.uint8)
            yield Row("QuantizeLinear", opset, (y, c(scales), c(zeros, np.uint8)))
            yield Row(
                "QuantizeLinear", opset, (y.transpose(0, 2, 1).copy(), c(scales), c(zeros, np.uint8)), {"axis": -1}
            )
            codes = np.arange(120, 150, dtype=np.uint8).reshape(2, 3, 5)
            yield Row("DequantizeLinear", opset, (codes, c(scales), c(zeros, np.uint8)))
            signed = (codes - 128).astype(np.int8)
            yield Row("DequantizeLinear", opset, (signed, c(scales), c(np.array([0, -7, 3]), np.int8)), {"axis": 1})
        if opset >= 21:
            blocks = c(np.array([[0.25, 0.5], [1, 2], [4, 0.125]], np.float32))
            zeros = c(np.array([[0, 1], [2, 3], [128, 255]]), np.uint8)
            wide = spaced(3, 6, step=1.0) * np.repeat(blocks.value, 3, 1)
            yield Row("QuantizeLinear", opset, (wide, blocks, zeros), {"axis": 1, "block_size": 3})
            codes = np.arange(100, 118, dtype=np.uint8).reshape(3, 6)
            yield Row("DequantizeLinear", opset, (codes, blocks, zeros), {"axis": 1, "block_size": 3})
            yield Row("QuantizeLinear", opset, (x, c(0.25)), {"output_dtype": TensorProto.INT8})
    for scale in (2.0**-20, 2.0**-27, 2.0**10, 2.0**15):  # 1 / scale is beyond fp16, or below it
        yield Row(
            "QuantizeLinear",
            13,
            (
                spaced(3, 40, step=scale, most=max(1, int(6e4 / scale)) if scale > 1 else 200),
                c(scale),
                c(128, np.uint8),
            ),
        )
    for scale in (3e-5, 300.0):
        yield Row("DequantizeLinear", 13, (np.arange(256, dtype=np.uint8), c(scale), c(100, np.uint8)))
    for scale in (0.1, 0.0173, 0.0078, 1.3e-4, 7.7):
        for dtype in (np.uint8, np.int8):
            z = c(100 if dtype is np.uint8 else -20, dtype)
            yield Row("QuantizeLinear", 13, (spaced(3, 40, step=scale), c(scale), z))


def codes(*shape: int, dtype: Any = np.uint8, seed: int = 0) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.RandomState(seed).randint(info.min, info.max + 1, shape).astype(dtype)


def quantized() -> Iterator[Row]:
    """Powers of two as scales, so that no rounding decides (the sums of products are exact, their quotients nearly)."""
    u, i = np.uint8, np.int8
    for dtype in (u, i):
        z = c(117 if dtype is u else -11, dtype)
        x = (codes(1, 3, 6, 7, dtype=dtype), c(0.125), z)
        for w in ((4, 3, 3, 3), (4, 3, 1, 1)):
            weight = (c(codes(*w, dtype=i, seed=1), i), c(0.25), c(0, i))
            yield Row("QLinearConv", 10, (*x, *weight, c(64.0), c(100, dtype)), steps=1)
            bias = c(np.array([1000, -2000, 0, 30000]), np.int32)
            yield Row("QLinearConv", 10, (*x, *weight, c(128.0), c(100, dtype), bias), {"strides": [2, 1]}, steps=1)
            scales = c(np.array([0.25, 0.5, 0.125, 1.0], np.float32))
            weight = (weight[0], scales, c(np.zeros(4), i))
            yield Row("QLinearConv", 10, (*x, *weight, c(64.0), c(100, dtype)), {"pads": [w[2] // 2] * 4}, steps=1)
        yield Row("QLinearConv", 10, (codes(1, 4, 5, 5, dtype=dtype), c(0.5), z, c(codes(4, 1, 3, 3, dtype=i), i), c(0.25),
                                      c(0, i), c(32.0), c(9, dtype)), {"group": 4}, steps=1)  # fmt: skip
        for op in ("QLinearMatMul",):
            for opset in (10, 21):
                a, b = codes(2, 3, 20, dtype=dtype), codes(20, 4, dtype=dtype, seed=1)
                yield Row(op, opset, (a, c(0.5), z, c(b, dtype), c(0.25), z, c(512.0), c(13, dtype)), steps=1)
                yield Row(op, opset, (a, c(0.5), z, b, c(0.25), z, c(512.0), c(13, dtype)), steps=1)
                yield Row(
                    op, opset, (c(b.T, dtype), c(0.5), z, a[0].T.copy(), c(0.25), z, c(512.0), c(13, dtype)), steps=1
                )
    small = np.random.RandomState(2).randint(-1, 2, (6, 5))
    yield Row("MatMulInteger", 10, (codes(2, 3, 6) // 4, c(small, i), c(30, u)))
    yield Row("MatMulInteger", 10, (codes(3, 6) // 4, c(small + 7, u), c(30, u), c(7, u)))
    yield Row("ConvInteger", 10, (codes(1, 2, 5, 5) // 4, c(np.random.RandomState(3).randint(99, 102, (3, 2, 2, 2)), u),
                                  c(30, u), c(100, u)))  # fmt: skip
    ms = "com.microsoft"
    for dtype in (u, i):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        z, z2 = c(101 if dtype is u else -3, dtype), c(120 if dtype is u else 4, dtype)
        a, b = codes(2, 4, 3, 3, dtype=dtype), codes(4, 1, 1, dtype=dtype, seed=1)
        yield Row("QuantizeLinear", 17, (spaced(2, 3, 5, step=0.25), c(0.25), z), domain=ms, kind=kind)
        yield Row("DequantizeLinear", 17, (a, c(0.25), z), domain=ms)
        yield Row("QLinearAdd", 17, (a, c(0.25), z, b, c(0.5), z2, c(1.03), z), domain=ms, kind=kind, steps=1)
        yield Row("QLinearMul", 17, (a, c(0.25), z, c(b, dtype), c(0.5), z2, c(32.3), z), domain=ms, kind=kind, steps=1)
        parts = (a, c(0.26), z2, a[:, :1], c(0.5), z, a, c(1.0), z)
        yield Row("QLinearConcat", 17, (c(0.5), z, *parts), {"axis": 1}, domain=ms, kind=kind, steps=1)
        yield Row("QLinearLeakyRelu", 17, (a, c(0.25), z, c(0.25), z2), {"alpha": 0.25}, domain=ms, kind=kind)
        yield Row("QLinearSigmoid", 17, (a, c(0.015625), z, c(1 / 256), z2), domain=ms, kind=kind, steps=1)
        image = codes(1, 2, 6, 7, dtype=dtype)
        form = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 0]}
        yield Row("MaxPool", 12, (image,), form)
        yield Row("Resize", 13, (image, None, c([1.0, 1.0, 2.0, 2.0])), {"mode": "nearest"})
        if dtype is u:
            yield Row("QLinearAveragePool", 17, (image, c(0.25), z, c(0.26), z2), form, domain=ms, kind=kind, steps=1)
        flat = (a[:, :, 0, 0], c(0.03125), z, c(1 / 256), c(0 if dtype is u else -128, dtype))
        yield Row("QLinearSoftmax", 17, flat, {"axis": 1, "opset": 13}, domain=ms, kind=kind, steps=1)
        yes = (np.array([True, False, True]), a, c(0.25), z, b, c(0.5), z2, c(0.37), z)
        yield Row("QLinearWhere", 17, yes, domain=ms, kind=kind, steps=1)
        matrix = (codes(3, 20, dtype=dtype), c(0.5), z, c(codes(20, 4, dtype=i, seed=1), i), c(0.25), c(0, i))
        more = (c(np.array([100, -200, 3000, 0]), np.int32), c(512.0), z)
        if dtype is u:
            yield Row("QGemm", 17, (*matrix, *more), {"transB": 0}, domain=ms, kind=kind, steps=1)
            yield Row("QGemm", 17, (*matrix, more[0]), {"alpha": 0.5}, domain=ms)
            scales = (*matrix[:3], c(matrix[3].value.T, i), c([0.25, 0.5, 1.0, 0.125]), c(np.zeros(4), i))
            yield Row("QGemm", 17, (*scales, None, *more[1:]), {"transB": 1}, domain=ms, kind=kind, steps=1)
        form = {"channels_last": 0}
        yield Row(
            "QLinearGlobalAveragePool", 17, (a[:, :, :2, :2], c(0.25), z, c(0.25), z2), form, domain=ms, kind=kind
        )


def resizes() -> Iterator[Row]:
    empty = c(np.zeros(0, np.float32))
    yield Row("Upsample", 7, ((1, 2, 2, 3),), {"mode": "nearest", "scales": [1.0, 1.0, 3.0, 2.0]})
    yield Row("Upsample", 9, ((1, 2, 2, 3), c([1.0, 1.0, 2.0, 2.0])), {"mode": "linear"})
    yield Row("Resize", 10, ((1, 1, 2, 3), c([1.0, 1.0, 2.0, 2.0])), {"mode": "nearest"})
    yield Row("Resize", 10, ((1, 1, 4, 6), c([1.0, 1.0, 0.5, 0.5])), {"mode": "linear"})
    scales = ([1, 1, 2, 2], [1, 1, 0.5, 0.75], [1, 1, 1.25, 3], [1, 1, 2.5, 1])
    sizes = ([1, 2, 8, 10], [1, 2, 4, 3], [1, 2, 6, 14], [1, 2, 1, 3])
    modes = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    for given in (*({2: s} for s in scales), *({3: s} for s in sizes)):
        at = [empty, *(c(np.array(given[2], np.float32)) for _ in (2,) if 2 in given)]
        inputs = at if 2 in given else [None, None, c(given[3])]
        for mode in modes:
            for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
                form = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": nearest}
                yield Row("Resize", 13, ((1, 2, 6, 7), *inputs), form)
            if mode == "align_corners" and 2 in given and given[2] in scales[1:]:
                continue
            yield Row("Resize", 13, ((1, 2, 6, 7), *inputs), {"mode": "linear", "coordinate_transformation_mode": mode})
            for extra in ({}, {"cubic_coeff_a": -0.5}, {"exclude_outside": 1}):
                form = {"mode": "cubic", "coordinate_transformation_mode": mode, **extra}
                yield Row("Resize", 13, ((1, 2, 6, 7), *inputs), form)
    yield Row("Resize", 11, ((1, 1, 4, 4), empty, empty, c([1, 1, 8, 8])), {"mode": "nearest", "nearest_mode": "floor"})
    yield Row("Resize", 11, ((1, 1, 4, 4), empty, c([1.0, 1.0, 0.6, 0.6])), {"mode": "linear"})
    yield Row("Resize", 18, ((1, 2, 4, 8), None, None, c([9, 5])), {"mode": "linear", "axes": [3, 2]})
    yield Row("Resize", 18, ((1, 2, 4, 8), None, c([0.5, 2.0])), {"mode": "nearest", "axes": [2, 3]})
    for policy in ("not_larger", "not_smaller"):
        form = {"mode": "linear", "axes": [2, 3], "keep_aspect_ratio_policy": policy}
        yield Row("Resize", 19, ((1, 1, 4, 8), None, None, c([6, 6])), form)
    symmetric = {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}
    yield Row("Resize", 19, ((1, 1, 4, 5), None, c([1.0, 1.0, 2.3, 1.7])), symmetric)
    form = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    yield Row("Resize", 13, ((2, 2, 2, 2), None, c([2.0, 1.0, 2.0, 1.0])), form)
    yield Row("Resize", 13, ((1, 3, 8), None, c([1.0, 1.0, 2.0])), {"mode": "linear"})


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


def contrib() -> Iterator[Row]:
    ms = "com.microsoft"
    x = (2, 3, 8)
    yield Row("Gelu", 17, (x,), domain=ms)
    yield Row("QuickGelu", 17, (x,), {"alpha": 1.3}, domain=ms)
    yield Row("BiasGelu", 17, (x, w(8)), domain=ms)
    yield Row("FastGelu", 17, (x,), domain=ms, fp32=(1e-3, 1e-4))
    yield Row("FastGelu", 17, (x, w(8)), domain=ms, fp32=(1e-3, 1e-4))
    yield Row("FusedMatMul", 17, ((2, 4), w(3, 4)), {"alpha": 0.5, "transB": 1}, domain=ms)
    yield Row("FusedMatMul", 17, ((2, 4, 3), normal(2, 4, 5)), {"transA": 1}, domain=ms)
    for activation, parameters in (
        ("Relu", []),
        ("LeakyRelu", [0.2]),
        ("Clip", [0.0, 1.0]),
        ("HardSigmoid", [0.3, 0.4]),
    ):
        form = {"activation": activation, "pads": [1, 1, 1, 1]}
        if parameters:
            form["activation_params"] = parameters
        yield Row("FusedConv", 17, ((1, 2, 5, 5), w(3, 2, 3, 3), w(3)), form, domain=ms)
    yield Row("FusedConv", 17, ((1, 2, 5, 5), w(3, 2, 1, 1), w(3), (1, 3, 5, 5)), {"activation": "Relu"}, domain=ms)
    form = {"epsilon": 1e-5}
    yield Row("SkipLayerNormalization", 17, (x, normal(2, 3, 8, seed=4), w(8), w(8, seed=2)), form, domain=ms)
    inputs = (x, normal(2, 3, 8, seed=4), w(8), w(8, seed=2), w(8, seed=3))
    yield Row("SkipLayerNormalization", 17, inputs, form, domain=ms)
    yield Row("SimplifiedLayerNormalization", 17, (x, w(8)), {"epsilon": 1e-5, "axis": -1, "stash_type": 1})
