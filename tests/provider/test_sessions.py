"""Sessions: every door of onnxruntime, placement as onnxruntime tells it, and the right numbers."""

import numpy as np
import onnxruntime as ort
import pytest

import aneforge.provider
from tests.provider.graphs import (
    NAME,
    close,
    cnn,
    floats,
    groups,
    interrupted,
    model,
    node,
    placement,
    reference,
    session,
)

X = floats(1, 3, 8, 8, seed=7)


@pytest.mark.parametrize("optimize", [False, True])
def test_a_network_is_one_region(optimize: bool) -> None:
    made = session(cnn(), optimize=optimize)
    assert placement(made) == {NAME: ["Conv", "Relu", "Conv", "Add", "GlobalAveragePool", "Flatten", "Gemm"]}
    assert groups(made) == 1
    close(made.run(None, {"x": X})[0], reference(cnn(), {"x": X})[0])


@pytest.mark.parametrize("optimize", [False, True])
def test_a_refused_node_in_the_middle_costs_one_cut(optimize: bool) -> None:
    made = session(interrupted(), optimize=optimize)
    assert groups(made) == 2
    assert placement(made)["CPUExecutionProvider"][0] == "Det"
    x = floats(2, 4, 4)
    close(made.run(None, {"x": x})[0], reference(interrupted(), {"x": x})[0])


def test_all_spellings_of_the_provider() -> None:
    content = cnn().SerializeToString()
    expected = reference(cnn(), {"x": X})[0]
    for kwargs in (
        {"providers": [NAME]},
        {"providers": [(NAME, {"target": "m4"})]},
        {"providers": [NAME, "CPUExecutionProvider"], "provider_options": [{"target": "m4"}, {}]},
    ):
        made = ort.InferenceSession(content, enable_fallback=False, **kwargs)
        assert made.get_providers() == [NAME, "CPUExecutionProvider"]
        assert len(aneforge.provider.report(made).regions) == 1
        close(made.run(None, {"x": X})[0], expected)
    assert made.get_provider_options()[NAME] == {"target": "m4"}


def test_add_provider_for_devices() -> None:
    settings = ort.SessionOptions()
    devices = [d for d in ort.get_ep_devices() if d.ep_name == NAME]
    settings.add_provider_for_devices(devices, {"target": "m4"})
    made = ort.InferenceSession(cnn().SerializeToString(), settings, enable_fallback=False)
    report = aneforge.provider.report(made)
    assert report.target == "h16g" or report.target.startswith("h16")
    assert report.mac_share == 1.0
    close(made.run(None, {"x": X})[0], reference(cnn(), {"x": X})[0])


def test_options_as_session_config_entries() -> None:
    made = session(cnn(), config={"ep.aneforgeprovider.numerics": "fp32"})
    assert aneforge.provider.report(made).options["numerics"] == "fp32"
    np.testing.assert_allclose(made.run(None, {"x": X})[0], reference(cnn(), {"x": X})[0], rtol=2e-5, atol=2e-5)


def test_the_cpu_first_takes_everything() -> None:
    settings = ort.SessionOptions()
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    providers = ["CPUExecutionProvider", NAME]
    made = ort.InferenceSession(cnn().SerializeToString(), settings, providers=providers, enable_fallback=False)
    assert list(placement(made)) == ["CPUExecutionProvider"]


def test_disable_cpu_ep_fallback() -> None:
    config = {"session.disable_cpu_ep_fallback": "1"}
    close(session(cnn(), config=config).run(None, {"x": X})[0], reference(cnn(), {"x": X})[0])
    with pytest.raises(Exception, match="fallback"):
        session(interrupted(), config=config)


def test_io_binding() -> None:
    made = session(cnn())
    expected = reference(cnn(), {"x": X})[0]
    out = np.zeros((1, 5), np.float32)
    binding = made.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y", "cpu", 0, np.float32, out.shape, out.ctypes.data)
    made.run_with_iobinding(binding)
    close(out, expected)


def test_a_free_node_inside_and_outside() -> None:
    """Reshape's target is computed from a shape; the same number is also a graph output, which onnxruntime computes."""
    inside = [node("Relu", "x", "a"), node("Shape", "a", "s"), node("Reshape", "a s", "r"), node("Exp", "r", "y")]
    made = session(model(inside, {"x": [2, 3]}, {"y": [2, 3]}), optimize=False)
    assert placement(made) == {NAME: ["Relu", "Shape", "Reshape", "Exp"]}
    twice = model(inside, {"x": [2, 3]}, {"y": [2, 3], "s": [2]}, types={"s": 7})
    made = session(twice, optimize=False)
    x = floats(2, 3)
    y, s = made.run(None, {"x": x})
    close(y, np.exp(np.maximum(x, 0)))
    assert s.tolist() == [2, 3]
    assert placement(made)["CPUExecutionProvider"] == ["Shape"]


def test_bools_cross_as_bools() -> None:
    made = session(
        model(
            [node("Greater", "x z", "m"), node("Where", "m x z", "w"), node("Exp", "w", "y")],
            {"x": [2, 3]},
            {"y": [2, 3], "m": [2, 3]},
            {"z": np.zeros((1,), np.float32)},
            types={"m": 9},
        )
    )
    x = floats(2, 3)
    y, m = made.run(None, {"x": x})
    assert m.dtype == bool
    assert np.array_equal(m, x > 0)
    close(y, np.exp(np.where(x > 0, x, 0)))
    assert "CPUExecutionProvider" not in placement(made)


def test_nobody_reads_a_node() -> None:
    made = session(model([node("Exp", "x", "unused"), node("Relu", "x", "y")], {"x": [2]}, {"y": [2]}), optimize=False)
    assert made.run(None, {"x": np.array([-1, 2], np.float32)})[0].tolist() == [0, 2]
    assert all(n.kind != "bug" for n in aneforge.provider.report(made).nodes)


def test_min_nodes_and_partition_all() -> None:
    lone = model([node("Transpose", "x", "y", perm=[1, 0])], {"x": [2, 3]}, {"y": [3, 2]})
    assert NAME not in placement(session(lone))
    assert placement(session(lone, {"partition": "all"})) == {NAME: ["Transpose"]}
    assert NAME not in placement(session(cnn(), {"min_nodes": "8"}))


def test_crumbs_stay_on_the_cpu() -> None:
    """A product, and single functions between nodes that the engine does not have."""
    nodes = [node("MatMul", "x w", "a0")]
    for i in range(5):
        nodes += [node("Det", f"a{i}", f"d{i}"), node("Tanh", f"d{i}", f"t{i}"), node("Mul", f"t{i} w", f"a{i + 1}")]
    shattered = model(nodes, {"x": [2, 2]}, {"a5": [2, 2]}, {"w": np.eye(2, dtype=np.float32)})
    made = session(shattered)
    report = aneforge.provider.report(made)
    assert [r.nodes for r in report.regions] == [1]
    assert {n.kind for n in report.on_cpu if n.op == "Tanh"} == {"policy"}
    assert len(aneforge.provider.report(session(shattered, {"partition": "all"})).regions) == 6
    x = floats(2, 2)
    close(made.run(None, {"x": x})[0], reference(shattered, {"x": x})[0])


def test_layout_alone_on_both_sides_stays_on_the_cpu() -> None:
    made = session(interrupted(), {"min_nodes": "3"})
    report = aneforge.provider.report(made)
    assert {n.kind for n in report.on_cpu if n.op == "Det"} == {"operator"}
    assert all(n.reason for n in report.on_cpu)
