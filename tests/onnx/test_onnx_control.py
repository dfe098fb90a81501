"""Loop, Scan and If, unrolled; judged by ONNX Runtime's CPU provider, with captures, directions, axes and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_harness import close, compute, imported, refusals
from onnx_rows import normal
from test_onnx_handlers import truth

from aneforge import passes
from aneforge.onnx.importer import import_graph
from aneforge.onnx.scope import UNROLLED
from aneforge.onnx.view import from_model

F, N, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Names separated by blanks; "_" is an absent one."""
    names = ["" if n == "_" else n for n in inputs.split()]
    return helper.make_node(op, names, outputs.split(), name=f"{op}_{outputs.split(maxsplit=1)[0]}", **attributes)


def info(name: str, kind: int = F, shape: Sequence[Any] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def body(nodes: list, inputs: list, outputs: list, known: Mapping[str, np.ndarray] | None = None) -> onnx.GraphProto:
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (known or {}).items()]
    return helper.make_graph(nodes, "body", inputs, outputs, tensors)


def whole(
    nodes: list, fed: Mapping[str, Sequence[int]], outputs: str, known: Mapping[str, Any] | None = None, opset: int = 17
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (known or {}).items()]
    infos = [info(n, F, s) for n, s in fed.items()]
    graph = helper.make_graph(nodes, "g", infos, [info(o) for o in outputs.split()], tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 20 else 10)
    return made, {n: normal(*s, seed=i).astype(np.float16).astype(np.float32) for i, (n, s) in enumerate(fed.items())}


