"""The unrolled forms equal ONNX Runtime's own GRU and LSTM."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from oracle.unrolled import unroll

S, B, FEATURES, H = 4, 2, 3, 5


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(("op", "linear"), [("GRU", 0), ("GRU", 1), ("LSTM", 0)])
def test_equals_the_operator(op: str, linear: int, direction: str, given: bool) -> None:
    r = np.random.default_rng(3)
    gates, ways = (3, 1 + (direction == "bidirectional")) if op == "GRU" else (4, 1 + (direction == "bidirectional"))
    shapes = {"W": (ways, gates * H, FEATURES), "R": (ways, gates * H, H), "B": (ways, 2 * gates * H)}
    constants = [numpy_helper.from_array(r.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    states = ["h", "c"][: 1 + (op == "LSTM")] if given else []
    outs = ["y", "yh", "yc"][: 2 + (op == "LSTM")]
    node = helper.make_node(op, ["x", "W", "R", "B", *(["", *states] if given else [])], outs, hidden_size=H)
    node.attribute.append(helper.make_attribute("direction", direction))
    if linear:
        node.attribute.append(helper.make_attribute("linear_before_reset", 1))
    info = helper.make_tensor_value_info
    ins = [
        info("x", TensorProto.FLOAT, ["s", B, FEATURES]),
        *(info(n, TensorProto.FLOAT, [ways, B, H]) for n in states),
    ]
    graph = helper.make_graph([node], "g", ins, [info(n, TensorProto.FLOAT, None) for n in outs], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"x": r.standard_normal((S, B, FEATURES)).astype(np.float32)}
    feeds |= {n: r.standard_normal((ways, B, H)).astype(np.float32) for n in states}

    def run(proto: onnx.ModelProto) -> list[np.ndarray]:
        session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, feeds)

    want = run(model)
    flat = unroll(model, feeds)
    assert op not in {n.op_type for n in flat.graph.node}
    for got, expected in zip(run(flat), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
