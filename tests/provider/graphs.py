"""Small models built in code, and sessions that cannot pass by running on the CPU in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
NAME = "ANEForgeProvider"


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return rng(seed).standard_normal(shape).astype(np.float32)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Mapping[str, Sequence[int | str] | None],
    constants: Mapping[str, np.ndarray] | None = None,
    types: Mapping[str, int] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A checked model; `types` for inputs and outputs that are not float."""
    kinds = types or {}

    def info(name: str, shape: Sequence[int | str] | None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kinds.get(name, FLOAT), shape)

    graph = helper.make_graph(
        list(nodes),
        "test",
        [info(n, s) for n, s in inputs.items()],
        [info(n, s) for n, s in outputs.items()],
        [numpy_helper.from_array(v, k) for k, v in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(made)
    return made


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """`node("Add", "a b", "c")`; the node has the name of its first output."""
    return helper.make_node(op, inputs.split(), outputs.split(), name=f"n_{outputs.split(maxsplit=1)[0]}", **attributes)


def cnn() -> onnx.ModelProto:
    """Conv, Relu, residual Add, pooling, Gemm: seven nodes that all run on the engine."""
    return model(
        [
            node("Conv", "x w1 b1", "c1", pads=[1, 1, 1, 1]),
            node("Relu", "c1", "r1"),
            node("Conv", "r1 w2", "c2", pads=[1, 1, 1, 1]),
            node("Add", "c2 r1", "a"),
            node("GlobalAveragePool", "a", "p"),
            node("Flatten", "p", "f"),
            node("Gemm", "f wf bf", "y", transB=1),
        ],
        {"x": [1, 3, 8, 8]},
        {"y": [1, 5]},
        {
            "w1": floats(8, 3, 3, 3, seed=1) / 5,
            "b1": floats(8, seed=2),
            "w2": floats(8, 8, 3, 3, seed=3) / 8,
            "wf": floats(5, 8, seed=4),
            "bf": floats(5, seed=5),
        },
    )


def interrupted() -> onnx.ModelProto:
    """A residual branch with a node (Det) that has no engine form: three nodes before it, and three after."""
    return model(
        [
            node("Relu", "x", "a"),
            node("Exp", "a", "b"),
            node("Sigmoid", "b", "c"),
            node("Det", "c", "d"),
            node("Unsqueeze", "d axes", "d1"),
            node("Mul", "c d1", "e"),
            node("Tanh", "e", "y"),
        ],
        {"x": [2, 4, 4]},
        {"y": [2, 4, 4]},
        {"axes": np.array([1, 2], np.int64)},
    )


def session(
    source: onnx.ModelProto | bytes | str,
    options: Mapping[str, str] | None = None,
    *,
    optimize: bool = True,
    threads: int = 0,
    config: Mapping[str, str] | None = None,
    free_dims: Mapping[str, int] | None = None,
) -> ort.InferenceSession:
    """A session with the provider: fallback is off, placement is recorded, and ORT's own lines are kept to errors."""
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    settings.intra_op_num_threads = threads
    if not optimize:
        settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for key, value in (config or {}).items():
        settings.add_session_config_entry(key, value)
    for name, extent in (free_dims or {}).items():
        settings.add_free_dimension_override_by_name(name, extent)
    content = source.SerializeToString() if isinstance(source, onnx.ModelProto) else source
    return ort.InferenceSession(content, settings, providers=[(NAME, dict(options or {}))], enable_fallback=False)


def reference(source: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """ORT's CPU provider, without optimizations."""
    settings = ort.SessionOptions()
    settings.log_severity_level = 3
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    made = ort.InferenceSession(source.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    return made.run(None, dict(feeds))  # type: ignore[no-any-return]


def placement(made: ort.InferenceSession) -> dict[str, list[str]]:
    """Provider -> operators that it was assigned, as onnxruntime tells it."""
    found: dict[str, list[str]] = {}
    for group in made.get_provider_graph_assignment_info():
        found.setdefault(group.ep_name, []).extend(n.op_type for n in group.get_nodes())
    return found


def groups(made: ort.InferenceSession) -> int:
    """How many regions of ours onnxruntime compiled."""
    return sum(group.ep_name == NAME for group in made.get_provider_graph_assignment_info())


def close(got: np.ndarray, expected: np.ndarray) -> None:
    """Within what fp16 storage costs a few operations."""
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    scale = max(float(np.abs(expected).max(initial=0)), 1e-6)
    np.testing.assert_allclose(got, expected, rtol=1e-2, atol=4e-3 * scale)
