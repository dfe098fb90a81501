"""The report: complete, honest about who computed, and readable in four forms."""

import json
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

import aneforge.provider
from aneforge.provider import records, reports
from tests.provider.graphs import cnn, floats, interrupted, model, node, session


def test_every_node_has_a_place_and_a_reason() -> None:
    report = aneforge.provider.report(session(interrupted()))
    assert report.backend == "host emulation"
    assert {n.where for n in report.nodes} == {"host emulation", "CPU"}
    assert all((n.region is None) == (n.where == "CPU") == (n.reason is not None) for n in report.nodes)
    assert [n.op for n in report.on_cpu if n.kind == "operator"] == ["Det"]
    assert [r.nodes for r in report.regions] == [3, 3]
    assert {"read", "import", "partition and lower", "compile"} <= set(report.seconds)


def test_macs_and_estimate() -> None:
    report = aneforge.provider.report(session(cnn()))
    assert report.mac_share == 1.0
    assert sum(n.macs for n in report.nodes) == report.regions[0].macs == 8 * 64 * 27 + 8 * 64 * 72 + 40
    assert report.regions[0].engine_estimate_us > 0
    assert report.regions[0].rules or report.regions[0].mil_ops


def test_counters() -> None:
    made = session(interrupted())
    for _ in range(3):
        made.run(None, {"x": floats(2, 4, 4)})
    assert [r.runs for r in aneforge.provider.report(made).regions] == [3, 3]


def test_overflow_is_counted_and_can_be_an_error() -> None:
    square = model([node("Mul", "x x", "m"), node("Relu", "m", "y")], {"x": [4]}, {"y": [4]})
    big, huge = np.full(4, 300, np.float32), np.full(4, 1e6, np.float32)
    made = session(square)
    assert np.isinf(made.run(None, {"x": big})[0]).all()
    made.run(None, {"x": huge})
    made.run(None, {"x": np.ones(4, np.float32)})
    (region,) = aneforge.provider.report(made).regions
    assert (region.runs, region.saturated, region.nonfinite) == (3, 1, 2)
    for options in ({"on_overflow": "error"}, {"strict": "1"}):
        with pytest.raises(Exception, match="y"):
            session(square, options).run(None, {"x": big})
    session(square, {"on_overflow": "ignore", "strict": "1"}).run(None, {"x": big})


def test_forms() -> None:
    report = aneforge.provider.report(session(interrupted()))
    told = json.loads(report.to_json())
    assert told["schema_version"] == 1
    assert told["summary"]["regions"] == 2
    assert len(told["nodes"]) == len(report.nodes)
    assert "Det" in str(report)
    assert "ANEForgeProvider" in str(report)
    assert report._repr_html_() == report.to_html()
    assert report.to_html().count("<tr>") == 2 + len(report.nodes) + len(report.regions)


def test_html_escapes_names() -> None:
    made = model([node("Relu", "<x>", "a"), node("Exp", "a", "y")], {"<x>": [2]}, {"y": [2]})
    made.graph.node[0].name = "<b>&"
    assert "&lt;b&gt;&amp;" in aneforge.provider.report(session(made, optimize=False)).to_html()


def test_written_by_option(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    session(interrupted(), {"report": str(path)})
    told = json.loads(path.read_text())
    assert told["summary"]["regions"] == 2
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_a_report_that_cannot_be_written_does_not_cost_the_session(tmp_path: Path) -> None:
    made = session(cnn(), {"report": str(tmp_path / "nowhere" / "report.json")})
    report = aneforge.provider.report(made)
    assert report.mac_share == 1.0
    assert any("report" in w for w in report.warnings)


def test_a_session_without_the_provider() -> None:
    plain = ort.InferenceSession(cnn().SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(ValueError, match="without ANEForgeProvider"):
        aneforge.provider.report(plain)


def test_onnxruntime_did_not_take_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report says what happened, not what was meant to."""
    made = session(interrupted())
    token = "test"
    made.set_ep_dynamic_options({"aneforge.token": token})
    record = records.find(reports.native.load().ep_of_token(token))
    assert record is not None
    told = reports.build(record, [{"name": "region 1", "runs": 1, "saturated": 0, "nonfinite": 0}])
    assert [r.name for r in told.regions] == ["region 1"]
    assert sum(n.reason == "onnxruntime did not take the region" for n in told.nodes) == 3
