"""Imports an ONNX model whole, runs it, and checks the answer against ONNX Runtime's CPU provider.

    python examples/import_and_check.py [MODEL.onnx]

Without a model, a small one is made here. Inputs are random, with 1 for every dimension that the model leaves open.
Where there is no engine, the host backend computes with the engine's arithmetic.
"""

from __future__ import annotations

import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import aneforge as af

MIN_COSINE = 0.999


def small_model() -> onnx.ModelProto:
    """Convolution, batch normalization, ReLU, pooling, a linear layer, softmax."""
    draw = np.random.default_rng(0)

    def weights(name: str, *shape: int, scale: float = 0.3) -> TensorProto:
        return numpy_helper.from_array((draw.standard_normal(shape) * scale).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["logits"], transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], axis=-1),
    ]
    constants = [
        weights("w", 16, 3, 3, 3), weights("gamma", 16), weights("beta", 16), weights("mean", 16),
        numpy_helper.from_array(draw.uniform(0.5, 2, 16).astype(np.float32), "var"),
        weights("w2", 10, 16), weights("b2", 10),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 32, 32])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def open_dimensions(model: onnx.ModelProto) -> dict[str, int]:
    """1 for every dimension of an input that has a name instead of an extent."""
    known = {tensor.name for tensor in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in known]
    return {d.dim_param: 1 for i in inputs for d in i.type.tensor_type.shape.dim if d.dim_param}


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = (v.astype(np.float64).ravel() for v in (a, b))
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def main(arguments: list[str]) -> int:
    model = onnx.load(arguments[0]) if arguments else small_model()
    try:
        net = af.load_onnx(model, dims=open_dimensions(model) or None)
    except af.UnsupportedModelError as error:
        print(f"{error}\nAs a whole it does not run on the engine; a session runs it in parts: see `aneforge explain`.")
        return 1
    print(net)

    draw = np.random.default_rng(1)
    feeds = {port.name: draw.random(port.shape).astype(port.dtype) for port in net.inputs}
    got = net.run(feeds)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    worst = 1.0
    for name, expected in zip(got, session.run(list(got), feeds), strict=True):
        close = cosine(got[name], expected)
        worst = min(worst, close)
        print(f"{name} {list(expected.shape)}: cosine with ONNX Runtime's CPU {close:.6f}")
    return 0 if worst >= MIN_COSINE else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
