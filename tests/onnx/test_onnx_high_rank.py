"""Values of more than five axes between nodes that move whole axes: windows of images, shuffled pixels, repeats."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_harness import UnsupportedModelError, bake, close, compute, imported, refusals
from test_onnx_handlers import truth

Steps = list[tuple[str, list[Any] | None, dict[str, Any]]]


def chain(shape: tuple[int, ...], steps: Steps, opset: int = 17) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """One operator after the other; the list beside each is its second, constant input."""
    nodes, constants = [], []
    for k, (op, given, attributes) in enumerate(steps):
        inputs = [f"v{k}"]
        if given is not None:
            constants.append(numpy_helper.from_array(np.array(given, np.int64), f"c{k}"))
            inputs.append(f"c{k}")
        nodes.append(helper.make_node(op, inputs, [f"v{k + 1}"], name=f"n{k}", **attributes))
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("v0", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info(f"v{len(steps)}")],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    x = np.random.RandomState(0).standard_normal(shape).astype(np.float16).astype(np.float32)
    made = onnx.shape_inference.infer_shapes(model)
    model.graph.output[0].CopyFrom(made.graph.output[0])
    return model, {"v0": x}


def transpose(*perm: int) -> tuple[str, None, dict[str, Any]]:
    return "Transpose", None, {"perm": list(perm)}


CHAINS: dict[str, tuple[tuple[int, ...], Steps]] = {
    "windows of an image, and back": (
        (2, 8, 12, 5),
        [
            ("Reshape", [2, 2, 4, 3, 4, 5], {}),
            transpose(0, 1, 3, 2, 4, 5),
            ("Reshape", [-1, 16, 5], {}),
            ("Relu", None, {}),
            ("Reshape", [2, 2, 3, 4, 4, 5], {}),
            transpose(0, 1, 3, 2, 4, 5),
            ("Reshape", [2, 8, 12, 5], {}),
        ],
    ),
    "pixels shuffled": (
        (1, 12, 3, 5),
        [("Reshape", [1, 3, 2, 2, 3, 5], {}), transpose(0, 1, 4, 2, 5, 3), ("Reshape", [1, 3, 6, 10], {})],
    ),
    "nearest by expanding": (
        (2, 3, 4, 5),
        [
            ("Unsqueeze", [3, 5], {}),
            ("Expand", [2, 3, 4, 2, 5, 3], {}),
            ("Reshape", [0, 0, 8, 15], {}),
        ],
    ),
    "axes of one among them": (
        (2, 3, 4),
        [
            ("Unsqueeze", [0, 2, 4, 6], {}),
            transpose(6, 5, 4, 3, 2, 1, 0),
            ("Squeeze", [0, 2], {}),
            ("Flatten", None, {"axis": 2}),
        ],
    ),
    "columns of an image": (
        (2, 3, 5, 6),
        [
            ("Gather", [[0, 1, 2], [2, 3, 4]], {"axis": 2}),
            ("Gather", [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]], {"axis": 4}),
            transpose(0, 1, 2, 4, 3, 5),
            ("Gather", [1, 0], {"axis": 3}),
            ("Reshape", [2, 18, -1], {}),
        ],
    ),
    "maxima of blocks": (
        (2, 6, 4, 5),
        [("Reshape", [2, 3, 2, 2, 2, 5], {}), ("ReduceMax", None, {"axes": [2, 4], "keepdims": 0})],
    ),
    "and their axes kept": (
        (2, 6, 4, 5),
        [
            ("Reshape", [2, 3, 2, 1, 4, 5], {}),
            ("ReduceMax", None, {"axes": [-1, 2], "keepdims": 1}),
            ("Flatten", None, {"axis": 3}),
        ],
    ),
    "sums over one element": (
        (2, 6, 4),
        [
            ("Reshape", [2, 3, 2, 1, 4, 1], {}),
            ("ReduceL1", None, {"axes": [3, 5], "keepdims": 0}),
        ],
    ),
    "seven axes": (
        (2, 3, 2, 3, 2),
        [("Reshape", [2, 3, 2, 3, 2, 1, 1], {}), transpose(3, 4, 5, 6, 0, 1, 2), ("Flatten", None, {"axis": 3})],
    ),
}


@pytest.mark.parametrize("name", list(CHAINS))
def test_a_chain_through_more_than_five_axes(name: str) -> None:
    model, feeds = chain(*CHAINS[name])
    want = truth(model, feeds)[0]
    done = imported(model)
    assert refusals(done) == []
    for given, fed in ((done, feeds), (imported(bake(model, feeds)), {})):
        (got,) = compute(given, fed).values()
        assert close(got, want, 0, 0) == ""


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([("Reshape", [2, 2, 2, 3, 1, 2], {}), ("Relu", None, {}), ("Flatten", None, {})], "'v1' has rank 6"),
        ([("Reshape", [2, 2, 2, 3, 1, 2], {}), ("Exp", None, {}), ("Flatten", None, {})], "'v1' has"),
        (
            [("Reshape", [2, 2, 2, 3, 1, 2], {}), ("Softmax", None, {"axis": 5}), ("Flatten", None, {})],
            "'v1' has rank 6",
        ),
    ],
)
def test_what_computes_with_them_is_refused(steps: Steps, words: str) -> None:
    model, _ = chain((4, 6, 2), steps)
    first = refusals(imported(model))[0]
    assert first.startswith("rank: ") and words in first


def test_six_axes_apart_from_one_another_are_refused() -> None:
    model, _ = chain(
        (4, 6, 9), [("Reshape", [2, 2, 2, 3, 3, 3], {}), transpose(5, 4, 3, 2, 1, 0), ("Flatten", None, {})]
    )
    assert refusals(imported(model))[0].startswith("rank: perm ")


def test_a_result_of_six_axes_does_not_leave_a_program() -> None:
    model, _ = chain((4, 6, 2), [("Relu", None, {}), ("Reshape", [2, 2, 2, 3, 1, 2], {})])
    with pytest.raises(UnsupportedModelError, match="'v2' has rank 6"):
        imported(model).check()
