"""Control flow: bodies of If, Loop and Scan are claimed in part or whole; others are left alone."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import aneforge.provider
from tests.provider.graphs import NAME, close, floats, model, node, placement, reference, session

INFO = helper.make_tensor_value_info


Ports = dict[str, tuple[int, list[int]]]


def body(nodes: list[onnx.NodeProto], inputs: Ports, outputs: Ports, name: str) -> onnx.GraphProto:
    return helper.make_graph(
        nodes, name, [INFO(n, *t) for n, t in inputs.items()], [INFO(n, *t) for n, t in outputs.items()]
    )


def branches() -> onnx.ModelProto:
    then = body([node("Mul", "a w", "t0"), node("Tanh", "t0", "t")], {}, {"t": (1, [2, 3])}, "then")
    other = body([node("Exp", "a", "e0"), node("Relu", "e0", "e")], {}, {"e": (1, [2, 3])}, "else")
    return model(
        [node("Relu", "x", "a"), node("If", "c", "i", then_branch=then, else_branch=other), node("Sigmoid", "i", "y")],
        {"x": [2, 3], "c": []},
        {"y": [2, 3]},
        {"w": floats(2, 3, seed=5)},
        types={"c": TensorProto.BOOL},
    )


@pytest.mark.parametrize("optimize", [False, True])
def test_branches(optimize: bool) -> None:
    made = session(branches(), optimize=optimize)
    x = floats(2, 3)
    for condition in (True, False):
        feeds = {"x": x, "c": np.array(condition)}
        close(made.run(None, feeds)[0], reference(branches(), feeds)[0])
    assert sorted(placement(made)[NAME]) == ["Exp", "Mul", "Relu", "Relu", "Sigmoid", "Tanh"]
    assert placement(made)["CPUExecutionProvider"] == ["If"]
    report = aneforge.provider.report(made)
    assert {n.graph for n in report.nodes} == {"", "If#0", "If#1"}
    assert [n.op for n in report.on_cpu] == ["If"]
    assert len(report.regions) == 4
    assert len({r.name for r in report.regions}) == 4
    assert sum(r.runs for r in report.regions) == 6


def test_a_body_reads_across_a_region() -> None:
    """The If reads `a` and gives what joins `a` again: a path over the If must part the region."""
    then = body([node("Mul", "a a", "t")], {}, {"t": (1, [2, 3])}, "then")
    other = body([node("Exp", "a", "e")], {}, {"e": (1, [2, 3])}, "else")
    nodes = [
        node("Relu", "x", "a"),
        node("Tanh", "a", "b"),
        node("If", "c", "i", then_branch=then, else_branch=other),
        node("Add", "b i", "d"),
        node("Sigmoid", "d", "y"),
    ]
    made_model = model(nodes, {"x": [2, 3], "c": []}, {"y": [2, 3]}, types={"c": TensorProto.BOOL})
    made = session(made_model)
    feeds = {"x": floats(2, 3), "c": np.array(True)}
    close(made.run(None, feeds)[0], reference(made_model, feeds)[0])
    main = [r for r in aneforge.provider.report(made).regions if not r.graph]
    assert [r.nodes for r in main] == [2, 2]


def test_loop() -> None:
    step = body(
        [node("Mul", "v w", "m"), node("Tanh", "m", "n"), node("Identity", "cond", "go")],
        {"i": (7, []), "cond": (9, []), "v": (1, [2, 2])},
        {"go": (9, []), "n": (1, [2, 2])},
        "step",
    )
    made_model = model(
        [node("Loop", "count cond0 x", "z", body=step), node("Relu", "z", "y")],
        {"x": [2, 2]},
        {"y": [2, 2]},
        {"count": np.array(3, np.int64), "cond0": np.array(True), "w": floats(2, 2, seed=9)},
    )
    made = session(made_model)
    x = floats(2, 2)
    close(made.run(None, {"x": x})[0], reference(made_model, {"x": x})[0])
    inner = [r for r in aneforge.provider.report(made).regions if r.graph == "Loop#0"]
    assert [r.runs for r in inner] == [3]


def test_functions_answer_alike_in_both_calls() -> None:
    """onnxruntime asks once before it inlines the bodies of ONNX functions, and once after."""
    nodes = [node("HardSwish", "x", "a"), node("Mish", "a", "b"), node("Gelu", "b", "c"), node("Relu", "c", "y")]
    made_model = model(nodes, {"x": [2, 3]}, {"y": [2, 3]}, opset=20)
    made = session(made_model)
    x = floats(2, 3)
    close(made.run(None, {"x": x})[0], reference(made_model, {"x": x})[0])
    assert "CPUExecutionProvider" not in placement(made)
    assert len(aneforge.provider.report(made).regions) == 1
