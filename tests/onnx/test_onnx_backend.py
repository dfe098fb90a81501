"""onnx.backend.base.Backend: the doors that the ecosystem knocks at."""

from __future__ import annotations

import unittest

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.test.runner import Runner

from aneforge.errors import UnsupportedModelError
from aneforge.onnx import backend

X = np.array([[1.0, -2.0, 3.0]], np.float32)


def model(op: str) -> onnx.ModelProto:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"])],
        "g",
        [info("x", TensorProto.FLOAT, [1, 3])],
        [info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_prepare_and_run() -> None:
    for inputs in ([X], (X,), X, {"x": X}):
        (y,) = backend.prepare(model("Relu")).run(inputs)
        assert y.tolist() == [[1.0, 0.0, 3.0]]
    (y,) = backend.run_model(model("Neg"), [X], numerics="fp32")
    assert y.tolist() == (-X).tolist()


def test_what_it_says_of_models_and_devices() -> None:
    assert backend.is_compatible(model("Relu")) and not backend.is_compatible(model("NonZero"))
    assert backend.supports_device("CPU:0") and not backend.supports_device("CUDA")
    with pytest.raises(ValueError, match="device 'CUDA'"):
        backend.prepare(model("Relu"), "CUDA")
    with pytest.raises(TypeError, match="options"):
        backend.prepare(model("Relu")).run([X], numerics="fp32")
    with pytest.raises(UnsupportedModelError):
        backend.prepare(model("NonZero"))


def test_one_node() -> None:
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    (y,) = backend.run_node(node, [X, np.array([1])])
    assert y.tolist() == [2.0]
    (y,) = backend.run_node(
        helper.make_node("Clip", ["x", "", "high"], ["y"]), {"x": X, "high": np.float32(1)}, opset_version=13
    )
    assert y.tolist() == [[1.0, -2.0, 1.0]]
    (y,) = backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [X], outputs_info=[(np.float32, (1, 3))])
    assert y.dtype == np.float32 and y.shape == (1, 3)
    with pytest.raises(onnx.checker.ValidationError):
        backend.run_node(helper.make_node("Relu", ["x"], ["y"], slope=1.0), [X])


def test_the_runner_of_the_suite_takes_it() -> None:
    """The suite's own runner, on a handful of its cases; all of them are in tests/conformance."""
    runner = Runner(backend.AneforgeBackend, __name__)
    runner.include(
        r"^test_(relu|softmax_axis_1|gemm_all_attributes|conv_with_strides_padding|maxpool_2d_same_upper)_cpu$"
    )
    results = unittest.TestResult()
    runner.test_suite.run(results)
    skipped = len(results.skipped)
    assert results.testsRun - skipped == 5 and not results.failures and not results.errors, results.errors
