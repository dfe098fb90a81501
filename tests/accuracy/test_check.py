"""Where the engine's arithmetic parts from fp32, and why: models that are wrong in fp16 at a known place."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from aneforge import passes
from aneforge.accuracy import trace, walk
from aneforge.accuracy.measure import error
from aneforge.cli import main
from aneforge.onnx.importer import import_graph
from aneforge.onnx.view import from_model
from aneforge.options import Options
from aneforge.targets import resolve
from tests.provider.graphs import cnn, floats, interrupted, model, node, reference


def compare(made: onnx.ModelProto, feeds: dict[str, np.ndarray], target: str = "m1") -> walk.Outcome:
    options = Options.parse({"backend": "host", "target": target})
    imported = import_graph(from_model(made), options, resolve(target), passes.check_node)
    imported.check()

    def never(nodes: object, values: object) -> dict[str, np.ndarray]:
        raise AssertionError("all of it is on the engine")

    return walk.compare(imported, walk.whole(imported), feeds, never)


def ops(made: onnx.ModelProto, row: walk.NodeError | None) -> list[str]:
    assert row is not None
    return [made.graph.node[i].op_type for i in row.nodes]


class TestError:
    def test_relative_and_cosine(self) -> None:
        got = error(np.float32([1, 2, 3.5]), np.float32([1, 2, 4]))
        assert got.relative == pytest.approx(0.125)
        a, b = np.array([1, 2, 3.5]), np.array([1, 2, 4.0])
        assert got.cosine == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    def test_numbers_that_become_none(self) -> None:
        assert error(np.float32([1, np.inf]), np.float32([1, 2])).relative == np.inf
        assert error(np.float32([np.nan]), np.float32([2])).cosine == 0

    def test_infinities_that_both_have(self) -> None:
        assert error(np.float32([-np.inf, 2]), np.float32([-np.inf, 2])).relative == 0
        assert error(np.float32([np.inf, 2]), np.float32([-np.inf, 2])).relative == np.inf

    def test_nothing_overflows(self) -> None:
        assert error(np.float32([2e38]), np.float32([1e38])).relative == pytest.approx(1)

    def test_whole_numbers(self) -> None:
        assert error(np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5])).relative == 0.25


class TestWhereItIsBorn:
    def test_a_sum_beyond_what_the_engine_keeps(self) -> None:
        """32752 for sums of products: a convolution with large weights, then a root that makes it small again."""
        made = model(
            [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Sqrt", "r", "y")],
            {"x": [1, 4, 5, 5]}, {"y": [1, 2, 3, 3]},
            {"w": np.full((2, 4, 3, 3), 2000, np.float32)},
        )  # fmt: skip
        out = compare(made, {"x": np.ones((1, 4, 5, 5), np.float32)})
        born = [row for row in out.nodes if row.verdict == walk.BORN]
        assert [ops(made, row)[0] for row in born] == ["Conv"]
        assert born[0].cause is not None
        assert born[0].cause.kind == "product"
        assert "32752" in born[0].cause.text
        assert "rescale" in born[0].cause.remedy
        assert born[0].product_peak == pytest.approx(72000)
        assert [row.verdict for row in out.nodes[1:]] == [walk.PASSED] * (len(out.nodes) - 1)
        assert out.outputs["y"].relative == np.inf

    def test_an_overflow_in_a_product(self) -> None:
        made = model([node("Mul", "x x", "m"), node("Sqrt", "m", "y")], {"x": [4]}, {"y": [4]})
        out = compare(made, {"x": np.float32([1, 2, 300, 4])})
        first = out.first(walk.BORN)
        assert ops(made, first) == ["Mul"]
        assert first is not None
        assert first.cause is not None
        assert (first.cause.kind, "90000" in first.cause.text or "9e+04" in first.cause.text) == ("overflow", True)
        assert out.nodes[-1].verdict == walk.PASSED
        assert out.nodes[-1].beyond is True

    def test_cancellation(self) -> None:
        made = model([node("Sub", "x m", "d"), node("Mul", "d k", "y")], {"x": [8]}, {"y": [8]},
                     {"m": np.float32([1000]), "k": np.float32([3])})  # fmt: skip
        x = (1000 + floats(8, seed=5)).astype(np.float32)
        out = compare(made, {"x": x})
        first = out.first(walk.BORN)
        assert ops(made, first) == ["Sub"]
        assert first is not None
        assert first.cause is not None
        assert first.cause.kind == "cancellation"
        assert out.nodes[-1].local.relative < 1e-3  # the factor only passes it on

    def test_a_steep_function(self) -> None:
        """exp(x) for x near 9: half a step of fp16 there is 0.004 of the result."""
        made = model([node("Exp", "x", "y")], {"x": [5]}, {"y": [5]})
        out = compare(made, {"x": np.float32([9.0039, 8.9961, 9.003, 8.99, 9.0])})
        assert 2e-3 < out.nodes[0].local.relative < 1e-2

    def test_fine(self) -> None:
        x = floats(1, 3, 8, 8)
        out = compare(cnn(), {"x": x})
        assert {row.verdict for row in out.nodes} == {walk.FINE}
        expected = reference(cnn(), {"x": x})[0]
        assert np.allclose(out.reference["y"], expected, rtol=1e-4, atol=1e-5)
        assert {i for row in out.nodes for i in row.nodes} >= {0, 2, 3, 6}

    def test_blocks_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        x = floats(1, 3, 8, 8)
        once = compare(cnn(), {"x": x})
        monkeypatch.setattr(trace, "_BLOCK_OPS", 1)
        many = compare(cnn(), {"x": x})
        assert [row.accumulated for row in many.nodes] == [row.accumulated for row in once.nodes]
        assert many.outputs == once.outputs

    def test_bools_and_scalars_on_the_way(self) -> None:
        made = model(
            [node("ReduceMax", "x", "m", keepdims=0), node("Greater", "x h", "g"), node("Where", "g x m", "y")],
            {"x": [3, 4]}, {"y": [3, 4]}, {"h": np.float32(0.25)},
        )  # fmt: skip
        x = floats(3, 4)
        out = compare(made, {"x": x})
        assert np.allclose(out.reference["y"], np.where(x > 0.25, x, x.max()))
        assert out.outputs["y"].relative < 1e-3


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    def call(made: onnx.ModelProto, *more: str, **feeds: np.ndarray) -> tuple[int, str, str]:
        path = tmp_path / "m.onnx"
        path.write_bytes(made.SerializeToString())
        for name, array in feeds.items():
            np.save(tmp_path / f"{name}.npy", array)
            more = (*more, "--input", f"{name}={tmp_path / name}.npy")
        code = main(["check", str(path), *more])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def told(run: tuple[int, str, str]) -> dict[str, Any]:
    return json.loads(run[1])  # type: ignore[no-any-return]


class TestCommand:
    def test_fine(self, check: Run) -> None:
        code, out, err = check(cnn())
        assert (code, err) == (0, "")
        assert "7 nodes on the engine in 1 region(s), 100.0% of the multiply-adds, 0 on the CPU" in out
        assert "no node loses 0.01 or more by itself" in out

    def test_json_has_every_node(self, check: Run) -> None:
        report = told(check(cnn(), "--json"))
        assert report["schema_version"] == 1
        assert {n["op"] for row in report["nodes"] for n in row["nodes"]} >= {"Conv", "Add", "Gemm"}
        assert report["outputs"][0]["cosine"] > 0.9999

    def test_parts_on_the_cpu_are_run_there(self, check: Run) -> None:
        report = told(check(interrupted(), "--json"))
        assert (report["placement"]["CPU"], report["placement"]["regions"]) == (1, 2)
        assert {row["region"] for row in report["nodes"]} == {1, 2}
        assert all(apart["cosine"] > 0.9999 for apart in report["import"].values())

    def test_an_error_crosses_the_cpu(self, check: Run) -> None:
        """Wrong in region 1, then a node that has no engine form, then region 2: passed on there, not born."""
        made = model(
            [node("Sub", "x c", "s"), node("Mul", "s k", "a"), node("Det", "a", "d"), node("Mul", "d k", "e"),
             node("Exp", "e", "y")],
            {"x": [3, 2, 2]}, {"y": [3]}, {"c": np.float32([500]), "k": np.float32([0.5])},
        )  # fmt: skip
        report = told(check(made, "--json", x=(500 + floats(3, 2, 2)).astype(np.float32)))
        verdicts = {row["nodes"][0]["op"] + str(row["region"]): row["verdict"] for row in report["nodes"]}
        assert verdicts["Sub1"] == "born"
        assert verdicts["Exp2"] == "passed on"

    def test_a_failed_check(self, check: Run) -> None:
        made = model([node("Mul", "x x", "m"), node("Sqrt", "m", "y")], {"x": [4]}, {"y": [4]})
        code, out, err = check(made, x=np.float32([1, 2, 300, 4]))
        assert code == 3
        assert "'y'" in err
        assert "born: Mul 'n_m'" in out

    def test_batch_normalization_with_parameters_beyond_fp16(self, check: Run) -> None:
        constants = {"s": floats(4, seed=1), "b": floats(4, seed=2), "m": floats(4, seed=3) * 1e3,
                     "v": np.float32([9e7, 2e7, 1e7, 5e7])}  # fmt: skip
        made = model([node("BatchNormalization", "x s b m v", "y")], {"x": [2, 4, 3]}, {"y": [2, 4, 3]}, constants)
        code, out, _ = check(made)
        assert code == 0
        assert (
            "avoided: BatchNormalization 'n_y': its running variance reaches 9e+07: infinite in fp16; here: folded"
            in out
        )

    def test_a_logarithm_of_faint_numbers(self, check: Run) -> None:
        made = model(
            [node("MatMul", "x w", "p"), node("Mul", "p p", "q"), node("Add", "q e", "a"), node("Log", "a", "y")],
            {"x": [4, 8]}, {"y": [4, 8]}, {"w": floats(8, 8) * 1e-4, "e": np.float32([1e-10])},
        )  # fmt: skip
        code, out, _ = check(made)
        assert code == 0
        assert (
            "avoided: Mul 'n_q' + Add 'n_a' + Log 'n_y': the logarithm it leads to is of numbers down to 1e-10" in out
        )
        assert "kept on the CPU" in out

    @pytest.mark.parametrize(
        ("more", "why"),
        [
            (("--input", "x=nowhere.npy"), "nowhere.npy"),
            (("--option", "numerics=fp32"), "numerics"),
            (("--option", "nonsense=1"), "nonsense"),
            (("--option", "backend=e5rt"), "host backend"),
        ],
    )
    def test_usage(self, check: Run, more: tuple[str, ...], why: str) -> None:
        code, _, err = check(cnn(), *more)
        assert (code, why in err) == (2, True)

    def test_wrong_types(self, check: Run) -> None:
        code, _, err = check(cnn(), x=np.zeros((1, 3, 8, 8), np.int32))
        assert (code, "float32" in err) == (2, True)
        code, _, err = check(cnn(), x=np.zeros((1, 3, 8, 9), np.float32))
        assert code == 2

    def test_strict(self, check: Run) -> None:
        assert check(cnn(), "--strict")[0] == 0
        code, _, err = check(interrupted(), "--strict")
        assert (code, "Det" in err) == (1, True)

    def test_a_picture(self, check: Run, tmp_path: Path) -> None:
        image = pytest.importorskip("PIL.Image")
        image.fromarray(np.full((20, 30, 3), 51, np.uint8)).save(tmp_path / "p.png")
        made = model([node("Relu", "x", "r"), node("Exp", "r", "y")], {"x": [1, 3, 4, 4]}, {"y": [1, 3, 4, 4]})
        report = told(check(made, "--json", "--input", f"x={tmp_path}/p.png"))
        assert report["nodes"][-1]["largest"] == pytest.approx(np.exp(0.2), rel=1e-3)
