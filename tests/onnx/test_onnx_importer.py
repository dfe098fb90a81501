"""One import over a graph: what becomes of each node, regions cut out of it, and what is refused with which words."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_harness import close, compute, imported, refusals
from oracle.mil_reference import evaluate

from aneforge.errors import DynamicShapeError, Reason, Refused, UnsupportedModelError
from aneforge.ir import Program, Tensor
from aneforge.mil import write
from aneforge.onnx.importer import import_graph
from aneforge.onnx.registry import find
from aneforge.onnx.view import from_bytes, from_model

T = TensorProto
TYPES = {
    "f32": T.FLOAT,
    "f16": T.FLOAT16,
    "f64": T.DOUBLE,
    "bf16": T.BFLOAT16,
    "i64": T.INT64,
    "bool": T.BOOL,
    "u8": T.UINT8,
}


def graph(nodes, inputs, outputs, constants=None, opset=17, also=(), ir=9) -> onnx.ModelProto:
    """nodes: (op, inputs, outputs, attributes[, domain]); inputs and outputs: name -> (type, shape)."""
    made = [
        helper.make_node(
            n[0], n[1], n[2], name=f"node {i}", domain=n[4] if len(n) > 4 else "", **(n[3] if len(n) > 3 else {})
        )
        for i, n in enumerate(nodes)
    ]
    ins = [helper.make_tensor_value_info(k, TYPES[t], s) for k, (t, s) in inputs.items()]
    outs = [helper.make_tensor_value_info(k, TYPES[t], s) for k, (t, s) in outputs.items()]
    held = [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in also)]
    return helper.make_model(helper.make_graph(made, "g", ins, outs, held), opset_imports=opsets, ir_version=ir)


def run(program: Program, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    mil = write(program, "fp32")
    out = evaluate(mil.text, bytes(mil.blob), {p.mil: feeds[p.name] for p in mil.inputs}, "fp32")
    return {p.name: out[p.mil] for p in mil.outputs}


X = {"x": ("f32", [2, 3])}
Y = {"y": ("f32", None)}
A = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


# ---------------------------------------------------------------- the classes of nodes


def island(kind: int = T.DOUBLE) -> onnx.ModelProto:
    """Relu -> (another type there and back) -> Add with Relu's result; shape arithmetic beside it."""
    return graph(
        [
            ("Relu", ["x"], ["a"]),
            ("Cast", ["a"], ["d"], {"to": kind}),
            ("Cast", ["d"], ["b"], {"to": T.FLOAT}),
            ("Shape", ["b"], ["s"]),
            ("Reshape", ["b", "s"], ["r"]),
            ("Add", ["a", "r"], ["y"]),
        ],
        X,
        Y,
    )


@pytest.mark.parametrize("kind", [T.DOUBLE, T.BFLOAT16])
def test_a_refused_node_does_not_stop_the_import(kind: int) -> None:
    done = imported(island(kind))
    assert [n.status for n in done.nodes] == ["engine", "cpu", "cpu", "free", "engine", "engine"]
    assert [n.layout for n in done.nodes] == [False, True, True, True, True, False]
    assert isinstance(done.values["b"], Tensor) and done.values["d"] is None
    assert done.values["s"].tolist() == [2, 3] and done.values["s"].dtype == np.int64


def test_regions_are_cut_out_of_one_import() -> None:
    done = imported(island())
    first = done.region([0], ["x"], ["a"])
    second = done.region([3, 4, 5], ["a", "b"], ["y"])
    a = run(first, {"x": A})["a"]
    assert np.array_equal(a, np.maximum(A, 0))
    assert np.array_equal(run(second, {"a": a, "b": a})["y"], 2 * a)
    assert [name for name, _ in second.inputs] == ["a", "b"]


def test_known_values_are_no_ports() -> None:
    done = imported(island())
    program = done.region([4, 5], ["a", "b", "s"], ["y"])
    assert [name for name, _ in program.inputs] == ["a", "b"]


def test_a_region_takes_engine_nodes_only() -> None:
    done = imported(island())
    with pytest.raises(ValueError, match="Cast"):
        done.region([0, 1], ["x"], ["d"])
    with pytest.raises(ValueError, match="'d'"):
        done.region([5], ["a", "d"], ["y"])


