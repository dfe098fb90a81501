"""The command `aneforge`: what it prints, its JSON, its exit codes, and that it writes whole files or none."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import aneforge
from aneforge import cli
from aneforge.cli import run
from tests.provider.graphs import close, cnn, floats, interrupted, model, node, reference

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def aneforge_(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str | Path) -> tuple[int, str, str]:
        try:
            code = cli.main([str(a) for a in arguments])
        except SystemExit as end:  # argparse
            code = int(end.code or 0)
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[onnx.ModelProto], Path]:
    def save(made: onnx.ModelProto) -> Path:
        path = tmp_path / "m.onnx"
        path.write_bytes(made.SerializeToString())
        return path

    return save


Saved = Callable[[onnx.ModelProto], Path]


def dynamic() -> onnx.ModelProto:
    return model([node("Relu", "x", "a"), node("Exp", "a", "y")], {"x": ["n", 3]}, {"y": ["n", 3]})


def residual() -> onnx.ModelProto:
    weights = {"w1": floats(4, 4, 3, 3), "w2": floats(4, 4, 3, 3, seed=1)}
    nodes = [
        node("Conv", "x w1", "a", pads=[1] * 4), node("Relu", "a", "b"), node("Conv", "b w2", "c", pads=[1] * 4),
        node("Add", "c x", "d"), node("Relu", "d", "y"),
    ]  # fmt: skip
    return model(nodes, {"x": [1, 4, 6, 6]}, {"y": [1, 4, 6, 6]}, weights)


class TestRun:
    def test_says_what_came_out_and_who_took_the_time(self, aneforge_: Run, saved: Saved) -> None:
        code, out, err = aneforge_("run", saved(cnn()))
        assert (code, err) == (0, "")
        assert "host emulation 7, CPU 0, regions 1" in out
        assert "one run, host emulation:" in out
        assert "y  float32 1x5  min" in out

    def test_mixed_time_is_called_so(self, aneforge_: Run, saved: Saved) -> None:
        assert "one run, host emulation and CPU:" in aneforge_("run", saved(interrupted()))[1]

    def test_seeded_inputs_are_the_same_every_time(self, aneforge_: Run, saved: Saved, tmp_path: Path) -> None:
        files = [tmp_path / f"out{i}.npz" for i in range(2)]
        for file in files:
            assert aneforge_("run", saved(cnn()), "--output", file)[0] == 0
        first, second = (np.load(f)["y"] for f in files)
        assert np.array_equal(first, second)

    @pytest.mark.parametrize("strict", [(), ("--strict",)])
    def test_given_inputs(self, aneforge_: Run, saved: Saved, tmp_path: Path, strict: tuple[str, ...]) -> None:
        x = floats(1, 3, 8, 8)
        np.savez(tmp_path / "in.npz", x=x)
        path = saved(cnn())
        code, _, _ = aneforge_("run", path, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", *strict)
        assert code == 0
        close(np.load(tmp_path / "out.npz")["y"], reference(cnn(), {"x": x})[0])
        assert sorted(p.name for p in tmp_path.iterdir()) == ["in.npz", "m.onnx", "out.npz"]

    def test_inputs_one_by_one(self, aneforge_: Run, saved: Saved, tmp_path: Path) -> None:
        x = floats(1, 3, 8, 8)
        np.save(tmp_path / "x.npy", x)
        np.savez(tmp_path / "one.npz", anything=x)
        np.savez(tmp_path / "two.npz", a=x, b=x)
        for file in ("x.npy", "one.npz"):
            given = f"x={tmp_path / file}"
            code, _, err = aneforge_("run", saved(cnn()), "--input", given, "--output", tmp_path / "out.npz")
            assert (code, err) == (0, "")
            close(np.load(tmp_path / "out.npz")["y"], reference(cnn(), {"x": x})[0])
        for given, why in ((f"x={tmp_path / 'two.npz'}", "holds a, b"), (f"z={tmp_path / 'x.npy'}", "no input 'z'"),
                           (f"x={tmp_path / 'm.onnx'}", "not an .npy file")):  # fmt: skip
            code, _, err = aneforge_("run", saved(cnn()), "--input", given)
            assert (code, why in err) == (2, True)

    def test_json(self, aneforge_: Run, saved: Saved) -> None:
        told = json.loads(aneforge_("run", saved(cnn()), "--json", "--option", "target=m4")[1])
        assert told["schema_version"] == 1
        assert list(told["milliseconds"]) == ["host emulation"]
        assert told["placement"]["regions"] == 1

    @pytest.mark.parametrize(
        "cure", [("--dim", "n=2"), ("--input-shape", "x=2x3"), ("--option", "dims=n=2", "--dim", "n=2")]
    )
    @pytest.mark.parametrize("strict", [(), ("--strict",)])
    def test_dynamic(self, aneforge_: Run, saved: Saved, cure: tuple[str, ...], strict: tuple[str, ...]) -> None:
        code, out, err = aneforge_("run", saved(dynamic()), *cure, *strict)
        assert (code, err) == (0, "")
        assert "float32 2x3" in out
        assert "CPU 0" in out

    def test_dynamic_without_a_cure_shows_it(self, aneforge_: Run, saved: Saved) -> None:
        code, _, err = aneforge_("run", saved(dynamic()))
        assert (code, "--dim n=1" in err) == (2, True)
        code, _, err = aneforge_("run", saved(dynamic()), "--strict")
        assert (code, "dims={'n': 1}" in err) == (1, True)

    def test_an_axis_without_a_name(self, aneforge_: Run, saved: Saved) -> None:
        made = dynamic()
        made.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
        for strict in ((), ("--strict",)):
            code, out, err = aneforge_("run", saved(made), "--input-shape", "x=2x3", *strict)
            assert (code, err) == (0, "")
            assert "float32 2x3" in out
            assert "CPU 0" in out

    def test_a_failed_check(self, aneforge_: Run, saved: Saved) -> None:
        square = model(
            [node("Mul", "x big", "m"), node("Mul", "m m", "y")], {"x": [4]}, {"y": [4]}, {"big": np.float32([3e4])}
        )
        code, out, err = aneforge_("run", saved(square))
        assert code == 3
        assert "'y'" in err
        assert "infinities" in out
        assert aneforge_("run", saved(square), "--strict", "--option", "on_overflow=error")[0] == 3


class TestExplain:
    def test_every_node(self, aneforge_: Run, saved: Saved) -> None:
        code, out, _ = aneforge_("explain", saved(interrupted()))
        assert code == 0
        for word in ("n_d", "Det", "CPU", "host emulation", "region 1", "no handler", "2 regions"):
            assert word in out or word == "no handler"

    def test_packed_weights(self, aneforge_: Run, saved: Saved) -> None:
        weight = np.random.default_rng(1).standard_normal((64, 96)).astype(np.float32)
        path = saved(model([node("MatMul", "x w", "y")], {"x": [1, 64]}, {"y": [1, 96]}, {"w": weight}))
        chosen = ("--option", "compress=int4", "--option", "compress_atol=0.15")
        code, out, _ = aneforge_("explain", path, *chosen)
        assert code == 0
        (row,) = [line for line in out.splitlines() if "96x64" in line]
        for word in ("n_y", "int4", "12,288", "3,104"):
            assert word in row
        assert "constants 12,288 -> 3,104 bytes (25%)" in out
        assert "encoding" not in aneforge_("explain", path)[1]
        kept = aneforge_("explain", path, "--option", "compress=int4")[1]
        assert "int4: error 0.09" in kept
        assert "12,288 -> 12,288 bytes (100%)" in kept
        assert aneforge_("run", path, *chosen)[0] == 0
        assert aneforge_("run", path, "--strict", *chosen)[0] == 0
        code, _, err = aneforge_("check", path, *chosen)
        assert code == 2
        assert "'compress'" in err

    def test_json(self, aneforge_: Run, saved: Saved) -> None:
        told = json.loads(aneforge_("explain", saved(interrupted()), "--json")[1])
        assert told["schema_version"] == 1
        assert len(told["nodes"]) == 7
        assert [n["op"] for n in told["nodes"] if n["kind"] == "operator"] == ["Det"]

    def test_strict(self, aneforge_: Run, saved: Saved) -> None:
        code, out, _ = aneforge_("explain", saved(interrupted()), "--strict")
        assert (code, "ONNX op 'Det' not supported" in out) == (1, True)
        code, out, _ = aneforge_("explain", saved(cnn()), "--strict")
        assert (code, "loads as one program" in out) == (0, True)
        told = json.loads(aneforge_("explain", saved(interrupted()), "--strict", "--json")[1])
        assert told["strict"]["loads"] is False

    def test_rules(self, aneforge_: Run, saved: Saved) -> None:
        nodes = [node("Sigmoid", "x", "s"), node("Mul", "x s", "a"), node("Exp", "s", "b"), node("Mul", "x c", "d"),
                 node("Mul", "d c", "e"), node("Sum", "a b e", "y")]  # fmt: skip
        path = saved(model(nodes, {"x": [4]}, {"y": [4]}, {"c": np.float32(3.0)}))
        code, out, _ = aneforge_("explain", path, "--rules")
        assert code == 0
        near, fired = (
            next(line for line in out.splitlines() if line.startswith(w)) for w in ("silu", "constant-chain")
        )
        assert "nearly: the sigmoid has another reader" in near
        assert "'n_s' + Mul 'n_a'" in near
        assert "fired" in fired
        assert "Mul 'n_d' + Mul 'n_e'" in fired
        assert "nothing to do for: " in out
        (region,) = json.loads(aneforge_("explain", path, "--json")[1])["regions"]
        told = {(n["rule"], n["what"], n["condition"]) for n in region["rule_notes"]}
        assert ("silu", "nearly", "the sigmoid has another reader") in told
        assert ("constant-chain", "fired", "") in told
        assert "silu" not in region["rules"]

    def test_blocks_and_without(self, aneforge_: Run, saved: Saved) -> None:
        path = saved(residual())
        assert "blocks: 1 resnet-basic-block" in aneforge_("explain", path)[1]
        assert json.loads(aneforge_("explain", path, "--json")[1])["summary"]["blocks"] == {"resnet-basic-block": 1}
        for flags in (("--no-fuse",), ("--no-fuse", "--option", "opt=-gelu"), ("--option", "opt=0", "--no-fuse")):
            code, out, _ = aneforge_("explain", path, *flags)
            assert (code, "basic-block" in out) == (0, False)
            assert aneforge_("run", path, *flags)[0] == 0
        told = json.loads(aneforge_("explain", path, "--json", "--no-fuse", "--option", "opt=-gelu")[1])
        assert told["options"]["opt"] == "-gelu,-composite"


class TestOthers:
    def test_ops(self, aneforge_: Run) -> None:
        code, out, _ = aneforge_("ops")
        assert (code, "Conv" in out) == (0, True)
        told = json.loads(aneforge_("ops", "--json")[1])
        assert told["schema_version"] == 1
        assert "Reshape" in {row["op"] for row in told["operators"]}

    def test_one_operator(self, aneforge_: Run) -> None:
        code, out, _ = aneforge_("ops", "conv")
        assert code == 0
        for line in ("ai.onnx::Conv, versions 1, 11, 22", "inputs: x, weight, bias", "refused:"):
            assert line in out
        (row,) = json.loads(aneforge_("ops", "com.microsoft::FusedMatMul", "--json")[1])["operators"]
        assert (row["domain"], "matmul" in row["engine"]) == ("com.microsoft", True)

    def test_an_operator_that_is_none(self, aneforge_: Run) -> None:
        code, _, err = aneforge_("ops", "Reshap")
        assert (code, "did you mean Reshape" in err) == (2, True)
        assert aneforge_("ops", "com.microsoft::Conv")[0] == 2
        assert aneforge_("ops", "Conv", "--markdown")[0] == 2

    def test_tables_for_the_docs(self, aneforge_: Run) -> None:
        code, out, _ = aneforge_("ops", "--markdown")
        assert (code, out.startswith("# Operators")) == (0, True)
        assert "|ai.onnx:Relu||" in aneforge_("ops", "--usability")[1]

    def test_doctor(self, aneforge_: Run) -> None:
        code, out, err = aneforge_("doctor")
        assert (code, err) == (0, "")
        assert aneforge.__version__ in out
        assert "host emulation" in out

    def test_version(self, aneforge_: Run) -> None:
        assert aneforge_("--version")[:2] == (0, f"onnxruntime-ep-aneforge {aneforge.__version__}\n")

    def test_help_names_every_command(self, aneforge_: Run) -> None:
        out = aneforge_("--help")[1]
        assert all(name in out for name in cli.COMMANDS)


class TestErrors:
    @pytest.mark.parametrize("command", ["run", "explain"])
    @pytest.mark.parametrize("strict", [(), ("--strict",)])
    def test_the_models_fault(self, aneforge_: Run, tmp_path: Path, command: str, strict: tuple[str, ...]) -> None:
        broken = tmp_path / "broken.onnx"
        broken.write_bytes(b"not a model")
        for path in (broken, tmp_path / "missing.onnx"):
            code, out, err = aneforge_(command, path, *strict)
            assert (code, out) == (1, "")
            assert "Traceback" not in err
            assert path.name in err
        assert [p.name for p in tmp_path.iterdir()] == ["broken.onnx"]

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (("--option", "traget=m1"), "did you mean target"),
            (("--option", "target"), "NAME=VALUE"),
            (("--option", "opt=max"), "not effective"),
            (("--option", "backend=e5rt"), "e5rt"),
            (("--dim", "n"), "NAME=VALUE"),
            (("--dim", "n=0"), "from 1 up"),
            (("--input-shape", "x=1xq"), "x=1x3x224x224"),
            (("--input-shape", "z=1x3x8x8"), "'z'"),
            (("--input", "/nowhere.npz"), "/nowhere.npz"),
            (("--output", "/nowhere/out.npz"), "/nowhere"),
        ],
    )
    @pytest.mark.parametrize("strict", [(), ("--strict",)])
    def test_usage(
        self, aneforge_: Run, saved: Saved, arguments: tuple[str, ...], says: str, strict: tuple[str, ...]
    ) -> None:
        code, _, err = aneforge_("run", saved(cnn()), *arguments, *strict)
        assert code == 2
        assert says in err
        assert "Traceback" not in err

    def test_wrong_feeds(self, aneforge_: Run, saved: Saved, tmp_path: Path) -> None:
        np.savez(tmp_path / "in.npz", z=floats(1))
        code, _, err = aneforge_("run", saved(cnn()), "--input", tmp_path / "in.npz")
        assert (code, "no input 'z'; input 'x' is missing" in err) == (2, True)
        (tmp_path / "text.npz").write_text("hello")
        assert aneforge_("run", saved(cnn()), "--input", tmp_path / "text.npz")[0] == 2

    def test_unsupported(self, aneforge_: Run, saved: Saved) -> None:
        code, _, err = aneforge_("run", saved(interrupted()), "--strict")
        assert (code, "ONNX op 'Det' not supported" in err) == (1, True)

    def test_no_command(self, aneforge_: Run) -> None:
        assert aneforge_()[0] == 2
        assert aneforge_("nonsense")[0] == 2

    def test_debug_shows_the_traceback(self, saved: Saved) -> None:
        with pytest.raises(aneforge.UnsupportedModelError):
            cli.main(["run", str(saved(interrupted())), "--strict", "--debug"])

    def test_a_bug_of_ours_is_called_one(self, aneforge_: Run, saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run, "_text", lambda told: 1 / 0)
        code, _, err = aneforge_("run", saved(cnn()))
        assert (code, "a bug of aneforge: ZeroDivisionError" in err) == (2, True)
