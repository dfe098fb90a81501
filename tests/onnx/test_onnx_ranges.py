"""What fp16 cannot carry stays on the CPU: wide integers as floats, faint arguments of logarithms, bfloat16."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_harness import imported

FLOAT = TensorProto.FLOAT


def statuses(nodes, inputs, outputs, constants=(), opset=18):
    """op -> "engine", or the kind of its reason, in the order of nodes."""
    graph = helper.make_graph(
        [helper.make_node(op, given.split(), made.split(), **attributes) for op, given, made, attributes in nodes],
        "ranges",
        [helper.make_tensor_value_info(n, kind, shape) for n, kind, shape in inputs],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in dict(constants).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    done = imported(onnx.shape_inference.infer_shapes(model))
    return [n.status if n.reason is None else n.reason.kind for n in done.nodes]


def after_cast(source, *nodes, constants=()):
    return statuses(
        [("Cast", "i", "f", {"to": FLOAT}), *nodes], [("i", source, [2, 8]), ("x", FLOAT, [2, 8])], ["y"], constants
    )[1:]


@pytest.mark.parametrize("kind", ["INT64", "INT32", "UINT32", "UINT64", "INT16", "UINT16"])
@pytest.mark.parametrize("op", ["Relu", "Abs", "Sqrt", "Transpose", "Exp"])
def test_wide_integers_stay(kind, op):
    assert after_cast(getattr(TensorProto, kind), (op, "f", "y", {})) == ["data type"]


@pytest.mark.parametrize("kind", ["BOOL", "UINT8"])
def test_narrow_ones_do_not(kind):
    assert after_cast(getattr(TensorProto, kind), ("Relu", "f", "y", {})) == ["engine"]


def test_counting_goes_on_until_a_scale():
    nodes = [
        ("Add", "f one", "a", {}),
        ("Transpose", "a", "b", {}),
        ("Floor", "b", "c", {}),
        ("Mul", "c scale", "d", {}),
        ("Relu", "d", "y", {}),
    ]
    constants = {"one": np.float32(1), "scale": np.float32(0.01)}
    want = ["data type"] * 4 + ["engine"]
    assert after_cast(TensorProto.INT64, *nodes, constants=constants) == want


def test_integers_that_are_known_to_be_small():
    assert statuses(
        [
            ("ArgMax", "x", "i", {"axis": 1}),
            ("Cast", "i", "f", {"to": FLOAT}),
            ("Relu", "f", "y", {}),
        ],
        [("x", FLOAT, [2, 8])],
        ["y"],
    )[2:] == ["engine"]


@pytest.mark.parametrize(("factor", "want"), [(np.finfo(np.float32).min, "engine"), (-10000.0, "data type")])
def test_masks_of_attention(factor, want):
    """(1 - x) times the least float: any integer but 1 masks, however it is rounded. -10000 asks for the number."""
    nodes = [("Sub", "one f", "a", {}), ("Mul", "a low", "b", {}), ("Add", "x b", "c", {}), ("Softmax", "c", "y", {})]
    constants = {"one": np.float32(1), "low": np.float32(factor)}
    assert after_cast(TensorProto.INT64, *nodes, constants=constants) == [want, want, "engine", "engine"]


def test_comparisons_of_integers():
    nodes = [("Greater", "f zero", "b", {}), ("Where", "b x zero", "y", {})]
    assert after_cast(TensorProto.INT64, *nodes, constants={"zero": np.float32(0)}) == ["engine", "engine"]


def test_integer_products():
    """MatMulInteger, Cast, Mul: as onnxruntime's dynamic quantization writes a product."""
    got = statuses(
        [
            ("MatMulInteger", "q w", "i", {}),
            ("Cast", "i", "f", {"to": FLOAT}),
            ("Mul", "f scale", "m", {}),
            ("Add", "m bias", "y", {}),
        ],
        [("q", TensorProto.UINT8, [2, 8])],
        ["y"],
        {"w": np.full((8, 3), 2, np.int8), "scale": np.float32(0.01), "bias": np.ones(3, np.float32)},
    )
    assert got[1:] == ["data type", "data type", "engine"]


def test_bfloat16():
    nodes = [
        ("Cast", "x", "b", {"to": TensorProto.BFLOAT16}),
        ("Cast", "b", "f", {"to": FLOAT}),
        ("Relu", "f", "y", {}),
    ]
    assert statuses(nodes, [("x", FLOAT, [4])], ["y"]) == ["data type", "data type", "engine"]


# ---------------------------------------------------------------- logarithms


def logarithm(guard, constants, *before):
    nodes = [("Relu", "x", "r", {}), *before, guard, ("Log", "g", "l", {}), ("Sigmoid", "l", "y", {})]
    return statuses(nodes, [("x", FLOAT, [2, 8])], ["y"], constants)


SQUARE = ("Mul", "r r", "s", {})


def test_squares_beside_a_faint_addend():
    assert logarithm(("Add", "s c", "g", {}), {"c": np.float32(1e-10)}, SQUARE) == ["engine"] + ["limit"] * 3 + [
        "engine"
    ]
    clip = ("Clip", "s c", "g", {})
    assert logarithm(clip, {"c": np.float32(1e-10)}, SQUARE) == ["engine"] + ["limit"] * 3 + ["engine"]
    most = ("Max", "c s", "g", {})
    assert logarithm(most, {"c": np.float32(1e-10)}, SQUARE) == ["engine"] + ["limit"] * 3 + ["engine"]


def test_addends_that_fp16_holds():
    for c in (1e-6, 1e-3, 1.0):
        assert logarithm(("Add", "s c", "g", {}), {"c": np.float32(c)}, SQUARE) == ["engine"] * 5


def test_through_a_filter_bank_and_roots():
    steps = [
        SQUARE,
        ("Sqrt", "s", "m", {}),
        ("MatMul", "m w", "f", {}),
    ]
    constants = {"c": np.float32(1e-9), "w": np.ones((8, 8), np.float32)}
    want = ["engine"] + ["limit"] * 5 + ["engine"]
    assert logarithm(("Add", "f c", "g", {}), constants, *steps) == want


def test_a_scale_counts_with_the_addend():
    """log(x * 2^20 + 1) asks for x down to 2^-20."""
    got = logarithm(
        ("Add", "k c", "g", {}), {"c": np.float32(1), "f": np.float32(1 << 20)}, SQUARE, ("Mul", "s f", "k", {})
    )
    assert got == ["engine"] + ["limit"] * 4 + ["engine"]


def test_an_addend_under_a_root_is_no_matter():
    nodes = [("Mul", "x x", "s", {}), ("Add", "s c", "g", {}), ("Sqrt", "g", "r", {}), ("Div", "x r", "y", {})]
    assert statuses(nodes, [("x", FLOAT, [2, 8])], ["y"], {"c": np.float32(1e-12)}) == ["engine"] * 4