def test_bools_cross_as_numbers() -> None:
    proto = graph(
        [("Greater", ["x", "zero"], ["m"]), ("Not", ["m"], ["n"]), ("Where", ["n", "x", "zero"], ["y"])],
        X,
        {**Y, "m": ("bool", None)},
        {"zero": np.float32(0)},
    )
    done = imported(proto)
    first, second = done.region([0], ["x"], ["m"]), done.region([1, 2], ["m", "x"], ["y"])
    m = run(first, {"x": A})["m"]
    assert m.dtype == np.float32 and np.array_equal(m, A > 0)
    assert np.array_equal(run(second, {"m": m, "x": A})["y"], np.minimum(A, 0))
    got = compute(done, {"x": A})
    assert got["m"].dtype == bool and np.array_equal(got["m"], A > 0)


def test_a_broadcast_condition_can_be_cut() -> None:
    """Where must not look behind the value that it is given: it may come from outside the region."""
    proto = graph(
        [("Greater", ["x", "zero"], ["m"]), ("Where", ["m", "z", "zero"], ["y"])],
        {"x": ("f32", [3]), "z": ("f32", [2, 3])},
        Y,
        {"zero": np.float32(0)},
    )
    done = imported(proto)
    got = run(done.region([1], ["m", "z"], ["y"]), {"m": np.array([1, 0, 1], np.float32), "z": A})
    assert np.array_equal(got["y"], np.where([True, False, True], A, 0))


def test_every_operation_says_where_it_comes_from() -> None:
    done = imported(island())
    program = done.region([0], ["x"], ["a"])
    assert {o for op in program.ops if not op.is_leaf for o in program.origins(op)} == {0}
    program = done.region([3, 4, 5], ["a", "b"], ["y"])
    assert all(program.origins(op) for op in program.ops if not op.is_leaf)


def test_bodies_belong_to_their_node() -> None:
    body = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["t"]), helper.make_node("Neg", ["t"], ["b"])],
        "then", [], [helper.make_tensor_value_info("b", T.FLOAT, [2, 3])],
    )  # fmt: skip
    nodes = [
        ("Abs", ["x"], ["p"]),
        ("If", ["c"], ["q"], {"then_branch": body, "else_branch": body}),
        ("Add", ["p", "q"], ["y"]),
    ]
    done = imported(graph(nodes, X, Y, {"c": np.array(True)}))
    program = done.program()
    marks = {op.kind: program.origins(op) for op in program.ops if not op.is_leaf}
    assert marks["relu"] == {1} and marks["abs"] == {0} and marks["add"] == {2}
    assert np.array_equal(compute(done, {"x": A})["y"], np.abs(A) - np.maximum(A, 0))


def test_macs() -> None:
    w = np.ones((4, 3, 3, 3), np.float32)
    proto = graph([("Conv", ["x", "w"], ["y"], {"pads": [1] * 4})], {"x": ("f32", [1, 3, 8, 8])}, Y, {"w": w})
    assert imported(proto).nodes[0].macs == 4 * 8 * 8 * 3 * 9
    proto = graph([("Gemm", ["x", "w"], ["y"])], {"x": ("f32", [5, 3])}, Y, {"w": np.ones((3, 7), np.float32)})
    assert imported(proto).nodes[0].macs == 5 * 3 * 7
    proto = graph(
        [("MatMul", ["x", "z"], ["y"])], {"x": ("bf16", [5, 3]), "z": ("bf16", [3, 2])}, {"y": ("bf16", None)}
    )
    assert imported(proto).nodes[0].status == "cpu" and imported(proto).nodes[0].macs == 30
    held = {"s": np.float32(0.1), "z": np.uint8(3), "w": np.ones((4, 3, 3, 3), np.int8), "wz": np.int8(0)}
    nodes = [("QLinearConv", ["x", "s", "z", "w", "s", "wz", "s", "z"], ["y"], {"pads": [1] * 4})]
    assert (
        imported(graph(nodes, {"x": ("u8", [1, 3, 8, 8])}, {"y": ("u8", None)}, held)).nodes[0].macs
        == 4 * 8 * 8 * 3 * 9
    )


