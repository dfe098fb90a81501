"""ONNX's backend suite against the reviewed list, and against the bars: every case on every road, in fp32 and in the
engine's numerics; in plain fp16, which seldom differs from them, in the full tier."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import pytest
from standin import COMPILER

from . import record
from .__main__ import Found, gather
from .cases import SUITES, cases
from .judge import NUMERICS, ROADS


def run(*numerics: str, target: str = "auto", standin: bool = False) -> dict[str, dict[str, Found]]:
    jobs = min(4, os.cpu_count() or 1)
    asked = {"suite": SUITES, "road": ROADS, "numerics": numerics, "only": "", "target": target, "standin": standin}
    return gather(argparse.Namespace(**asked, jobs=jobs))


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Found]]:
    return run("fp32", "engine")


def bad(found: dict[str, dict[str, Found]]) -> list[str]:
    return [
        f"{case} {road} {numerics}: {o.verdict}: {o.why}"
        for each in found.values()
        for case, f in each.items()
        for (road, numerics), o in f.items()
        if o.verdict in ("wrong", "bug")
    ]


def test_nothing_is_wrong(found: dict[str, dict[str, Found]]) -> None:
    assert bad(found) == []


@pytest.mark.full
def test_in_all_numerics() -> None:
    everything = run(*NUMERICS)
    assert bad(everything) == []
    if record.current():
        assert record.changes(everything) == []
    node = everything["node"]
    baked = count(node, "baked", "fp32", "right")
    for numerics in ("fp16", "engine"):
        assert count(node, "baked", numerics, "right") >= 0.98 * baked


@pytest.mark.full
@pytest.mark.parametrize("target", ["m1", "m2", "m3", "m4", "m5"])
def test_for_every_target(target: str) -> None:
    """What the list says of the target "auto" holds for each: the suite's models are small, and every engine takes them."""
    found = run("engine", target=target)
    assert bad(found) == []
    if record.current():
        assert record.changes(found) == []


@pytest.mark.full
@pytest.mark.skipif(not COMPILER or sys.platform != "linux", reason="needs a C++ compiler on Linux")
def test_over_the_standin() -> None:
    """The engine's road for every case. The values come from NumPy, so nothing is lossy for a quirk of the engine (Q11, Q12)."""
    found = run("engine", standin=True)
    assert bad(found) == []
    if record.current():
        changes = record.changes(found)
        assert changes  # it was not the host
        assert [
            c for c in changes if not c.endswith(": right; the list says right in fp32 and fp16, lossy in engine")
        ] == []


def test_outcomes_are_as_listed(found: dict[str, dict[str, Found]]) -> None:
    """After a change that is meant: `python -m tests.conformance --update`, and look at the difference."""
    if not record.current():
        pytest.skip(f"the list is of other versions than {record.VERSIONS}")
    assert record.changes(found) == []


def count(found: dict[str, Found], road: str, numerics: str, *verdicts: str) -> int:
    return sum(f[road, numerics].verdict in verdicts for f in found.values())


def test_bars(found: dict[str, dict[str, Found]]) -> None:
    node = found["node"]
    if len(node) < 1884:
        pytest.skip("an onnx with fewer node cases than 1.23")
    strict, baked = count(node, "strict", "fp32", "right"), count(node, "baked", "fp32", "right")
    assert strict >= BARS["strict"]
    assert baked >= BARS["baked"]
    assert count(node, "baked", "engine", "right") >= 0.98 * baked
    assert sum(f["provider", "engine"].nodes > 0 for f in node.values()) >= BARS["provider"]


BARS = {"strict": 790, "baked": 1170, "provider": 890}


def test_the_suites_are_whole() -> None:
    counts: dict[str, Any] = {suite: len(cases(suite)) for suite in SUITES}
    assert min(counts.values()) > 0
    assert sum(counts.values()) > 1900
