"""The readings of written programs: what each of them notices, and a share of the conformance suite for every target."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from aneforge import ops
from aneforge.ir import Op, Program, Type, input
from aneforge.mil import MilFile, write

pytest.importorskip("coremltools")

from suites import programs, readings

from tests.conformance import record
from tests.conformance.cases import SUITES

JOBS = min(4, os.cpu_count() or 1)
# suite -> each how manieth model, and the fewest programs on each road, all five targets together; `light`, of large models, is in the full tier
SHARE = {
    "node": (20, {"strict": 185, "baked": 135, "provider": 260}),
    "simple": (5, {"strict": 5, "provider": 5}),
    "pytorch-converted": (20, {"strict": 25, "provider": 25}),
    "pytorch-operator": (5, {"strict": 35, "provider": 30}),
}


# and of each suite in whole, the fewest programs for all five targets together
WHOLE = {"node": 11100, "simple": 45, "pytorch-converted": 755, "pytorch-operator": 270, "light": 83}


def counted(found: programs.Found) -> dict[str, int]:
    total: Counter[str] = Counter()
    for (road, _), counts in found.counts.items():
        total[road] += counts["programs"]
    return dict(total)


@pytest.mark.parametrize("suite", SHARE)
def test_a_share_of_the_conformance_suite(suite: str) -> None:
    every, wanted = SHARE[suite]
    found = programs.gather(suite, every=every, jobs=JOBS)
    assert found.bad == []
    assert found.total("agree") == found.total("programs")
    if record.current():
        assert {road: n for road, n in counted(found).items() if n < wanted.get(road, 0)} == {}


@pytest.mark.full
@pytest.mark.parametrize("suite", SUITES)
def test_the_whole_conformance_suite(suite: str) -> None:
    found = programs.gather(suite, jobs=JOBS)
    print("\n".join(programs.table(suite, found)))
    assert found.bad == []
    assert found.total("agree") == found.total("programs")
    if record.current():
        assert found.total("programs") >= WHOLE[suite]


# ---------------------------------------------------------------- each reading can fail

R = np.random.default_rng(4)
X = input("x", (1, 3, 8, 8))
WEIGHT = R.standard_normal((4, 3, 3, 3))


def net() -> Program:
    c = ops.conv(X, WEIGHT, pad=(1, 1, 1, 1))
    return Program([("x", X)], [("y", ops.reduce_mean(ops.sub(ops.relu(c), c), axes=(2, 3), keep_dims=True))])


def changed(written: MilFile, old: str, new: str) -> MilFile:
    assert old in written.text
    return replace(written, text=written.text.replace(old, new, 1))


def test_a_true_program_agrees(tmp_path: Path) -> None:
    program = net()
    for numerics in ("engine", "fp32"):
        written = write(program, numerics)
        assert readings.text(program, written) == ""
        assert readings.package(program, written, tmp_path) == ""
        assert readings.blob(bytes(written.blob), tmp_path) == ""
    assert programs.judged(program, write(program), "m1")[0] == ""


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("= relu(", "= relu6(", "operation 1"),
        ("sub(x = t1, y = t0)", "sub(x = t0, y = t1)", "another value"),
        ("tensor<int32, [2]>([2, 3])", "tensor<int32, [2]>([1, 3])", "axes is not the value"),
        ("tensor<fp16, [1, 4, 8, 8]> t1", "tensor<fp16, [1, 4, 8, 9]> t1", "operation 1"),
        ("func main", "func main<", "cannot be read"),
        ("keep_dims = c", "keep_dimensions = c", "arguments"),
    ],
)
def test_another_text_is_noticed(old: str, new: str, word: str) -> None:
    program = net()
    assert word in readings.text(program, changed(write(program), old, new))


def test_another_constant_is_noticed() -> None:
    program = net()
    written = write(program)
    blob = bytearray(written.blob)
    blob[-1] ^= 1
    assert "weight is not the value" in readings.text(program, replace(written, blob=memoryview(bytes(blob))))
    text = ops.mul(X, 0.5)
    program = Program([("x", X)], [("y", text)])
    assert "y is not the value" in readings.text(program, changed(write(program), "0x1p-1", "0x1p-2"))


@pytest.mark.parametrize("value", [1e6, -1e6, 1e-12, -0.0, np.inf, 0.1])
def test_what_narrowing_makes_of_a_constant(value: float) -> None:
    program = Program([("x", X)], [("y", ops.add(X, np.full((1, 3, 1, 8), value)))])
    assert readings.text(program, write(program)) == ""


def test_a_type_that_coremltools_does_not_infer(tmp_path: Path) -> None:
    y = Op("relu", {"x": X}, {}, (Type("fp16", (1, 3, 8, 9)),)).outputs[0]
    program = Program([("x", X)], [("y", y)])
    written = write(program)
    assert readings.text(program, written) == ""
    assert readings.package(program, written, tmp_path).startswith("coremltools: ")


def test_ports_without_a_form(tmp_path: Path) -> None:
    scalar = ops.reshape(ops.reduce_max(X, axes=(0, 1, 2, 3), keep_dims=False), shape=(1,))
    scalar = ops.squeeze(scalar, axes=(0,))
    program = Program([("x", X)], [("y", scalar)])
    with pytest.raises(readings.NoPackage, match="a scalar"):
        readings.package(program, write(program), tmp_path)
    raw = input("raw", (2, 4), "uint8")
    program = Program([("raw", raw)], [("y", ops.mul(ops.cast(raw, "fp16"), 2.0))])
    assert readings.package(program, write(program), tmp_path) == ""


def test_another_container_is_noticed(tmp_path: Path) -> None:
    blob = bytes(write(net()).blob)
    assert readings.blob(blob, tmp_path) == ""
    assert readings.blob(blob + bytes(64), tmp_path) != ""
    assert readings.blob(blob[:8] + b"\1" + blob[9:], tmp_path) != ""


def test_a_violation_is_noticed() -> None:
    """An operation that no engine compiles, in text and package as it should be."""
    y = Op("gather", {"x": X}, {"axis": 0}, (X.type,)).outputs[0]
    program = Program([("x", X)], [("y", y)])
    written = write(program)
    assert readings.text(program, written) == ""
    assert programs.judged(program, written, "m1")[0].startswith("check: ")


def test_what_the_tables_forget_the_standin_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs.af, "check", lambda *_: [])
    program = Program([("x", X)], [("y", ops.sin(X))])
    written = write(program)
    assert programs.judged(program, written, "m1")[0].startswith("families: ")
    assert programs.judged(program, written, "m5")[0] == ""


def test_a_reading_that_fails_is_no_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session goes on without a region whose compilation raises; what was taken down must not be lost with it."""

    def fails(*_: object) -> None:
        raise KeyError("reading")

    monkeypatch.setattr(programs, "judged", fails)
    found = programs.some("pytorch-converted", programs.names("pytorch-converted")[:1], ["m1"], ("none",), {})
    assert (found.total("programs"), found.total("agree")) == (2, 0)
    assert all("not read: KeyError" in line for line in found.bad)
