"""GRU and LSTM written out step by step in ONNX's own small operators, for `cast_pairs`: what an engine without recurrent
operators stores, and therefore rounds, between the steps. From the formulas of ONNX's operator texts; default
activations, no clip, no peepholes, no sequence_lens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper, numpy_helper

Array = NDArray[Any]


class _Writer:
    """Collects nodes and constants under names of its own."""

    def __init__(self, prefix: str) -> None:
        self.prefix, self.nodes, self.constants = prefix, list[NodeProto](), list[onnx.TensorProto]()

    def __call__(self, op: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        name = out or f"{self.prefix}/{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def known(self, value: Array) -> str:
        name = f"{self.prefix}/known{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name


def unroll(model: ModelProto, feeds: dict[str, Array]) -> ModelProto:
    """The model with every GRU and LSTM of the plain forms written out, for inputs of the shapes of `feeds`."""
    for value in model.graph.input:
        if value.name in feeds:
            for dim, extent in zip(value.type.tensor_type.shape.dim, feeds[value.name].shape, strict=True):
                dim.dim_value = extent
    del model.graph.value_info[:]
    known = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {
        v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in [*known.value_info, *known.input, *known.output]
    }
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    nodes: list[NodeProto] = []
    for k, node in enumerate(model.graph.node):
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if not attributes.get("layout", 1):
            del attributes["layout"]
        weights = [constants.get(name) for name in node.input[1:4] if name]
        plain = set(attributes) <= {"direction", "hidden_size", "linear_before_reset"} and len(node.input) <= 7
        steps = next(iter(shapes.get(node.input[0], [])), 0) if node.input else 0
        absent = len(node.input) < 5 or node.input[4] == ""
        if (
            node.op_type not in ("GRU", "LSTM")
            or not plain
            or not steps
            or not absent
            or any(w is None for w in weights)
        ):
            nodes.append(node)
            continue
        write = _Writer(f"unrolled{k}")
        _layer(write, node, attributes, [w for w in weights if w is not None], steps)
        nodes += write.nodes
        model.graph.initializer.extend(write.constants)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def _layer(write: _Writer, node: NodeProto, attributes: dict[str, Any], weights: list[Array], steps: int) -> None:
    direction = attributes.get("direction", b"forward").decode()
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    zero = write.known(np.array([0]))
    firsts = [node.input[i] if len(node.input) > i else "" for i in (5, 6)]
    ends: list[list[str]] = [[] for _ in range(1 + (node.op_type == "LSTM"))]
    ys: list[list[str]] = []
    for d, backwards in enumerate(ways):
        w, r = weights[0][d].T, weights[1][d].T
        bias = weights[2][d] if len(weights) > 2 else np.zeros(2 * w.shape[1], w.dtype)
        size = r.shape[0]
        states = []
        for given in firsts[: len(ends)]:
            at = write.known(np.array(d))
            blank = write.known(np.zeros((1, size), w.dtype))
            states.append(write("Gather", given, at, axis=0) if given else blank)
        outs = [""] * steps
        for t in reversed(range(steps)) if backwards else range(steps):
            x = write("Gather", node.input[0], write.known(np.array(t)), axis=0)
            step = _gru if node.op_type == "GRU" else _lstm
            states = step(write, x, states, w, r, bias, size, bool(attributes.get("linear_before_reset", 0)))
            outs[t] = states[0]
        ys.append([write("Unsqueeze", y, write.known(np.array([0, 1]))) for y in outs])
        for end, state in zip(ends, states, strict=True):
            end.append(write("Unsqueeze", state, zero))
    if node.output[0]:
        rows = [write("Concat", *row, axis=1) for row in zip(*ys, strict=True)]
        write("Concat", *rows, out=node.output[0], axis=0)
    for name, end in zip(node.output[1:], ends, strict=False):
        if name:
            write("Concat", *end, out=name, axis=0)


def _gru(
    write: _Writer, x: str, states: list[str], w: Array, r: Array, bias: Array, size: int, linear: bool
) -> list[str]:
    h = states[0]

    def part(matrix: Array, of: str, k: int, b: Array) -> str:
        cut = slice(k * size, (k + 1) * size)
        return write("Add", write("MatMul", of, write.known(matrix[:, cut])), write.known(b[cut]))

    wb, rb = bias[: 3 * size], bias[3 * size :]
    z, reset = (write("Sigmoid", write("Add", part(w, x, k, wb), part(r, h, k, rb))) for k in (0, 1))
    of_state = write("Mul", reset, part(r, h, 2, rb)) if linear else part(r, write("Mul", reset, h), 2, rb)
    n = write("Tanh", write("Add", part(w, x, 2, wb), of_state))
    return [write("Add", write("Mul", write("Sub", write.known(np.ones(1, w.dtype)), z), n), write("Mul", z, h))]


def _lstm(write: _Writer, x: str, states: list[str], w: Array, r: Array, bias: Array, size: int, _: bool) -> list[str]:
    h, c = states
    total = bias[: 4 * size] + bias[4 * size :]

    def gate(k: int, op: str) -> str:
        cut = slice(k * size, (k + 1) * size)
        product = write("Add", write("MatMul", x, write.known(w[:, cut])), write("MatMul", h, write.known(r[:, cut])))
        return write(op, write("Add", product, write.known(total[cut])))

    i, o, f, g = gate(0, "Sigmoid"), gate(1, "Sigmoid"), gate(2, "Sigmoid"), gate(3, "Tanh")
    cell = write("Add", write("Mul", f, c), write("Mul", i, g))
    return [write("Mul", o, write("Tanh", cell)), cell]
