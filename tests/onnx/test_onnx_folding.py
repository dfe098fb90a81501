"""What is computed at import, in the ONNX dtype: against ONNX Runtime, and where implementations would differ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from onnx import TensorProto
from onnx_harness import bake, close, compute, imported
from onnx_rows import Row, c, normal, rows
from test_onnx_handlers import build, truth

from aneforge.onnx.folding import BUDGET, fold
from aneforge.onnx.folds import Unfoldable
from aneforge.onnx.inference import newest_opset


def folded(
    op: str, *inputs, version: int = 17, since: int | None = None, outputs: int = 1, **attributes
) -> list[np.ndarray]:
    return fold(op, "", version, since, attributes, [None if i is None else np.asarray(i) for i in inputs], outputs)


@pytest.mark.parametrize("row", list(rows()), ids=str)
def test_rows_of_constants(row: Row) -> None:
    """Every handler row with all inputs constant: folded, or computed by a program without inputs, and right either way."""
    model, feeds = build(row)
    want = truth(model, feeds)
    got = compute(imported(bake(model, feeds)), {})
    for name, expected in zip(got, want, strict=True):
        assert close(got[name], expected, 1e-4, 1e-5) == ""


def of_known() -> Iterator[Row]:
    """Operators that are computed at import only, and forms of others that have no engine form."""
    x, small = c(normal(3, 4)), c([[2, 7, 2], [9, 9, -1]])
    for op in ("ArgMax", "ArgMin"):
        for form in ({}, {"axis": -1, "keepdims": 0}, {"axis": 1, "select_last_index": 1}):
            yield Row(op, 13, (small,), form)
        yield Row(op, 11, (c([[1.0, 3.0, 3.0]]),), {"axis": 1})
    for form in ({}, {"largest": 0}, {"axis": 0, "largest": 1}):
        yield Row("TopK", 11, (small, c([2])), form, 2)
    yield Row("TopK", 10, (c([3.0, 1.0, 3.0, 2.0]), c([3])), {}, 2)
    yield Row("TopK", 9, (c([3.0, 1.0, 3.0, 2.0]),), {"k": 3}, 2)
    for form in ({}, {"sorted": 0}, {"axis": 0}, {"axis": 1, "sorted": 0}):
        yield Row("Unique", 11, (c([[2.0, 1.0, 2.0], [0.5, 7.0, 0.5], [2.0, 1.0, 2.0]]),), form, 4)
    yield Row("NonZero", 13, (c([[0, 3], [4, 0]]),))
    for axis in (None, 0, 1):
        form = {} if axis is None else {"axis": axis}
        yield Row("Compress", 11, (x, c([True, False, True])), form)
    for form in ({}, {"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
        yield Row("CumSum", 14, (small, c(1)), form)
        yield Row("CumSum", 11, (x, c(-2)), form)
    for axis in (-1, 0, 1):
        yield Row("OneHot", 11, (c([[1, -1], [3, 9]]), c(4), c([-1.0, 2.0])), {"axis": axis})
    for direction in ("LEFT", "RIGHT"):
        yield Row("BitShift", 11, (c([1, 40, 255], np.uint8), c([1, 3, 7], np.uint8)), {"direction": direction})
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield Row(op, 18, (small, c([[3], [6]])))
    yield Row("BitwiseNot", 18, (small,))
    ends = c([1.0, -np.inf, np.inf, np.nan])
    yield Row("IsNaN", 13, (ends,))
    for form in ({}, {"detect_negative": 0}, {"detect_positive": 0}):
        yield Row("IsInf", 10, (ends,), form)
    for reduction in ("none", "add", "mul", "min", "max"):
        form = {"axis": 1, "reduction": reduction}
        yield Row("ScatterElements", 18, (x, c([[1, 3], [-4, 2]]), c([[1.5, -2.0], [0.25, 3.0]])), form)
        into = (x, c([[1, -1], [0, 2]]), c([1.5, -2.0]))
        yield Row("ScatterND", 18, into, {"reduction": reduction})
    yield Row("ScatterElements", 18, (c([5, 6, 7]), c([1, 1]), c([2, 3])), {"reduction": "add"})
    yield Row("ScatterElements", 11, (x, c([[1], [0]]), c([[1.5], [2.0]])), {})
    yield Row("ScatterND", 11, (x, c([[2], [0]]), c(normal(2, 4, seed=3))))
    yield Row("Scatter", 9, (x, c([[1, 2], [0, 1]]), c(normal(2, 2, seed=3))), {"axis": 1})
    yield Row("GatherND", 12, (c(normal(2, 3, 4)), c([[[1], [0]], [[-1], [2]]])), {"batch_dims": 1})
    yield Row("GatherND", 12, (x, c([[0, 1], [2, -1]])))
    yield Row("GatherElements", 13, (x, c([[0, -1], [2, 1]])), {"axis": 1})
    yield Row("ReverseSequence", 10, (c(normal(4, 3, 2)), c([1, 4, 2])), {"time_axis": 0, "batch_axis": 1})
    yield Row("ReverseSequence", 10, (c(normal(3, 4)), c([1, 4, 2])), {"time_axis": 1, "batch_axis": 0})
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for periodic in (0, 1):
            yield Row(op, 17, (c(11),), {"periodic": periodic})
    yield Row("MelWeightMatrix", 17, (c(8), c(64), c(8000), c(20.0), c(3900.0)))
    for opset, form in (
        (17, {}),
        (17, {"onesided": 1}),
        (17, {"axis": 2}),
        (17, {"inverse": 1}),
        (20, {"onesided": 1}),
    ):
        parts = 2 if form.get("inverse") else 1
        yield Row("DFT", opset, (c(normal(2, 6, 5, parts)),), form)
        yield Row("DFT", opset, (c(normal(2, 6, 5, parts)), c(8)), form)
    for align in (0, 1):
        yield Row("AffineGrid", 20, (c(normal(2, 2, 3)), c([2, 3, 4, 5])), {"align_corners": align})
        yield Row("AffineGrid", 20, (c(normal(2, 3, 4)), c([2, 3, 4, 5, 6])), {"align_corners": align})
    yield Row("Det", 11, (c(normal(2, 3, 3)),))
    yield Row("EyeLike", 9, (x,), {"k": 1, "dtype": TensorProto.INT32})
    yield Row("Pad", 13, (small, c([1, 0, -1, 2]), c(7)))
    yield Row("Pad", 2, (x,), {"pads": [1, 0, -1, 2], "value": 2.5})
    for mode in ("reflect", "edge"):
        yield Row("Pad", 18, (x, c([2, 1]), None, c([1])), {"mode": mode})
    for zero in (c(3, np.uint8), c(-3, np.int8), None):
        yield Row("QuantizeLinear", 13, (c([-1.25, 0.25, 0.75, 100.0]), c(0.5), *([zero] if zero else [])))
    yield Row("QuantizeLinear", 13, (x, c([0.1, 0.2, 0.3]), c([1, 2, 3], np.int8)), {"axis": 0})
    yield Row("Pow", 13, (c([2, -3]), c([3.0, 2.0])))
    yield Row("Pow", 13, (c([2.0, 3.0]), c([3, -2])))
    for op in ("ReduceL1", "ReduceSumSquare"):
        yield Row(op, 13, (small,), {"axes": [1], "keepdims": 0})
    for op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"):
        yield Row(op, 13, (c(np.abs(normal(3, 4))),), {"axes": [-1], "keepdims": 0})
    yield Row("ReduceMax", 20, (c([[True, False], [False, False]]), c([1])), {"keepdims": 0})
    yield Row("ReduceMin", 13, (small,), {"axes": [0]})
    yield Row("Gemm", 11, (x, c(normal(2, 4, seed=3)), c([1.0, 2.0])), {"transB": 1, "alpha": 0.5, "beta": 2.0})
    yield Row("Einsum", 12, (small, small), {"equation": "ij,kj->ik"})
    yield Row("Einsum", 12, (c(normal(2, 3, 3)),), {"equation": "...ii->...i"})
    for op in ("Acos", "Asin", "Atanh"):
        yield Row(op, 7 if op != "Atanh" else 9, (c([-0.9, 0.0, 0.5]),))
    for op in ("Atan", "Tan", "Cosh", "Sinh", "Asinh"):
        yield Row(op, 9, (x,))
    yield Row("Acosh", 9, (c([1.0, 2.0, 9.0]),))
    yield Row("Softmax", 11, (c(normal(2, 3, 4)),), {"axis": 1})
    yield Row("Hardmax", 11, (c(normal(2, 3, 4)),), {"axis": 2})
    yield Row("LogSoftmax", 13, (c(normal(2, 3, 4)),), {"axis": 1})


@pytest.mark.parametrize("row", [r for r in of_known() if r.opset <= newest_opset()], ids=str)
def test_rows_that_fold(row: Row) -> None:
    """Known inputs give known outputs, in the ONNX dtype, equal to ONNX Runtime's."""
    model, feeds = build(row)
    want = truth(model, feeds)
    done = imported(model)
    assert [n.status for n in done.nodes] == ["free"]
    for (name, got), expected in zip(done.known_outputs().items(), want, strict=True):
        assert close(got, expected, 1e-5, 1e-6) == "", name


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "want"),
    [
        ("Div", ([-7, 7, -8, 2**53 + 1], [2, -2, 2, 2]), {}, [-3, -3, -4, 2**52]),
        ("Mod", ([-5, 5, 7, -7], [3, -3, 3, -3]), {}, [1, -1, 1, -1]),
        ("Mod", ([-5, 5], [3, -3]), {"fmod": 1}, [-2, 2]),
        ("Mul", ([2**40, 3], [2**20, 5]), {}, [2**60, 15]),
        ("Add", (np.int32([2**31 - 1]), np.int32([1])), {}, np.int32([-(2**31)])),
        ("Range", (2, 11, 3), {}, [2, 5, 8]),
        ("Range", (5, 1, -2), {}, [5, 3]),
        ("Range", (np.float32(0), np.float32(1), np.float32(0.25)), {}, np.float32([0, 0.25, 0.5, 0.75])),
        ("ReduceProd", ([2, 3, 4],), {"keepdims": 0}, np.int64(24)),
        ("ReduceSum", (np.int32([[1, 2], [3, 4]]), [1]), {"keepdims": 0}, np.int32([3, 7])),
        ("ReduceMax", ([[1, 9], [3, 4]],), {"axes": (0,)}, [[3, 9]]),
        ("Gather", ([10, 20, 30], -1), {}, np.int64(30)),
        ("Slice", (np.arange(10), [8], [-20], [0], [-3]), {}, [8, 5, 2]),
        ("Unsqueeze", ([1, 2], [-1, 0]), {}, [[[1], [2]]]),
        ("Concat", ([1], [2, 3]), {"axis": 0}, [1, 2, 3]),
        ("Where", ([True, False], [1, 2], 9), {}, [1, 9]),
        ("NonZero", ([[0, 3], [4, 0]],), {}, [[0, 1], [1, 0]]),
        ("Cast", (np.float32([-2.9, 2.9]),), {"to": TensorProto.INT64}, [-2, 2]),
        ("Cast", ([300, -1],), {"to": TensorProto.UINT8}, np.uint8([44, 255])),
        ("Cast", (np.float32([0, -0.0, 1e-30]),), {"to": TensorProto.BOOL}, [False, False, True]),
        ("ConstantOfShape", ([2, 1],), {}, np.zeros((2, 1), np.float32)),
        ("ConstantOfShape", ([0],), {"value": np.int64([7])}, np.zeros(0, np.int64)),
        ("Expand", ([[1], [2]], [2, 1, 3]), {}, np.broadcast_to([[1], [2]], (2, 2, 3))),
        ("Split", (np.arange(5),), {"num_outputs": 2}, [0, 1, 2]),
        ("Equal", ([1, 2**53], [1, 2**53 + 1]), {}, [True, False]),
        ("Clip", ([-5, 7, 2**40], -2, 9), {}, [-2, 7, 9]),
        ("Min", ([3, 1], [2, 2]), {}, [2, 1]),
        ("DequantizeLinear", (np.uint8([0, 128, 255]), np.float32(0.5), np.uint8(128)), {}, np.float32([-64, 0, 63.5])),
        (
            "DequantizeLinear",
            (np.int8([[1, 2], [3, 4]]), np.float32([1, 10])),
            {"axis": 0},
            np.float32([[1, 2], [30, 40]]),
        ),
    ],
)
def test_values(op: str, inputs: tuple, attributes: dict, want: np.ndarray) -> None:
    got = folded(op, *inputs, outputs=2 if op == "Split" else 1, **attributes)[0]
    assert got.dtype == np.asarray(want).dtype and np.array_equal(got, want)