def right(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    done = imported(model)
    assert refusals(done) == []
    assert refusals(import_graph(from_model(model), check=passes.check_node)) == []
    want = truth(model, feeds)
    for numerics, tolerance in (("fp32", (1e-5, 1e-6)), ("fp16", (6e-3, 3e-3))):
        got = compute(done, feeds, numerics)
        for name, expected in zip(got, want, strict=True):
            assert close(got[name], expected, *tolerance) == "", f"{name} in {numerics}"


def accumulate(extra: Sequence[onnx.NodeProto] = ()) -> onnx.GraphProto:
    """State s, element e: s' = s + e, collected is s' * w, of which w is captured."""
    nodes = [node("Add", "s e", "t"), node("Mul", "t w", "c"), *extra]
    return body(nodes, [info("s"), info("e")], [info("t"), info("c")])


@pytest.mark.parametrize("opset", [9, 11, 16, 19, 21, 23])
def test_scan(opset: int) -> None:
    scan = node("Scan", "s0 x", "s1 y", body=accumulate(), num_scan_inputs=1)
    right(*whole([scan], {"s0": [3], "x": [4, 3], "w": [3]}, "s1 y", opset=opset))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("back", [0, 1])
def test_scan_axes_and_directions(axis: int, back: int) -> None:
    shape = [4, 3] if axis == 0 else [3, 4]
    form = {"scan_input_axes": [axis], "scan_output_axes": [axis], "scan_input_directions": [back]}
    scan = node("Scan", "s0 x", "s1 y", body=accumulate(), num_scan_inputs=1, scan_output_directions=[1 - back], **form)
    right(*whole([scan], {"s0": [3], "x": shape, "w": [3]}, "s1 y"))


def test_scan_of_two_inputs_without_state() -> None:
    inner = body([node("Sub", "a b", "c"), node("Relu", "c", "d")], [info("a"), info("b")], [info("c"), info("d")])
    scan = node("Scan", "x k", "y z", body=inner, num_scan_inputs=2, scan_input_directions=[0, 1])
    right(*whole([scan], {"x": [4, 2, 3]}, "y z", {"k": normal(4, 2, 3, seed=7)}))


def test_scan_of_a_batch() -> None:
    """Version 8: axis 1 is scanned, once for each of the batch; scalars as elements."""
    scan = node("Scan", "_ s0 x", "s1 y", body=accumulate(), num_scan_inputs=1)
    right(*whole([scan], {"s0": [2, 3], "x": [2, 4, 3], "w": [3]}, "s1 y", opset=8))
    inner = body([node("Add", "s e", "t"), node("Neg", "t", "c")], [info("s"), info("e")], [info("t"), info("c")])
    scan = node("Scan", "_ s0 x", "s1 y", body=inner, num_scan_inputs=1, directions=[1])
    right(*whole([scan], {"s0": [2], "x": [2, 4]}, "s1 y", opset=8))


def counted(
    inner: Sequence[onnx.NodeProto], collected: Sequence[str], known: Mapping[str, Any] | None = None
) -> onnx.GraphProto:
    """A body of Loop: i, c, s -> c, t and what is collected."""
    outs = [info("d", B, []), info("t", F, [3]), *(info(n, F, [3]) for n in collected)]
    return body(
        [node("Identity", "c", "d"), *inner], [info("i", N, []), info("c", B, []), info("s", F, [3])], outs, known
    )


@pytest.mark.parametrize("opset", [8, 11, 13, 16, 21, 23])
def test_loop_captures_and_collects(opset: int) -> None:
    inner = counted([node("Mul", "s w", "u"), node("Add", "u x", "t"), node("Neg", "t", "n")], ["n"])
    loop = node("Loop", "m _ x", "s1 y", body=inner)
    right(*whole([loop], {"x": [3], "w": [3]}, "s1 y", {"m": np.int64(4)}, opset))


def test_loop_of_no_rounds() -> None:
    """The states as they come, and an empty collection of known type."""
    loop = node("Loop", "m _ x", "s1 y", body=counted([node("Neg", "s", "t"), node("Abs", "t", "n")], ["n"]))
    model, feeds = whole([loop, node("Relu", "s1", "z")], {"x": [3]}, "z y", {"m": np.int64(0)})
    right(model, feeds)
    assert compute(imported(model), feeds)["y"].shape == (0, 3)
    never = node("Loop", "m go x", "s1 y", body=counted([node("Neg", "s", "t"), node("Abs", "t", "n")], ["n"]))
    right(*whole([never, node("Relu", "s1", "z")], {"x": [3]}, "z y", {"m": np.int64(5), "go": np.bool_(False)}))


@pytest.mark.parametrize("trips", [None, 2, 10, np.iinfo(np.int64).max])
def test_loop_that_ends_by_its_condition(trips: int | None) -> None:
    """While i < 3; a greatest number of rounds that nobody means is no limit."""
    nodes = [node("Less", "i three", "d"), node("Add", "s w", "t"), node("Abs", "t", "n")]
    outs = [info("d", B, []), info("t", F, [3]), info("n", F, [3])]
    inner = body(nodes, [info("i", N, []), info("c", B, []), info("s", F, [3])], outs, {"three": np.int64(3)})
    known: dict[str, Any] = {"go": np.bool_(True)} | ({} if trips is None else {"m": np.int64(trips)})
    loop = node("Loop", f"{'_' if trips is None else 'm'} go x", "s1 y", body=inner)
    right(*whole([loop], {"x": [3], "w": [3]}, "s1 y", known))


def test_loops_and_branches_inside_each_other() -> None:
    """A branch by the round's parity inside a loop inside a loop; all read values of the outermost graph."""
    even = body([node("Add", "s2 w", "then")], [], [info("then", F, [3])])
    odd = body([node("Mul", "s2 v", "else")], [], [info("else", F, [3])])
    nodes = [
        node("Add", "i i2", "sum"),
        node("Mod", "sum two", "half"),
        node("Equal", "half zero", "is_even"),
        node("If", "is_even", "picked", then_branch=even, else_branch=odd),
        node("Identity", "c2", "d2"),
        node("Add", "picked x", "t2"),
    ]
    ins = [info("i2", N, []), info("c2", B, []), info("s2", F, [3])]
    numbers = {"two": np.int64(2), "zero": np.int64(0)}
    inner = body(nodes, ins, [info("d2", B, []), info("t2", F, [3]), info("picked", F, [3])], numbers)
    outer = counted([node("Loop", "n _ s", "t l", body=inner), node("ReduceSum", "l first", "q", keepdims=0)], ["q"])
    loop = node("Loop", "m _ x", "s1 y", body=outer)
    known = {"m": np.int64(3), "n": np.int64(2), "first": np.array([0])}
    right(*whole([loop], {"x": [3], "w": [3], "v": [3]}, "s1 y", known))


def test_a_captured_value_is_an_input_for_the_target() -> None:
    """A branch in a form that the target's rules rewrite (a slice of the width, at an offset: Q08), of nothing but a
    captured value."""
    inner = body([node("Slice", "x one three last", "q")], [], [info("q", F, [2, 2])])
    other = body([node("Slice", "x zero two last", "else")], [], [info("else", F, [2, 2])])
    pick = node("If", "yes", "y", then_branch=inner, else_branch=other)
    numbers = {n: np.array([i]) for n, i in (("zero", 0), ("one", 1), ("two", 2), ("three", 3), ("last", -1))}
    right(*whole([pick], {"x": [2, 4]}, "y", {"yes": np.bool_(True), **numbers}))


def test_a_condition_computed_at_run_time_is_refused() -> None:
    branches = [body([node(op, "x", out)], [], [info(out, F, [3])]) for op, out in (("Neg", "t"), ("Abs", "e"))]
    pick = node("If", "yes", "y", then_branch=branches[0], else_branch=branches[1])
    nodes = [node("ReduceSum", "x", "sum", keepdims=0), node("Greater", "sum zero", "yes"), pick]
    model, _ = whole(nodes, {"x": [3]}, "y", {"zero": np.float32(0)})
    (reason,) = refusals(imported(model))
    assert reason.startswith("computed parameter: its 'cond' ('yes') must be known at import")


def test_collected_truths() -> None:
    """Bools, of which some rounds know theirs."""
    nodes = [node("Greater", "s w", "g"), node("Identity", "c", "d"), node("Neg", "s", "t")]
    outs = [info("d", B, []), info("t", F, [3]), info("g", B, [3])]
    inner = body(nodes, [info("i", N, []), info("c", B, []), info("s", F, [3])], outs)
    loop = node("Loop", "m _ k", "s1 y", body=inner)
    model, feeds = whole([loop], {"w": [3]}, "y", {"m": np.int64(3), "k": normal(3, seed=4)})
    model.graph.output[0].type.tensor_type.elem_type = B
    right(model, feeds)


def big(rounds: int) -> onnx.ModelProto:
    inner = counted([node("Neg", "s", "t"), node("Abs", "t", "n")], ["n"])
    return whole([node("Loop", "m _ x", "s1 y", body=inner)], {"x": [3]}, "s1", {"m": np.int64(rounds)})[0]


def test_limits_are_named() -> None:
    (reason,) = refusals(imported(big(2000)))
    assert reason == f"limit: 2000 rounds of 3 nodes; up to {UNROLLED} nodes are unrolled"
    scan = node("Scan", "s0 x", "s1 y", body=accumulate(), num_scan_inputs=1)
    (reason,) = refusals(imported(whole([scan], {"s0": [3], "x": [UNROLLED, 3], "w": [3]}, "s1 y")[0]))
    assert reason == f"limit: {UNROLLED} rounds of 2 nodes; up to {UNROLLED} nodes are unrolled"


def test_loops_in_loops_share_the_limit() -> None:
    """60 rounds of 60 rounds of 2 nodes: each would do alone."""
    ins = [info("i2", N, []), info("c2", B, []), info("s2", F, [3])]
    nodes = [node("Identity", "c2", "d2"), node("Neg", "s2", "t2")]
    inner = body(nodes, ins, [info("d2", B, []), info("t2", F, [3])])
    loop = node("Loop", "m _ x", "s1", body=counted([node("Loop", "m _ s", "t", body=inner)], []))
    (reason,) = refusals(imported(whole([loop], {"x": [3]}, "s1", {"m": np.int64(60)})[0]))
    assert reason.startswith("limit: ")
    assert str(UNROLLED) in reason


@pytest.mark.parametrize(("change", "words"), [
    ({"num_scan_inputs": 3}, "attribute form: 3 scanned of 2 inputs"),
    ({"num_scan_inputs": 1, "scan_input_axes": [5]}, "attribute form: "),
    ({"num_scan_inputs": 1, "scan_input_directions": [0, 1]}, "attribute form: 2 directions for 1 values"),
])  # fmt: skip
def test_scan_refusals(change: dict[str, Any], words: str) -> None:
    scan = node("Scan", "s0 x", "s1 y", body=accumulate(), **change)
    model, _ = whole([scan], {"s0": [3], "x": [4, 3], "w": [3]}, "s1")
    model.graph.output[0].type.tensor_type.shape.SetInParent()
    (reason,) = refusals(imported(model))
    assert reason.startswith(words), reason


def test_what_is_computed_at_run_time_is_refused() -> None:
    inner = counted([node("Neg", "s", "t")], [])
    loop = node("Loop", "m _ x", "s1", body=inner)
    model, _ = whole([loop], {"x": [3]}, "s1")
    model.graph.input.append(info("m", N, []))
    assert refusals(imported(model)) == ["computed parameter: its number of rounds is computed at run time"]
    inner.node[0].CopyFrom(node("Greater", "s zero", "d"))
    inner.output[0].type.tensor_type.ClearField("shape")
    inner.initializer.append(numpy_helper.from_array(np.zeros(1, np.float32), "zero"))
    model, _ = whole([node("Loop", "m _ x", "s1", body=inner)], {"x": [1]}, "s1", {"m": np.int64(2)})
    assert "condition after a round is computed at run time" in refusals(imported(model))[0]


def test_a_refusal_inside_names_its_node() -> None:
    inner = counted([node("Det", "s", "t")], [])
    model, _ = whole([node("Loop", "m _ x", "s1", body=inner)], {"x": [3]}, "s1", {"m": np.int64(2)})
    assert "in its body, Det (node 'Det_t')" in refusals(imported(model))[0]
