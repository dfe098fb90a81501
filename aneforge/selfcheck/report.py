"""Reads a report that somebody sent, and says where it and the target data disagree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..backends import ANE
from ..errors import OptionError, ReportError
from ..targets import Target, quirk_table, resolve
from .suite import ENGINE, PASS, REFUSED, SCHEMA_VERSION, UNJUDGED, WRONG


@dataclass(frozen=True)
class Difference:
    """One place where a measurement and the target data disagree.

    Attributes:
        part: "vocabulary", "quirks", "limits" or "models".
        name: the operation, row, limit or model.
        text: a sentence.
    """

    backend: str
    part: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.backend}, {self.part}: {self.text}"


def read(path: str | Path) -> dict[str, Any]:
    """A report, checked.

    Raises:
        ReportError: it cannot be read, or has another form than `examine` gives.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ReportError(f"{path} is not a report of `aneforge doctor`: {error}") from error
    return checked(found)


def checked(found: Any) -> dict[str, Any]:
    """`found` itself, if it has the form of a report. Raises ReportError otherwise."""
    report = _table(found, "the report")
    if report.get("schema_version") != SCHEMA_VERSION:
        version = report.get("schema_version")
        raise ReportError(f"schema_version is {version!r}; this release reads {SCHEMA_VERSION}")
    machine = _table(report.get("machine"), "machine")
    for key, kind in (("chip", str), ("target", str), ("family", str), ("has_engine", bool), ("os", str)):
        if not isinstance(machine.get(key), kind):
            raise ReportError(f"machine: {key!r} is missing, or no {kind.__name__}")
    try:
        target = resolve(machine["target"])
    except OptionError as error:
        raise ReportError(f"machine: {error}") from error
    if target.family != machine["family"]:
        raise ReportError(f"machine: target {target.name} is of family {target.family}, not {machine['family']}")
    backends = _table(report.get("backends"), "backends")
    for name, part in backends.items():
        _check_backend(name, _table(part, f"backend {name}"), target)
    return report


def _check_backend(name: str, part: Mapping[str, Any], target: Target) -> None:
    if not isinstance(part.get("word"), str):
        raise ReportError(f"backend {name}: it does not say who computed")
    for kind, row in _rows(part, "vocabulary", name):
        if kind not in target.vocabulary:
            raise ReportError(f"backend {name}: {kind!r} is no MIL operation of the vocabulary")
        if row.get("result") not in (PASS, WRONG, REFUSED, UNJUDGED):
            raise ReportError(f"backend {name}: {kind}: result is {row.get('result')!r}")
    for quirk, row in _rows(part, "quirks", name):
        if quirk not in quirk_table():
            raise ReportError(f"backend {name}: there is no quirk {quirk!r}")
        if "seen" not in row or not (row["seen"] is None or isinstance(row["seen"], bool)):
            raise ReportError(f"backend {name}: {quirk}: seen is {row.get('seen')!r}")
    for limit, row in _rows(part, "limits", name):
        if not hasattr(target.limits, limit):
            raise ReportError(f"backend {name}: there is no limit {limit!r}")
        if not all(n.isdecimal() and outcome in (PASS, WRONG, REFUSED, UNJUDGED) for n, outcome in row.items()):
            raise ReportError(f"backend {name}: {limit}: {row!r}")
    for model, row in _rows(part, "models", name):
        if row.get("result") not in (PASS, WRONG, REFUSED):
            raise ReportError(f"backend {name}: {model}: result is {row.get('result')!r}")


def _rows(part: Mapping[str, Any], key: str, name: str) -> list[tuple[str, Mapping[str, Any]]]:
    table = _table(part.get(key), f"backend {name}: {key}")
    return [(word, _table(row, f"backend {name}: {key}: {word}")) for word, row in table.items()]


def _table(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ReportError(f"{what} is missing, or no table")
    return value


def differences(report: Mapping[str, Any]) -> list[Difference]:
    """Where the measurements of a checked report are not what the target data claim.

    Of an engine, everything is compared. Of an emulation, only values and what it is told to imitate: it has no limits,
    takes operations that the engine does not, and has no kernel for some that no lowering leaves. Of Core ML only wrong
    values count: it takes the CPU for what it likes, and does not say so.
    """
    target = resolve(report["machine"]["target"])
    found: list[Difference] = []
    for name, part in report["backends"].items():
        engine = name == ENGINE and part["word"] == ANE

        def add(what: str, word: str, text: str, backend: str = name) -> None:
            found.append(Difference(backend, what, word, text))

        for kind, row in part["vocabulary"].items():
            claimed = target.supports(kind) is None
            if row["result"] == PASS and not claimed and engine:
                add(
                    "vocabulary", kind, f"{kind} compiles and is right, which the data do not claim for {target.family}"
                )
            if claimed and (row["result"] == WRONG or (engine and row["result"] == REFUSED)):
                add("vocabulary", kind, f"{kind} is {row['result']}, which {target.family} is said to compute")
        expected = target.quirks if engine else target.simulated_quirks
        for quirk, row in part["quirks"].items() if engine or part["word"] != ANE else ():
            known = quirk_table()[quirk].reports.get(target.family)
            if row["seen"] is None or (engine and known is not None and known["seen"] == row["seen"]):
                continue
            if row["seen"] != (quirk in expected):
                seen = "shows" if row["seen"] else "does not show"
                add("quirks", quirk, f"{target.family} {seen} {quirk}, against the data")
        for limit, tried in part["limits"].items():
            claimed_extent = str(getattr(target.limits, limit))
            if tried.get(claimed_extent, PASS) not in (PASS, UNJUDGED):
                add("limits", limit, f"{limit}: {claimed_extent} is {tried[claimed_extent]}, which the data claim")
        for model, row in part["models"].items():
            if row["result"] != PASS:
                add("models", model, f"{model} is {row['result']}")
    return found