@pytest.mark.parametrize(
    ("attributes", "want"),
    [
        ({"value_float": 0.5}, np.float32(0.5)),
        ({"value_floats": (0.5, 2.0)}, np.float32([0.5, 2])),
        ({"value_int": 3}, np.int64(3)),
        ({"value_ints": (3, 4)}, np.int64([3, 4])),
        ({"value": np.float16([1.5])}, np.float16([1.5])),
    ],
)
def test_every_form_of_constant(attributes: dict, want: np.ndarray) -> None:
    got = folded("Constant", **attributes)[0]
    assert got.dtype == want.dtype and np.array_equal(got, want)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("ConstantOfShape", ([BUDGET, 2],), {}),  # too large
        ("Expand", (np.float32([1]), [1 << 40]), {}),
        ("Tile", (np.float32([1]), [1 << 40]), {}),
        ("Range", (0, 1 << 40, 1), {}),
        ("DFT", (np.float32([[[1]], [[2]]]), 1 << 40), {}),
        ("OneHot", ([1], 1 << 40, [0, 1]), {}),
        ("HannWindow", (1 << 40,), {}),
        ("Einsum", (np.ones((999, 999)), np.ones((999, 999))), {"equation": "ij,kl->ijkl"}),
        ("ConstantOfShape", ([-1],), {}),
        ("RandomNormal", (), {"shape": (2,)}),  # not a value
        ("RandomUniformLike", (np.float32([1]),), {}),
        ("Dropout", (np.float32([1]), np.float32(0.5), True), {}),
        ("Cast", (np.float32([3e9]),), {"to": TensorProto.INT32}),  # implementations differ
        ("Cast", (np.float32([np.nan]),), {"to": TensorProto.INT64}),
        ("Div", ([1], [0]), {}),
        ("Gather", ([1, 2], 5), {}),  # not valid
        ("Reshape", ([1, 2, 3], [2, 2]), {}),
        ("Concat", ([1], [[2]]), {"axis": 0}),
        ("Add", ([1, 2], [1, 2, 3]), {}),
        ("Add", ([1, 2], [1, 2]), {"broadcast": 1, "axis": 0}),  # an attribute of a version that is not known
        ("Relu", (), {}),
        ("ScatterElements", ([1, 2, 3], [1, 1], [5, 6]), {}),  # which of two writes wins is open
        ("ScatterND", ([1, 2, 3], [[3]], [5]), {}),  # outside
        ("ArgMax", (np.float32([1, np.nan]),), {}),
        ("TopK", (np.float32([1, np.nan]), [1]), {}),
        ("BitShift", (np.uint8([1]), np.uint8([8])), {"direction": "LEFT"}),
        ("Pow", ([2], np.float32([0.5])), {}),
        ("ReduceMean", ([1, 2],), {}),  # how integers round is not said
        ("ReduceL2", ([1, 2],), {}),
        ("ReduceL1", (np.float32([-1]), []), {"noop_with_empty_axes": 1}),
        ("QuantizeLinear", (np.float32([np.nan]), np.float32(1)), {}),
    ],
)
def test_what_is_left_to_others(op: str, inputs: tuple, attributes: dict) -> None:
    with pytest.raises(Unfoldable):
        folded(op, *inputs, **attributes)


def test_versions_keep_their_meaning() -> None:
    """Softmax before 13 is of everything from its axis on, 1 where none is given; then of one axis, the last."""
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    flat = np.exp(x - x.max())
    assert np.allclose(folded("Softmax", x, version=11)[0], flat / flat.sum(), atol=1e-6)
    rows = np.exp(x - x.max(-1, keepdims=True))
    assert np.allclose(folded("Softmax", x, version=13)[0], rows / rows.sum(-1, keepdims=True), atol=1e-6)


def test_foreign_domains_are_never_folded() -> None:
    with pytest.raises(Unfoldable):
        fold("Add", "com.example", 1, None, {}, [np.ones(1), np.ones(1)], 1)