def test_equal_models_give_equal_text() -> None:
    texts = {
        write(imported(graph([("Relu", ["x"], ["a"]), ("Exp", ["a"], ["y"])], X, Y)).program()).text for _ in range(3)
    }
    assert len(texts) == 1


def test_a_chain_of_20000_nodes() -> None:
    names = [f"v{i}" for i in range(20000)]
    nodes = [("Abs" if i % 2 else "Neg", [a], [b]) for i, (a, b) in enumerate(zip(["x", *names], names, strict=False))]
    done = imported(graph(nodes, X, {names[-1]: ("f32", None)}))
    assert {n.status for n in done.nodes} == {"engine"}
    assert len(done.program().ops) > 20000


# ---------------------------------------------------------------- refusals


def refused(nodes, inputs=X, constants=None, outputs=Y, **more) -> str:
    """The reason of the last node."""
    done = import_graph(from_bytes(graph(nodes, inputs, outputs, constants, **more).SerializeToString()))
    reason = done.nodes[-1].reason
    assert reason is not None
    return f"{reason.kind}: {reason.text}"


def test_a_version_without_handler_is_refused_by_its_number() -> None:
    """Upsample ended with opset 10."""
    with pytest.raises(Refused, match=r"Upsample version 10 .opset 11. has no handler"):
        find("Upsample", "", 11)


@pytest.mark.parametrize(
    ("nodes", "arguments", "words"),
    [
        ([("Det", ["x"], ["y"])], {}, "operator: there is no handler for Det"),
        ([("Relu", ["x"], ["y"], {}, "com.example")], {"also": ["com.example"]}, "operator: .*com.example::Relu"),
        ([("Relu", ["x"], ["y"], {}, "com.example")], {}, "operator: "),
        ([("Gelu", ["x"], ["y"])], {}, "operator: Gelu"),  # version 20 is newer than the opset
        ([("Add", ["x", "x"], ["y"], {"broadcast": 1})], {}, "attribute form: .*opset 6"),
        ([("Relu", ["x"], ["y"], {"slope": 1.0})], {}, "attribute form: .*slope"),
        ([("Elu", ["x"], ["y"], {"alpha": b"\xff"})], {}, "attribute form: .*alpha"),
        ([("Relu", ["x", "x"], ["y"])], {}, "attribute form: "),
        ([("Add", ["x"], ["y"])], {}, "attribute form: "),
        ([("Concat", ["x", "x"], ["y"])], {}, "attribute form: .*axis"),
        (
            [("Reshape", ["x", "s"], ["y"])],
            {"inputs": {**X, "s": ("i64", [2])}},
            "computed parameter: its 'shape' .'s'",
        ),
        ([("Range", ["x", "x", "x"], ["y"])], {}, "computed parameter: Range"),
        ([("Relu", ["x"], ["y"])], {"inputs": {"x": ("bf16", [2])}}, "data type: 'x' is bfloat16"),
        ([("Relu", ["x"], ["y"])], {"inputs": {"x": ("bf16", [2])}}, "data type: .*'x' is (bfloat16|not known)"),
        ([("Abs", ["x"], ["y"])], {"inputs": {"x": ("i64", [2])}}, "data type: 'x' is int64"),
        ([("Add", ["x", "k"], ["y"])], {"constants": {"k": np.int64(1)}}, "data type: "),
        ([("Cast", ["x"], ["y"], {"to": T.INT64})], {}, "data type: .*int64"),
        ([("Cast", ["x"], ["y"], {"to": T.BOOL})], {}, "data type: .*bool"),
        ([("Relu", ["x"], ["y"])], {"inputs": {"x": ("f32", ["n", 3])}}, r"dynamic shape: 'x' has the shape \[n, 3\]"),
        ([("Relu", ["x"], ["y"])], {"inputs": {"x": ("f32", [1] * 6)}}, "rank: 'x' has rank 6"),
        (
            [("Reshape", ["x", "s"], ["t"]), ("Neg", ["t"], ["y"])],
            {"constants": {"s": np.array([1, 1, 1, 2, 3, 1])}},
            "rank: 't' has rank 6",
        ),
        ([("Relu", ["x"], ["y"])], {"inputs": {"x": ("f32", [2, 0])}}, "limit: .*empty"),
        ([("Add", ["x", "k"], ["y"])], {"constants": {"k": np.float32(np.nan)}}, "data type: .*NaN"),
        (
            [("MatMul", ["x", "w"], ["y"])],
            {"constants": {"w": np.full((3, 2), np.inf, np.float32)}},
            "data type: .*infinity",
        ),
        ([("MatMul", ["x", "w"], ["y"])], {"constants": {"w": np.ones((4, 2), np.float32)}}, "attribute form: "),
        ([("Add", ["x", "w"], ["y"])], {"constants": {"w": np.ones((4, 2), np.float32)}}, "attribute form: "),
        ([("Gather", ["x", "i"], ["y"])], {"constants": {"i": np.array([2])}}, "attribute form: indices"),
        ([("Softmax", ["x"], ["y"], {"axis": 5})], {}, "attribute form: axis 5"),
        ([("Dropout", ["x", "", "t"], ["y"])], {"constants": {"t": np.array(True)}}, "attribute form: .*training"),
        ([("Pow", ["x", "x"], ["y"])], {}, "computed parameter: "),
        ([("Mod", ["x", "x"], ["y"], {"fmod": 1})], {}, "no engine form: "),
    ],
)
def test_refusals_say_kind_and_cause(nodes: list, arguments: dict, words: str) -> None:
    text = refused(nodes, **arguments)
    assert re.match(words, text), text


