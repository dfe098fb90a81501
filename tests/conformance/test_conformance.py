"""ONNX's backend suite against the reviewed list, and against the bars."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from . import record
from .__main__ import Found, gather
from .cases import SUITES, cases
from .judge import NUMERICS, ROADS


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Found]]:
    return gather(argparse.Namespace(suite=SUITES, road=ROADS, numerics=NUMERICS, only="", jobs=2))


def test_nothing_is_wrong(found: dict[str, dict[str, Found]]) -> None:
    bad = [
        f"{case} {road} {numerics}: {o.verdict}: {o.why}"
        for each in found.values()
        for case, f in each.items()
        for (road, numerics), o in f.items()
        if o.verdict in ("wrong", "bug")
    ]
    assert bad == []


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
    for numerics in ("fp16", "engine"):
        assert count(node, "baked", numerics, "right") >= 0.98 * baked
    assert sum(f["provider", "engine"].nodes > 0 for f in node.values()) >= BARS["provider"]


BARS = {"strict": 560, "baked": 790, "provider": 660}


def test_the_suites_are_whole() -> None:
    counts: dict[str, Any] = {suite: len(cases(suite)) for suite in SUITES}
    assert min(counts.values()) > 0
    assert sum(counts.values()) > 1900
