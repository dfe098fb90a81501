"""An installed wheel, used from a folder that is not the checkout: a session, strict loading, the library path, the command.
Run as a script: `python smoke.py`. Exits with an AssertionError where something is off."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import aneforge as af
import aneforge.provider


def model() -> bytes:
    rng = np.random.default_rng(0)
    weight = numpy_helper.from_array((rng.standard_normal((8, 3, 3, 3)) / 5).astype(np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"])],
        "smoke",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 8, 8])],
        [weight],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made.SerializeToString()


def main() -> None:
    checkout = Path(__file__).resolve().parents[2]
    assert checkout not in Path(af.__file__).resolve().parents, f"the checkout's package was imported: {af.__file__}"
    assert Path(aneforge.provider.get_library_path()).is_file()
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    settings = ort.SessionOptions()
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = ort.InferenceSession(model(), settings, providers=["ANEForgeProvider"], enable_fallback=False)
    placed = {a.ep_name: len(a.get_nodes()) for a in session.get_provider_graph_assignment_info()}
    assert placed == {"ANEForgeProvider": 2}, placed
    expected = ort.InferenceSession(model(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    for got in (session.run(None, {"x": x})[0], af.load_onnx(model())(x)):
        np.testing.assert_allclose(got, expected, rtol=4e-3, atol=4e-3)
    said = subprocess.run(
        [str(Path(sys.executable).parent / "aneforge"), "--help"], capture_output=True, text=True, check=True
    )
    assert "explain" in said.stdout
    print(f"wheel works with onnxruntime {ort.__version__} from {Path(af.__file__).parent}")


if __name__ == "__main__":
    main()
