"""Integers that are proved small: what passes, and what is refused because nothing proves it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_harness import close, compute, imported, refusals
from test_onnx_handlers import truth

from aneforge import load_onnx
from aneforge.onnx.importer import import_graph
from aneforge.onnx.view import from_model
from aneforge.passes import check_node
from aneforge.targets import resolve

FLOAT, INT64, INT32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32


def build(nodes, inputs, outputs, constants=(), opset=18) -> onnx.ModelProto:
    """`nodes`: (op, inputs, outputs, attributes); `inputs`: name -> array or (type, shape)."""
    infos = []
    for name, given in inputs.items():
        kind, shape = (
            (helper.np_dtype_to_tensor_dtype(given.dtype), given.shape) if isinstance(given, np.ndarray) else given
        )
        infos.append(helper.make_tensor_value_info(name, kind, shape))
    graph = helper.make_graph(
        [helper.make_node(op, i.split(), o.split(), **a) for op, i, o, a in nodes],
        "integers",
        infos,
        [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in dict(constants).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def judge(nodes, feeds, outputs, constants=(), opset=18) -> None:
    """The whole model has an engine form, and gives what ONNX Runtime gives."""
    model = build(nodes, feeds, outputs, constants, opset)
    done = imported(model)
    assert refusals(done) == []
    want = truth(model, feeds)
    for numerics in ("fp32", "fp16"):
        got = compute(done, feeds, numerics)
        for name, expected in zip(outputs, want, strict=True):
            assert close(got[name], expected, 1e-3, 1e-3) == "", f"{name} in {numerics}"


def reasons(nodes, inputs, outputs, constants=(), opset=18) -> list[str]:
    return refusals(imported(build(nodes, inputs, outputs, constants, opset)))


X = (np.arange(24, dtype=np.float32) * 7 % 11 - 4).reshape(4, 6)
ARG = ("ArgMax", "x", "i", {"axis": 1, "keepdims": 0})


@pytest.mark.parametrize(
    ("op", "constant"),
    [("Add", 100), ("Sub", 7), ("Mul", -3), ("Max", 2), ("Min", 3), ("Mod", 4), ("Less", 3), ("Greater", 2),
     ("LessOrEqual", 3), ("GreaterOrEqual", 2), ("Equal", 2)],
)  # fmt: skip
def test_integer_arithmetic(op, constant):
    judge([ARG, (op, "i c", "y", {})], {"x": X}, ["i", "y"], {"c": np.int64(constant)})
    if op != "Mod":
        judge([ARG, (op, "c i", "y", {})], {"x": X}, ["y"], {"c": np.int64(constant)})


@pytest.mark.parametrize("op", ["Neg", "Abs", "Sign", "Identity", "Relu"])
def test_integers_alone(op):
    judge([ARG, ("Sub", "i c", "j", {}), (op, "j", "y", {})], {"x": X}, ["y"], {"c": np.int64(3)})


def test_integers_in_where_clip_and_reductions():
    nodes = [
        ARG,
        ("Less", "i three", "small", {}),
        ("Where", "small i nine", "w", {}),
        ("Clip", "w two four", "k", {}),
        ("ReduceSum", "w", "s", {"keepdims": 0}),
        ("ReduceMax", "w", "m", {"keepdims": 1}),
        ("Cast", "s", "f", {"to": FLOAT}),
        ("Cast", "w", "b", {"to": TensorProto.BOOL}),
    ]
    constants = {"three": np.int64(3), "nine": np.int64(9), "two": np.int64(2), "four": np.int64(4)}
    judge(nodes, {"x": X}, ["w", "k", "s", "m", "f", "b"], constants)


def test_layout_of_integers():
    nodes = [
        ("ArgMin", "x", "i", {"axis": 1}),
        ("Transpose", "i", "t", {}),
        ("Gather", "t at", "g", {"axis": 1}),
        ("Concat", "g t more", "y", {"axis": 1}),
    ]
    judge(nodes, {"x": X}, ["y"], {"at": np.array([2, 0]), "more": np.array([[7, -5]])})


def test_a_float_with_bounds_is_truncated():
    x = np.array([-300, -2.75, -1, -0.5, 0, 0.5, 0.99, 2.5, 254.5, 255, 300], np.float32)
    nodes = [("Clip", "x lo hi", "c", {}), ("Cast", "c", "y", {"to": TensorProto.UINT8})]
    judge(nodes, {"x": x}, ["y"], {"lo": np.float32(0), "hi": np.float32(255)})
    nodes = [("Clip", "x lo hi", "c", {}), ("Reshape", "c s", "r", {}), ("Cast", "r", "y", {"to": INT32})]
    judge(nodes, {"x": x}, ["y"], {"lo": np.float32(-7), "hi": np.float32(100), "s": np.array([11, 1])})


def test_what_nothing_bounds_is_refused():
    cast = ("Cast", "x", "y", {"to": INT64})
    assert reasons([cast], {"x": X}, ["y"]) == ["data type: a cast of computed values to int64; nothing bounds them"]
    wide = [("Clip", "x lo hi", "c", {}), ("Cast", "c", "y", {"to": TensorProto.UINT8})]
    (text,) = reasons(wide, {"x": X}, ["y"], {"lo": np.float32(-1), "hi": np.float32(255)})
    assert text == "data type: a cast of -1 to 255 to uint8"
    (text,) = reasons(wide, {"x": X}, ["y"], {"lo": np.float32(0), "hi": np.float32(255.99)})
    assert text == "data type: a cast of 0 to 256 to uint8"  # 255.99 is 256 in fp16
    (text,) = reasons(wide, {"x": X}, ["y"], {"lo": np.float32(0), "hi": np.float32(70000)})
    assert text == "data type: a cast of computed values to uint8; nothing bounds them"
    wide[1] = ("Cast", "c", "y", {"to": INT64})
    (text,) = reasons(wide, {"x": X}, ["y"], {"lo": np.float32(0), "hi": np.float32(4096)})
    assert "fp16 counts to 2048" in text


def test_what_rounding_may_pass_is_no_bound():
    """255 - 0.0625 is what is left of it in fp16, and 1 more than that after a product."""
    cast = ("Cast", "m", "y", {"to": TensorProto.UINT8})
    constants = {"lo": np.float32(0), "hi": np.float32(1), "k": np.float32(255.9)}
    nodes = [("Clip", "x lo hi", "c", {}), ("Mul", "c k", "m", {}), cast]
    assert reasons(nodes, {"x": X}, ["y"], constants)[0].startswith("data type: a cast of ")
    nodes = [
        ("Clip", "x lo hi", "c", {}),
        ("Mul", "c k", "p", {}),
        ("Min", "p top", "t", {}),
        ("Max", "t lo", "m", {}),
        cast,
    ]
    judge(
        nodes,
        {"x": np.array([-1, 0.5, 0.75, 2], np.float32)},
        ["y"],
        {**constants, "k": np.float32(254.5), "top": np.float32(255)},
    )


@pytest.mark.parametrize("kind", ["INT64", "INT32", "INT16", "UINT16", "UINT32", "UINT64"])
def test_integers_that_come_in_are_not_known(kind):
    (text,) = reasons([("Abs" if kind[0] != "U" else "Identity", "x", "y", {})],
                      {"x": (getattr(TensorProto, kind), [2, 3])}, ["y"])  # fmt: skip
    assert text.startswith("data type: 'x' is ")


def test_sums_that_pass_2048_are_refused():
    nodes = [ARG, ("Mul", "i c", "y", {})]
    assert "between 0 and 5000" in reasons(nodes, {"x": X}, ["y"], {"c": np.int64(1000)})[0]
    (text,) = reasons([ARG, ("Add", "i c", "y", {})], {"x": X}, ["y"], {"c": np.int64(2044)})
    assert "between 2044 and 2049" in text
    judge([ARG, ("Add", "i c", "y", {})], {"x": X}, ["y"], {"c": np.int64(2043)})


def test_sums_of_bytes_wrap():
    a = np.arange(-128, 128).astype(np.int8)
    b = np.random.RandomState(0).permutation(a)
    for op in ("Add", "Sub"):
        judge([(op, "a b", "y", {})], {"a": a, "b": b}, ["y"])
        judge([(op, "a b", "y", {})], {"a": a.view(np.uint8), "b": b.view(np.uint8)}, ["y"])
        judge([(op, "a c", "y", {})], {"a": a}, ["y"], {"c": np.int8(-100)})
    judge([("Neg", "a", "y", {})], {"a": a}, ["y"])


def test_products_of_bytes_that_would_wrap_are_refused():
    a = np.arange(6, dtype=np.uint8).reshape(2, 3)
    (text,) = reasons([("Mul", "a b", "y", {})], {"a": a}, ["y"], {"b": np.uint8(5)})
    assert text == "data type: 'y' is uint8, and 0 to 1275 would wrap around"
    (text,) = reasons([("Mul", "a b", "y", {})], {"a": a, "b": a}, ["y"])
    assert "fp16 counts to 2048" in text


def test_casts_between_bytes_wrap():
    a = np.arange(-128, 128).astype(np.int8)
    judge([("Cast", "a", "y", {"to": TensorProto.UINT8})], {"a": a}, ["y"])
    judge([("Cast", "a", "y", {"to": TensorProto.INT8})], {"a": a.view(np.uint8)}, ["y"])
    wide = [("Cast", "a", "w", {"to": INT64}), ("Sub", "w c", "s", {}), ("Cast", "s", "y", {"to": TensorProto.UINT8})]
    judge(wide, {"a": a}, ["y"], {"c": np.int64(100)})


def test_axes_too_long_to_count():
    (text,) = reasons([("ArgMax", "x", "y", {"axis": 1})], {"x": (FLOAT, [1, 2049])}, ["y"])
    assert text == "limit: ArgMax over 2049 elements: fp16 counts to 2048"


@pytest.mark.parametrize("target", ["m1", "m4", "m5"])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_values_of_topk_alone(target, k):
    """Without the indices: the operation that some targets have, elsewhere the composition."""
    x = np.random.RandomState(0).standard_normal((3, 40)).astype(np.float16).astype(np.float32)
    model = build([("TopK", "x k", "v i", {}), ("Relu", "v", "y", {})], {"x": x}, ["y"], {"k": np.array([k])})
    done = import_graph(from_model(model), None, resolve(target), check_node)
    assert refusals(done) == []
    assert any(op.kind == "topk" for op in done.program().ops) == (target in ("m4", "m5") and k != 3)
    want = truth(model, {"x": x})[0]
    assert np.array_equal(compute(done, {"x": x}, "fp16")["y"], want)
    assert np.array_equal(load_onnx(model, target=target)(x), want)


def test_topk_beyond_its_budget():
    shape = (FLOAT, [64, 2000])
    (text,) = reasons([("TopK", "x k", "v i", {})], {"x": shape}, ["v", "i"], {"k": np.array([64])})
    assert text.startswith("limit: the first 64 of 2000 elements")


# ---------------------------------------------------------------- codes

GRID = {"s": np.float32(0.25), "z": np.uint8(7), "s2": np.float32(0.5), "z2": np.uint8(100)}
Q, D = ("QuantizeLinear", "x s z", "q", {}), ("DequantizeLinear", "q s z", "d", {})


def test_quantized_and_back_is_the_grid():
    """With rounding, not a clip alone; and the codes leave as bytes."""
    x = np.arange(-600, 600, dtype=np.float32).reshape(30, 40) / 8
    judge([Q, D, ("Relu", "d", "y", {})], {"x": x}, ["q", "d", "y"], GRID)


def test_codes_move_and_compare():
    nodes = [
        Q,
        ("Transpose", "q", "t", {}),
        ("MaxPool", "p", "m", {"kernel_shape": [1, 2]}),
        ("DequantizeLinear", "t s z", "p2", {}),
        ("Unsqueeze", "p2 axes", "p", {}),
    ]
    order = [nodes[0], nodes[1], nodes[3], nodes[4], nodes[2]]
    x = np.arange(24, dtype=np.float32).reshape(4, 6) / 4 - 3
    judge(order, {"x": x}, ["t", "m"], {**GRID, "axes": np.array([0, 1])})


def test_a_quantized_convolution():
    """As quantizers write it: DQ of weights and bias, Conv, Q, DQ, Relu, Q."""
    r = np.random.RandomState(0)
    weights = r.randint(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    constants = {
        **GRID, "w": weights, "ws": np.float32(2**-7), "wz": np.int8(0),
        "b": r.randint(-500, 500, 4).astype(np.int32), "bs": np.float32(2**-9), "bz": np.int32(0),
        "big": np.float32(8), "bigz": np.uint8(128),
    }  # fmt: skip
    nodes = [
        Q,
        D,
        ("DequantizeLinear", "w ws wz", "wf", {}),
        ("DequantizeLinear", "b bs bz", "bf", {}),
        ("Conv", "d wf bf", "c", {"pads": [1, 1, 1, 1]}),
        ("QuantizeLinear", "c big bigz", "cq", {}),
        ("DequantizeLinear", "cq big bigz", "cd", {}),
    ]
    x = r.randint(0, 256, (1, 3, 8, 8)).astype(np.float32) / 4
    model = build(nodes, {"x": x}, ["cd"], constants)
    done = imported(model)
    assert [n.status for n in done.nodes] == ["engine", "engine", "free", "free", "engine", "engine", "engine"]
    want = truth(model, {"x": x})[0]
    assert np.array_equal(compute(done, {"x": x}, "fp32")["cd"], want)
    off = np.abs(compute(done, {"x": x}, "fp16")["cd"] - want) / 8
    assert off.max() <= 1
    assert off.mean() < 0.02


def test_a_bias_of_codes_that_fp16_cannot_add():
    constants = {
        "xs": np.float32(1), "xz": np.uint8(0), "w": np.ones((1, 1, 1, 1), np.int8), "ws": np.float32(1),
        "wz": np.int8(0), "ys": np.float32(1), "yz": np.uint8(0), "b": np.array([5000], np.int32),
    }  # fmt: skip
    node = ("QLinearConv", "x xs xz w ws wz ys yz b", "y", {})
    (text,) = reasons([node], {"x": (TensorProto.UINT8, [1, 1, 3, 3])}, ["y"], constants)
    assert text.startswith("limit: a bias of 5000 steps")


@pytest.mark.parametrize("kind", [np.int16, np.uint16])
def test_codes_of_16_bits_are_refused(kind):
    nodes = [("QuantizeLinear", "x s z", "q", {}), ("DequantizeLinear", "q s z", "y", {})]
    texts = reasons(nodes, {"x": (FLOAT, [3])}, ["y"], {"s": np.float32(1), "z": np.zeros((), kind)}, 21)
    assert texts[0] == f"data type: codes of {np.dtype(kind)}; those of 8 bits are whole numbers of fp16"


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_scales_that_are_none(scale):
    assert reasons([Q], {"x": (FLOAT, [3])}, ["q"], {"s": np.float32(scale), "z": np.uint8(0)}) == [
        "no engine form: a scale that is not positive"
    ]


def test_parameters_computed_at_run_time():
    (text,) = reasons([Q], {"x": (FLOAT, [3]), "s": (FLOAT, [])}, ["q"], {"z": np.uint8(0)})
    assert text.startswith("computed parameter: its 'y_scale' ('s')")


def test_results_of_operators_that_onnx_does_not_know():
    """No shape inference tells that QLinearAdd gives bytes; its handler does."""
    model = build([Q], {"x": X}, ["q"], GRID)
    add = helper.make_node("QLinearAdd", ["q", "s", "z", "q", "s", "z", "s2", "z2"], ["a"], domain="com.microsoft")
    model.graph.node.extend([add, helper.make_node("DequantizeLinear", ["a", "s2", "z2"], ["y"])])
    model.graph.output.append(helper.make_tensor_value_info("y", FLOAT, X.shape))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    done = imported(model)
    assert refusals(done) == []
    assert done.dtypes["a"] == np.uint8
    assert close(compute(done, {"x": X})["y"], truth(model, {"x": X})[1], 0, 0) == ""


def test_dynamic_quantization_is_refused():
    """-2.5 of a range of 5 is 127.5 steps: ONNX Runtime says 127, for its step is a bit longer than a 255th of 5."""
    (text,) = reasons([("DynamicQuantizeLinear", "x", "y s z", {})], {"x": (FLOAT, [6])}, ["y", "s", "z"])
    assert text.startswith("no engine form: DynamicQuantizeLinear")


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 10, 33, -5, 300])
def test_integers_divide_towards_zero(divisor):
    """Every dividend between -1024 and 1023."""
    x = np.arange(2048, dtype=np.float32) - 1024
    nodes = [("Clip", "x lo hi", "c", {}), ("Cast", "c", "i", {"to": INT64}), ("Div", "i d", "y", {})]
    constants = {"lo": np.float32(-1024), "hi": np.float32(1023), "d": np.int64(divisor)}
    judge(nodes, {"x": x}, ["y"], constants)
    nodes[2] = ("Mod", "i d", "y", {"fmod": 1})
    judge(nodes, {"x": x}, ["y"], constants)
    nodes[2] = ("Mod", "i d", "y", {})
    judge(nodes, {"x": x}, ["y"], constants)


def test_divisors_that_fp16_cannot_undo():
    nodes = [ARG, ("Div", "i d", "y", {})]
    for divisor in (0, 1500):
        assert "Div of integers" in reasons(nodes, {"x": X}, ["y"], {"d": np.int64(divisor)})[0]


def test_one_hot_of_what_was_found():
    nodes = [ARG, ("OneHot", "i n v", "y", {})]
    judge(nodes, {"x": X}, ["y"], {"n": np.int64(6), "v": np.array([0, 1], np.float32)})
    judge(nodes, {"x": X}, ["y"], {"n": np.int64(4), "v": np.array([7, -3])})
    nodes[1] = ("OneHot", "i n v", "y", {"axis": 0})
    judge(nodes, {"x": X}, ["y"], {"n": np.int64(6), "v": np.array([-2, 5.5], np.float32)})
    (text,) = reasons(nodes, {"x": X}, ["y"], {"n": np.int64(3000), "v": np.array([0, 1], np.float32)})
    assert text == "limit: OneHot of depth 3000: fp16 counts to 2048"


def test_constants_that_fp16_does_not_count():
    (text,) = reasons([ARG, ("Less", "i c", "y", {})], {"x": X}, ["y"], {"c": np.int64(2049)})
    assert text == "data type: the values of 'c' are integers that may lie between 2049 and 2049; fp16 counts to 2048"