def test_an_optional_output_that_somebody_reads() -> None:
    nodes = [("MaxPool", ["x"], ["y", "where"], {"kernel_shape": [2, 2]})]
    x, y = {"x": ("f32", [1, 1, 4, 4])}, {"y": ("f32", None)}
    assert refusals(imported(graph(nodes, x, y))) == []
    reasons = refusals(imported(graph(nodes, x, {**y, "where": ("i64", None)})))
    assert len(reasons) == 1 and "output 1 ('where') is read" in reasons[0]


def test_one_unknown_operator_reads_as_it_always_did() -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        imported(graph([("Det", ["x"], ["y"])], {"x": ("f32", [3, 3])}, {"y": ("f32", [])})).program()
    assert str(caught.value).startswith("ONNX op 'Det' not supported")
    assert isinstance(caught.value, NotImplementedError)


def test_all_refused_nodes_are_listed() -> None:
    nodes = [("Det", ["x"], ["a"]), ("Cast", ["a"], ["b"], {"to": T.INT64}), ("IsNaN", ["x"], ["c"])]
    outs = {"b": ("i64", None), "c": ("bool", None)}
    with pytest.raises(UnsupportedModelError) as caught:
        imported(graph(nodes, {"x": ("f32", [3, 3])}, outs)).program()
    assert [(n.op, n.name, n.reason.kind) for n in caught.value.nodes] == [
        ("Det", "node 0", "operator"), ("Cast", "node 1", "data type"), ("IsNaN", "node 2", "no engine form"),
    ]  # fmt: skip


@pytest.mark.parametrize("shape", [["batch", 3], [None, 3], ["a", "b"]])
def test_a_dimension_that_is_not_fixed_says_how_to_fix_it(shape: list) -> None:
    proto = graph([("Relu", ["x"], ["y"])], {"x": ("f32", shape)}, Y)
    with pytest.raises(DynamicShapeError, match="'x'") as caught:
        imported(proto).program()
    text = str(caught.value)
    assert "input_shapes={'x': (1, " in text
    for name in filter(None, shape):
        assert str(name) in text
    assert ("dims={" in text) == (None not in shape)
    assert refusals(imported(proto, input_shapes={"x": (2, 3)})) == []


