"""The networks that are measured, built here with seeded weights (the figures of a convolution do not depend on its weights),
and the demo's trained model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """A graph under construction; values are names. Weights are drawn in call order from one seeded generator."""

    def __init__(self, name: str, seed: int) -> None:
        self.name, self.rng = name, np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def node(self, op: str, inputs: list[str], **attributes: Any) -> str:
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=f"{op}_{len(self.nodes)}", **attributes))
        return out

    def conv(self, x: str, cin: int, cout: int, kernel: int, stride: int = 1, groups: int = 1) -> str:
        fan_in = cin // groups * kernel * kernel
        weight = (self.rng.standard_normal((cout, cin // groups, kernel, kernel)) * np.sqrt(2 / fan_in)).astype(
            np.float32
        )
        bias = (self.rng.standard_normal(cout) * 0.1).astype(np.float32)
        return self.node(
            "Conv", [x, self.constant(weight), self.constant(bias)], kernel_shape=[kernel] * 2, strides=[stride] * 2,
            pads=[kernel // 2] * 4, group=groups,
        )  # fmt: skip

    def head(self, x: str, channels: int, classes: int) -> None:
        x = self.node("Flatten", [self.node("GlobalAveragePool", [x])], axis=1)
        weight = (self.rng.standard_normal((classes, channels)) / np.sqrt(channels)).astype(np.float32)
        bias = np.zeros(classes, np.float32)
        gemm = helper.make_node(
            "Gemm", [x, self.constant(weight), self.constant(bias)], ["logits"], name="fc", transB=1
        )
        self.nodes.append(gemm)

    def model(self, shape: tuple[int, ...], classes: int) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            self.name,
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [shape[0], classes])],
            self.constants,
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="benchmarks"
        )


def resnet18() -> onnx.ModelProto:
    """ResNet-18 at 224 × 224, batch normalization already folded: 1.8 billion multiply-adds."""
    net = Net("resnet18", seed=18)
    x = net.node("Relu", [net.conv("image", 3, 64, 7, 2)])
    x = net.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for width in (64, 128, 256, 512):
        for block in range(2):
            stride = 2 if block == 0 and width != 64 else 1
            skip = x if stride == 1 and channels == width else net.conv(x, channels, width, 1, stride)
            x = net.node("Relu", [net.conv(x, channels, width, 3, stride)])
            x = net.node("Relu", [net.node("Add", [net.conv(x, width, width, 3), skip])])
            channels = width
    net.head(x, 512, 1000)
    return net.model((1, 3, 224, 224), 1000)


def mobilenet_v2() -> onnx.ModelProto:
    """MobileNetV2 (width 1.0) at 224 × 224, batch normalization already folded: 0.3 billion multiply-adds."""
    net = Net("mobilenet_v2", seed=2)
    bounds = [net.constant(np.float32(0)), net.constant(np.float32(6))]

    def relu6(x: str) -> str:
        return net.node("Clip", [x, *bounds])

    x, channels = relu6(net.conv("image", 3, 32, 3, 2)), 32
    for expansion, width, repeats, first_stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for repeat in range(repeats):
            stride, hidden, skip = first_stride if repeat == 0 else 1, channels * expansion, x
            if expansion != 1:
                x = relu6(net.conv(x, channels, hidden, 1))
            x = relu6(net.conv(x, hidden, hidden, 3, stride, hidden))
            x = net.conv(x, hidden, width, 1)
            if stride == 1 and channels == width:
                x = net.node("Add", [x, skip])
            channels = width
    net.head(relu6(net.conv(x, 320, 1280, 1)), 1280, 1000)
    return net.model((1, 3, 224, 224), 1000)


def one_relu() -> onnx.ModelProto:
    """A model of one node on 64 floats: what a partition costs by itself."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["image"], ["logits"], name="relu")],
        "one_relu",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 64])],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="benchmarks"
    )


def demo_model() -> onnx.ModelProto:
    """The demo's EfficientNet-Lite0 (extra `demo`)."""
    from aneforge.cli.demo_model import build

    return build()


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "one_relu": one_relu,
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
    "efficientnet_lite0": demo_model,
}
