"""Operators without a handler, imported as the function that ONNX defines them by; judged by onnx's expected values."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_harness import bake, close, compute, imported, refusals
from test_onnx_node_suite import baked, cases

from aneforge.onnx import registry

NEWEST = onnx.defs.onnx_opset_version() >= 28


def suite(prefix: str, *names: str) -> list[tuple[str, onnx.ModelProto, dict, dict]]:
    return [case for case in cases() if case[0].startswith(prefix) and (not names or case[0] in names)]


@pytest.mark.skipif(not NEWEST, reason="the node tests of this onnx are other ones")
@pytest.mark.parametrize(("op", "prefix", "count"), [
    ("CausalConvWithState", "test_causal_conv_with_state_", 12),
    ("FlexAttention", "test_flexattention", 5),
    ("LinearAttention", "test_linear_attention_", 14),
    ("NegativeLogLikelihoodLoss", "test_nllloss_", 16),
    ("SoftmaxCrossEntropyLoss", "test_sce_", 30),
    ("SwiGLU", "test_swiglu", 3),
])  # fmt: skip
def test_function_is_computed_on_the_engine(op: str, prefix: str, count: int) -> None:
    """With the parameters known and the data at run time."""
    assert ("", op) not in registry.handlers()
    found = 0
    for name, model, feeds, want in suite(prefix):
        if name.endswith("_expanded"):
            continue
        for constants in list(baked(feeds))[:-1]:
            done = imported(bake(model, {n: feeds[n] for n in constants}))
            if refusals(done):
                continue
            got = compute(done, feeds)
            for out, expected in want.items():
                loose = (3e-3, 3e-3) if expected.dtype == np.float16 else (2e-4, 2e-5)
                assert close(got[out], expected, *loose) == "", name
            found += 1
            break
    assert found >= count


@pytest.mark.parametrize(
    "name", ["hannwindow", "hammingwindow_symmetric", "blackmanwindow", "range_int32_type_negative_delta"]
)
def test_function_of_constants_is_known(name: str) -> None:
    _, model, feeds, want = suite("", f"test_{name}")[0]
    done = imported(bake(model, feeds))
    assert [n.status for n in done.nodes] == ["free"]
    for out, expected in want.items():
        assert close(compute(done, {})[out], expected, 1e-5, 1e-6) == ""


def one(op: str, opset: int, inputs: dict[str, tuple[int, list]], attributes: dict, outputs: int = 1):
    node = helper.make_node(op, list(inputs), [f"o{i}" for i in range(outputs)], "the node", **attributes)
    infos = [helper.make_tensor_value_info(k, *v) for k, v in inputs.items() if k]
    outs = [helper.make_empty_tensor_value_info(f"o{i}") for i in range(outputs)]
    model = helper.make_model(
        helper.make_graph([node], "g", infos, outs), opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    types = onnx.shape_inference.infer_shapes(model).graph.output
    del model.graph.output[:]
    model.graph.output.extend(types)
    return model


def test_refusal_names_the_inner_node() -> None:
    model = one("Bernoulli", 15, {"x": (TensorProto.FLOAT, [6])}, {"seed": 1.0})
    (reason,) = refusals(imported(model))
    assert "Bernoulli is defined by other operators, and in its body, RandomUniformLike (node 'X_random')" in reason


def test_attributes_of_the_node_reach_its_function() -> None:
    """`reduction` and `ignore_index` go through one function into another; the default where the node says nothing."""
    scores, labels = np.random.RandomState(1).standard_normal((4, 5)).astype(np.float32), np.array([1, 0, 4, 0])
    inputs = {"x": (TensorProto.FLOAT, [4, 5]), "target": (TensorProto.INT64, [4])}
    logs = scores - np.log(np.exp(scores.astype(np.float64)).sum(1, keepdims=True))
    losses = -logs[np.arange(4), labels]
    for given, want in (
        ({}, losses.mean()),
        ({"reduction": "sum"}, losses.sum()),
        ({"reduction": "none"}, losses),
        ({"ignore_index": 0}, losses[labels != 0].mean()),
        ({"ignore_index": 0, "reduction": "none"}, losses * (labels != 0)),
    ):
        assert ("", "SoftmaxCrossEntropyLoss") not in registry.handlers()
        done = imported(bake(one("SoftmaxCrossEntropyLoss", 13, inputs, given), {"target": labels}))
        assert refusals(done) == []
        got = compute(done, {"x": scores})["o0"]
        assert close(got, np.asarray(want, np.float32), 1e-4, 1e-5) == "", given


def test_function_is_that_of_the_opset() -> None:
    """Version 12 of the loss has a body of opset 12, where Unsqueeze has an attribute; version 13 one of 13."""
    for opset, version in ((12, 12), (13, 13), (20, 13), (22, 22)):
        inputs = {"x": (TensorProto.FLOAT, [3, 5]), "target": (TensorProto.INT64, [3])}
        model = one("NegativeLogLikelihoodLoss", opset, inputs, {"reduction": "sum"})
        schema = onnx.defs.get_schema("NegativeLogLikelihoodLoss", opset)
        assert schema.since_version == version
        x = np.log(np.random.RandomState(0).dirichlet(np.ones(5), 3)).astype(np.float32)
        target = np.array([1, 0, 4])
        done = imported(bake(model, {"x": x, "target": target}))
        assert refusals(done) == []
        want = np.float32(-x[np.arange(3), target].sum())
        assert close(compute(done, {})["o0"], np.asarray(want), 1e-5, 1e-6) == "", opset


def test_absent_input_is_absent_in_the_function() -> None:
    """The bias of CausalConvWithState."""
    if not NEWEST:
        pytest.skip("CausalConvWithState is of opset 27")
    float_ = TensorProto.FLOAT
    inputs = {"x": (float_, [1, 2, 6]), "w": (float_, [2, 1, 3]), "": (float_, []), "past": (float_, [1, 2, 2])}
    model = one("CausalConvWithState", 27, inputs, {}, 2)
    rng = np.random.RandomState(0)
    x, w, past = (rng.standard_normal(s).astype(np.float32) for s in ((1, 2, 6), (2, 1, 3), (1, 2, 2)))
    got = compute(imported(bake(model, {"w": w})), {"x": x, "past": past})
    whole = np.concatenate([past, x], 2)
    want = np.stack([[np.correlate(whole[0, c], w[c, 0], "valid") for c in range(2)]]).astype(np.float32)
    assert close(got["o0"], want, 1e-4, 1e-5) == ""
    assert np.array_equal(got["o1"], whole[:, :, -2:])
