"""Recurrent layers, attention and functions as ONNX Runtime hands them over: with defaults filled in, inlined or not."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import aneforge.provider  # noqa: F401 - registers it
from tests.provider.graphs import reference, session

R = np.random.RandomState(0)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def model(op: str, opset: int, fed: dict[str, list[int]], known: dict[str, np.ndarray], outputs: int, **attributes):
    node = helper.make_node(op, [*fed, *known], [f"y{i}" for i in range(outputs)], "the node", **attributes)
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in fed.items()]
    outs = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(outputs)]
    constants = [numpy_helper.from_array(a, n) for n, a in known.items()]
    graph = helper.make_graph([node], "g", infos, outs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def same(made, feeds: dict[str, np.ndarray]) -> None:
    """On the engine wholly, and close to the CPU."""
    got = session(made, {"strict": "1"}).run(None, feeds)
    for g, w in zip(got, reference(made, feeds), strict=True):
        assert np.abs(g - w).max() <= 6e-3 * np.abs(w).max()


def normal(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_recurrent(op: str, direction: str) -> None:
    g, d = GATES[op], 1 + (direction == "bidirectional")
    known = {"W": normal(d, g * 6, 4) / 3, "R": normal(d, g * 6, 6) / 3, "B": normal(d, g * 12) / 3}
    made = model(op, 14, {"X": [5, 2, 4]}, known, 2, hidden_size=6, direction=direction)
    same(made, {"X": normal(5, 2, 4)})


def test_attention() -> None:
    shape = [2, 3, 4, 8]
    made = model("Attention", 23, dict.fromkeys("QKV", shape), {}, 1, is_causal=1)
    same(made, {n: normal(*shape) for n in "QKV"})


def test_function() -> None:
    """The loss has no handler: it is the function that ONNX gives it, whoever inlines it."""
    known = {"target": np.array([1, 0, 4])}
    made = model("SoftmaxCrossEntropyLoss", 13, {"x": [3, 5]}, known, 1, reduction="sum")
    same(made, {"x": normal(3, 5)})


LEAST = float(np.finfo(np.float32).min)
SHIFTED = [("Sub", ["one", "m"], ["n"]), ("Mul", ["n", "number"], ["bias"])]
PICKED = [("Greater", ["m", "zero"], ["b"]), ("Where", ["b", "zero", "number"], ["bias"])]


@pytest.mark.parametrize(("nodes", "number"), [
    (SHIFTED, -1e9), (SHIFTED, LEAST), (PICKED, -1e9), (PICKED, LEAST), (PICKED, -np.inf),
    ([*SHIFTED[:1], ("Mul", ["n", "number"], ["p"]), ("Unsqueeze", ["p", "axis"], ["bias"])], LEAST),
])  # fmt: skip
def test_masks_that_models_compute(nodes: list, number: float) -> None:
    """Some queries see a part of the keys; in one sequence all see nothing, which ONNX Runtime gives 0 where the number
    is the lowest one or minus infinity."""
    rank = 3 if any(op == "Unsqueeze" for op, *_ in nodes) else 4
    fed = {"q": [2, 3, 4, 8], "k": [2, 3, 6, 8], "v": [2, 3, 6, 8], "m": [2, 4, 6] if rank == 3 else [2, 1, 4, 6]}
    known = {"one": np.float32(1), "zero": np.float32(0), "number": np.float32(number), "axis": np.array([1])}
    made = [helper.make_node(op, i, o) for op, i, o in nodes]
    made.append(helper.make_node("Attention", ["q", "k", "v", "bias"], ["y"]))
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in fed.items()]
    outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3, 4, 8])]
    graph = helper.make_graph(
        made, "g", infos, outs, [numpy_helper.from_array(np.asarray(a), n) for n, a in known.items()]
    )
    feeds = {n: normal(*s) for n, s in fed.items()}
    feeds["m"] = (np.arange(48).reshape(fed["m"]) % 3 > 0).astype(np.float32)
    feeds["m"][1] = 0
    beyond = number == -1e9 and nodes is PICKED  # as a constant it is the lowest number of fp16, and closes
    if beyond:
        feeds["m"][1, ..., 0] = 1
    same(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), feeds)
