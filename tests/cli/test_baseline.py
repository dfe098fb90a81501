"""The gate: what a baseline holds, and what makes it fail."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from aneforge.cli import main
from tests.provider.graphs import floats, interrupted, model, node

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    def call(command: str, made: onnx.ModelProto, *more: str) -> tuple[int, str, str]:
        (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
        code = main([command, str(tmp_path / "m.onnx"), *(m.replace("BASE", str(tmp_path / "b.json")) for m in more)])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def chain(middle: str = "Tanh", shift: float = 0.0) -> onnx.ModelProto:
    """x @ w, a pointwise operator, a shift that is taken back: the larger, the less is left of the numbers."""
    return model(
        [node("MatMul", "x w", "m"), node(middle, "m", "t"), node("Add", "t s", "a"), node("Relu", "a", "r"),
         node("Sub", "r s", "y")],
        {"x": [4, 8]}, {"y": [4, 8]}, {"w": floats(8, 8), "s": np.float32([shift])},
    )  # fmt: skip


@pytest.mark.parametrize("command", ["check", "explain"])
class TestPlacement:
    def test_the_same_again(self, run: Run, command: str) -> None:
        assert run(command, chain(), "--write-baseline", "BASE")[0] == 0
        assert run(command, chain(), "--baseline", "BASE") == run(command, chain())

    def test_a_node_that_has_left(self, run: Run, command: str) -> None:
        assert run(command, chain(), "--write-baseline", "BASE")[0] == 0
        # n_t is an operator without an engine form now
        changed = model(
            [node("MatMul", "x w", "m"), node("Det", "c", "t"), node("Add", "m t", "y")],
            {"x": [4, 8], "c": [1, 2, 2]}, {"y": [4, 8]}, {"w": floats(8, 8)},
        )  # fmt: skip
        code, out, err = run(command, changed, "--baseline", "BASE")
        assert code == 3
        assert "Det 'n_t' has left the engine: there is no handler for Det" in err
        assert "MatMul" not in err
        assert out  # the report is printed all the same

    @pytest.mark.parametrize(("flag", "least", "code"), [("--min-engine", "85%", 0), ("--min-engine-nodes", "99%", 3),
                                                         ("--min-engine-nodes", "50", 0)])  # fmt: skip
    def test_shares(self, run: Run, command: str, flag: str, least: str, code: int) -> None:
        """One node of several, without products, has no engine form."""
        found, _, err = run(command, interrupted(), flag, least)
        assert found == code
        assert ("of the nodes are on the engine, and at least 99.0% must be" in err) == (code == 3)

    @pytest.mark.parametrize("text", ["0.95", "much", "101%", "-1"])
    def test_no_share(self, run: Run, command: str, text: str) -> None:
        assert run(command, chain(), f"--min-engine={text}")[0] == 2

    @pytest.mark.parametrize("content", ["", "{}", "[1]", '{"kind": "aneforge baseline", "schema_version": 1}'])
    def test_no_baseline(self, run: Run, command: str, content: str, tmp_path: Path) -> None:
        (tmp_path / "b.json").write_text(content)
        code, _, err = run(command, chain(), "--baseline", "BASE")
        assert (code, "b.json" in err, "bug" in err) == (2, True, False)

    def test_of_another_target(self, run: Run, command: str) -> None:
        run(command, chain(), "--write-baseline", "BASE", "--option", "target=m4")
        code, _, err = run(command, chain(), "--baseline", "BASE", "--option", "target=m1")
        assert (code, "target" in err) == (2, True)


def test_of_another_command(run: Run) -> None:
    run("check", chain(), "--write-baseline", "BASE")
    assert run("explain", chain(), "--baseline", "BASE")[0] == 2


def test_an_error_that_has_grown(run: Run) -> None:
    assert run("check", chain(), "--write-baseline", "BASE")[0] == 0
    code, _, err = run("check", chain(shift=300.0), "--baseline", "BASE", "--min-cosine", "0")
    assert code == 3
    assert "the error of Sub 'n_y' has grown from" in err
    assert "left" not in err


def test_what_is_written(run: Run, tmp_path: Path) -> None:
    run("check", chain(), "--write-baseline", "BASE")
    base = json.loads((tmp_path / "b.json").read_text())
    assert base["engine"] == {"by_macs": 1.0, "by_nodes": 1.0}
    assert base["nodes"]["/n_m"]["op"] == "MatMul"
    assert 0 < base["nodes"]["/n_m"]["error"] < 1e-2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.json", "m.onnx"]


def test_nodes_without_names(run: Run, tmp_path: Path) -> None:
    made = chain()
    for each in made.graph.node:
        each.name = ""
    run("check", made, "--write-baseline", "BASE")
    assert "/Sub#4" in json.loads((tmp_path / "b.json").read_text())["nodes"]
