"""The doctor's whole way on the engine's road, over the stand-in: found, measured, compared, taken over into copies.

A process opens one runtime library and keeps it, so test_over_the_standin.py runs this file in a process of its own.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from standin import Standin

from aneforge import targets
from aneforge.backends import ANE, pace
from aneforge.cli import main
from aneforge.selfcheck import probes, programs, suite
from aneforge.selfcheck.report import differences, read
from aneforge.selfcheck.symbols import REQUIRED

FEW = ("relu", "add", "softmax", "conv", "matmul", "reshape", "transpose", "select")
NO_JUDGE = "crop"  # the host backend has no kernel for it


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return Standin.build(tmp_path_factory.mktemp("standin"))


@pytest.fixture
def standin(built, tmp_path, monkeypatch):
    (tmp_path / "caches").mkdir()
    for key, value in Standin.environment(built, tmp_path / "caches").items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(pace, "SECONDS", 0.0)  # nobody waits after a failure
    control = Standin(built)
    control.reset()
    yield control
    assert control.misuse() == ""
    assert control.live() == 0


def test_the_way(standin, tmp_path, monkeypatch, capsys):
    whole = programs.vocabulary()
    monkeypatch.setattr(suite, "vocabulary", lambda: {kind: whole[kind] for kind in (*FEW, NO_JUDGE)})
    monkeypatch.setattr(suite, "probes", lambda: [p for p in probes.probes() if p.row in ("Q04", "Q41")])
    monkeypatch.setattr(suite, "edges", lambda limits: [])
    monkeypatch.setattr(suite, "_RUNS", 2)
    one = probes.models()["one relu"]
    monkeypatch.setattr(suite, "models", lambda: {"one relu": one})
    file = tmp_path / "report.json"
    code = main(["doctor", "--json", str(file), "--target", "m4"])
    told = capsys.readouterr().out
    report = read(file)
    assert report["runtime"]["found"]
    assert report["runtime"]["missing"] == []
    assert set(REQUIRED) <= set(report["runtime"]["found"])
    part = report["backends"]["e5rt"]
    assert part["word"] == ANE
    assert {kind: row["result"] for kind, row in part["vocabulary"].items()} == {
        **dict.fromkeys(FEW, "pass"),
        NO_JUDGE: "unjudged",
    }
    assert part["models"]["one relu"]["result"] == "pass"
    found = differences(report)
    assert code == (3 if found else 0)
    # the stand-in computes plainly: it has no accumulator that ends at 32752
    assert {(d.backend, d.part, d.name) for d in found} <= {("e5rt", "quirks", "Q04"), ("e5rt", "quirks", "Q41")}
    assert "    relu" in told  # named before it is tried
    folder = tmp_path / "data"
    shutil.copytree(Path(targets.__path__[0]), folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    assert main(["doctor", "--apply", str(file), "--data", str(folder)]) == 2  # no engine was there
    part["vocabulary"]["relu"]["result"] = "wrong"
    file.write_text(json.dumps(report))
    assert main(["doctor", "--apply", str(file), "--data", str(folder), "--rehearse"]) == 0
    assert "relu: does not compile on A16" in capsys.readouterr().out
    assert json.loads((folder / "vocabulary.json").read_text())["ops"]["relu"]["compiles"] is False


def test_a_compiler_that_refuses(standin, monkeypatch):
    whole = programs.vocabulary()
    monkeypatch.setattr(suite, "vocabulary", lambda: {"relu": whole["relu"], "tanh": whole["tanh"]})
    monkeypatch.setattr(suite, "probes", tuple)
    monkeypatch.setattr(suite, "models", dict)
    monkeypatch.setattr(suite, "edges", lambda limits: [])
    monkeypatch.setattr(suite, "backends_here", lambda: {"e5rt": ""})
    standin.fail("e5_compiler_compile", 1)
    report = suite.examine("m4")
    results = {kind: row["result"] for kind, row in report["backends"]["e5rt"]["vocabulary"].items()}
    assert results == {"relu": "refused", "tanh": "pass"}
    assert [d.name for d in differences(report)] == ["relu"]
