"""Bad models and bad feeds: one clear error that names the thing, through onnxruntime with the provider."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import aneforge.provider
from tests.provider.graphs import NAME, cnn, floats, model, node, placement, session


def with_external(folder: Path, location: str, data: bytes | None, length: int = 256) -> Path:
    weight = TensorProto(name="w", data_type=1, dims=[8, 8], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", str(length))):
        weight.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [node("MatMul", "x w", "y")],
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 8])],
        [helper.make_tensor_value_info("y", 1, [2, 8])],
        [weight],
    )
    inner = folder / "model"
    inner.mkdir()
    path = inner / "m.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    if data is not None:
        (inner / location).write_bytes(data)
    return path


def test_missing_file() -> None:
    with pytest.raises(Exception, match=r"nowhere\.onnx"):
        session("/nowhere.onnx")


def test_not_onnx() -> None:
    with pytest.raises(Exception, match=r"[Pp]rotobuf"):
        session(b"this is no protobuf at all")


def test_opset_too_new() -> None:
    made = cnn()
    made.opset_import[0].version = 99
    with pytest.raises(Exception, match="99"):
        session(made)


def test_invalid_graph() -> None:
    made = cnn()
    made.graph.node[1].input[0] = "nobody"
    with pytest.raises(Exception, match="nobody"):
        session(made)


@pytest.mark.parametrize(
    ("location", "data"), [("w.bin", None), ("w.bin", b""), ("w.bin", bytes(100)), ("../w.bin", bytes(256))]
)
def test_external_data(tmp_path: Path, location: str, data: bytes | None) -> None:
    """Missing, empty, too short, outside the model's folder."""
    path = with_external(tmp_path, location, data)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Exception, match="w"):
        session(str(path))
    assert sorted(tmp_path.rglob("*")) == before


def test_good_external_data(tmp_path: Path) -> None:
    weight = floats(8, 8)
    made = session(str(with_external(tmp_path, "w.bin", weight.tobytes())))
    x = floats(2, 8, seed=1)
    np.testing.assert_allclose(made.run(None, {"x": x})[0], x @ weight, rtol=1e-2, atol=1e-2)
    assert NAME in placement(made)


@pytest.mark.parametrize(
    ("feeds", "says"),
    [
        ({"x": floats(1, 3, 8, 9)}, "x"),
        ({"x": floats(1, 3, 8, 8).astype(np.float64)}, "x"),
        ({}, "x"),
        ({"x": floats(1, 3, 8, 8), "zz": floats(1)}, "zz"),
    ],
)
def test_wrong_feeds_leave_the_session_usable(feeds: dict[str, np.ndarray], says: str) -> None:
    made = session(cnn())
    with pytest.raises(Exception, match=says):
        made.run(None, feeds)
    assert np.isfinite(made.run(None, {"x": floats(1, 3, 8, 8)})[0]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite(value: float) -> None:
    """Never a crash, never a wrong number in silence: as onnxruntime's CPU says, or left to it."""
    weight = floats(4, 4)
    weight[1, 2] = value
    made = session(
        model([node("MatMul", "x w", "m"), node("Relu", "m", "y")], {"x": [2, 4]}, {"y": [2, 4]}, {"w": weight})
    )
    got = made.run(None, {"x": np.ones((2, 4), np.float32)})[0]
    expected = np.maximum(np.ones((2, 4), np.float32) @ weight, 0)
    finite = np.isfinite(expected)
    np.testing.assert_allclose(got[finite], expected[finite], rtol=1e-2, atol=1e-2)


def test_an_unnamed_node_and_odd_names() -> None:
    odd = "a/b:0 ü " + "x" * 600
    made = model([node("Relu", "x", "a"), node("Exp", "a", "y")], {"x": [2]}, {"y": [2]})
    made.graph.node[0].output[0] = made.graph.node[1].input[0] = odd
    made.graph.node[0].name = ""
    run = session(made, optimize=False)
    assert np.allclose(run.run(None, {"x": np.zeros(2, np.float32)})[0], 1)
    assert aneforge.provider.report(run).mac_share == 1.0


def test_numpy_helper_round_trip_of_a_large_weight() -> None:
    """Large weights reach the importer by address; nothing may be read after the session is made."""
    weight = floats(512, 512)
    made = onnx.ModelProto()
    made.CopyFrom(model([node("MatMul", "x w", "y")], {"x": [1, 512]}, {"y": [1, 512]}, {"w": weight}))
    assert numpy_helper.to_array(made.graph.initializer[0]).nbytes == weight.nbytes
    content = made.SerializeToString()
    run = ort.InferenceSession(content, providers=[NAME], enable_fallback=False)
    del content, made
    x = floats(1, 512, seed=1)
    np.testing.assert_allclose(run.run(None, {"x": x})[0], x @ weight, rtol=3e-2, atol=0.5)
