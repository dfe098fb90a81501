"""What is computed at import, in the ONNX dtype: against ONNX Runtime, and where implementations would differ."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx_harness import bake, close, compute, imported
from onnx_rows import Row, rows
from test_onnx_handlers import build, truth

from aneforge.onnx.folding import BUDGET, fold
from aneforge.onnx.folds import Unfoldable


def folded(
    op: str, *inputs, version: int = 17, since: int | None = None, outputs: int = 1, **attributes
) -> list[np.ndarray]:
    return fold(op, "", version, since, attributes, [None if i is None else np.asarray(i) for i in inputs], outputs)


@pytest.mark.parametrize("row", [r for r in rows() if r.op not in ("Sin", "Cos")], ids=str)
def test_rows_of_constants(row: Row) -> None:
    """Every handler row with all inputs constant: folded, or computed by a program without inputs, and right either way."""
    model, feeds = build(row)
    want = truth(model, feeds)
    got = compute(imported(bake(model, feeds)), {})
    for name, expected in zip(got, want, strict=True):
        assert close(got[name], expected, 1e-4, 1e-5) == ""


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
    ],
)
def test_what_is_left_to_others(op: str, inputs: tuple, attributes: dict) -> None:
    with pytest.raises(Unfoldable):
        folded(op, *inputs, **attributes)


def test_the_reference_evaluator_is_asked_about_the_newest_version_only() -> None:
    """It computes Softmax 11 as if it were Softmax 13."""
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    newest = onnx.defs.get_schema("Softmax").since_version
    assert folded("Softmax", x, since=newest)[0].shape == x.shape
    with pytest.raises(Unfoldable):
        folded("Softmax", x, version=11, since=11)


def test_foreign_domains_are_never_folded() -> None:
    with pytest.raises(Unfoldable):
        fold("Add", "com.example", 1, None, {}, [np.ones(1), np.ones(1)], 1)