def test_the_target_may_object() -> None:
    view = from_model(graph([("Relu", ["x"], ["a"]), ("Exp", ["a"], ["y"])], X, Y))

    def no_exp(outputs, inputs, target) -> Reason | None:
        return Reason("limit", "no exp today") if any(t.op.kind == "exp" for t in outputs) else None

    done = import_graph(view, check=no_exp)
    assert [n.status for n in done.nodes] == ["engine", "cpu"]
    assert done.nodes[1].reason == Reason("limit", "no exp today")


# ---------------------------------------------------------------- values at the border


def test_a_replaceable_constant_is_a_port() -> None:
    proto = graph([("MatMul", ["x", "w"], ["y"])], {**X, "w": ("f32", [3, 2])}, Y, {"w": np.ones((3, 2), np.float32)})
    done = import_graph(from_bytes(proto.SerializeToString()))
    program = done.region([0], ["x", "w"], ["y"])
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert np.array_equal(run(program, {"x": A, "w": w})["y"], A @ w)
    assert np.array_equal(compute(imported(proto), {"x": A})["y"], A @ np.ones((3, 2), np.float32))


def test_bytes_come_in_as_they_are() -> None:
    nodes = [("Cast", ["x"], ["f"], {"to": T.FLOAT}), ("Mul", ["f", "k"], ["y"])]
    proto = graph(nodes, {"x": ("u8", [2, 3])}, Y, {"k": np.float32(0.5)})
    done = imported(proto)
    assert done.program().inputs[0][1].dtype == "uint8"
    x = np.array([[0, 1, 2], [200, 254, 255]], np.uint8)
    assert np.array_equal(compute(done, {"x": x})["y"], x * np.float32(0.5))


def test_known_outputs_keep_their_type() -> None:
    nodes = [("Shape", ["x"], ["s"]), ("Add", ["k", "k"], ["c"]), ("Relu", ["x"], ["y"])]
    outs = {"s": ("i64", None), "c": ("f64", None), **Y}
    done = imported(graph(nodes, X, outs, {"k": np.array([0.1, 1e300])}))
    got = compute(done, {"x": A})
    assert got["s"].dtype == np.int64 and got["s"].tolist() == [2, 3]
    assert got["c"].dtype == np.float64 and got["c"].tolist() == [0.2, 2e300]


def test_half_precision_models_stay_half() -> None:
    done = imported(graph([("Exp", ["x"], ["y"])], {"x": ("f16", [2, 3])}, {"y": ("f16", None)}))
    got = compute(done, {"x": A.astype(np.float16)}, "fp16")["y"]
    assert got.dtype == np.float16 and close(got, np.exp(A.astype(np.float16)), 2e-3, 0) == ""


def test_an_input_as_output_and_nothing_but_moves() -> None:
    nodes = [("Identity", ["x"], ["a"]), ("Transpose", ["a"], ["b"], {"perm": [0, 1]}), ("Dropout", ["b"], ["y"])]
    done = imported(graph(nodes, X, {**Y, "x": ("f32", [2, 3])}))
    got = compute(done, {"x": A})
    assert np.array_equal(got["x"], A) and np.array_equal(got["y"], A)
    assert all(n.layout for n in done.nodes)


def test_what_the_runtime_fuses_in_older_opsets() -> None:
    """ONNX Runtime writes LayerNormalization into models whose opset does not have it, in the domain of ONNX."""
    nodes = [("LayerNormalization", ["x", "g"], ["y"], {"epsilon": 1e-5, "stash_type": 1})]
    proto = graph(nodes, X, Y, {"g": np.ones(3, np.float32)}, opset=11)
    done = import_graph(from_bytes(proto.SerializeToString()))
    assert [n.status for n in done.nodes] == ["engine"]


def test_shape_inference_may_be_wrong() -> None:
    """ceil_mode with a last window in the padding: before opset 22 inference says 3 x 3, the operator gives 2 x 2."""
    pool = {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0], "strides": [3, 3], "ceil_mode": 1}
    nodes = [("MaxPool", ["x"], ["p"], pool), ("Flatten", ["p"], ["y"])]
    done = imported(graph(nodes, {"x": ("f32", [1, 1, 5, 5])}, Y))
    assert refusals(done) == [] and done.values["p"].shape == (1, 1, 2, 2) and done.values["y"].shape == (1, 4)
