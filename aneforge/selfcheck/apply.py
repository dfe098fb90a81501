"""Takes a report over into the data files of the targets: vocabulary, and quirks that were measured.

What makes a program wrong is never taken back by one report: a row of the quirk table gains a family that shows it, and
notes one that does not; somebody who has read the note takes the family away. An operation is taken from the family where
it failed and from all older ones, and given to the family where it was right and to all newer ones: each family takes
what an older one takes. Limits stay as they are; a report names them, and a person decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..backends import ANE
from ..errors import ReportError
from ..targets import resolve
from .report import checked
from .suite import ENGINE, PASS, UNJUDGED

FAMILIES = ("A13", "A14", "A15", "A16")


def apply(report: Mapping[str, Any], folder: Path, *, rehearse: bool = False) -> list[str]:
    """Writes what `report` measured into vocabulary.json and quirks.json of `folder`; a line for each change.

    Args:
        rehearse: take an emulation for an engine; for trying out the way on copies of the files.

    Raises:
        ReportError: the report is malformed, or was not made on an engine.
    """
    checked(report)
    machine = report["machine"]
    engines = {n: p for n, p in report["backends"].items() if rehearse or (n == ENGINE and p["word"] == ANE)}
    if not engines or not (rehearse or machine["has_engine"]):
        raise ReportError("no engine was measured there: neither an emulation nor Core ML says anything about one")
    family = resolve(machine["target"]).family
    source = f"report: {machine['chip']}, {machine['os']}"
    vocabulary = _Lines(folder / "vocabulary.json", r'^  "(\w+)": (\{.*\})(,?)$')
    quirks = _Lines(folder / "quirks.json", r'^  \{"id": "(Q\d+)".*$')
    changes: list[str] = []
    for part in engines.values():
        for kind, row in part["vocabulary"].items():
            if row["result"] == UNJUDGED:  # says nothing about its values
                continue
            changes += _operation(vocabulary, kind, row["result"] == PASS, family, source)
        for quirk, row in part["quirks"].items():
            if row["seen"] is not None:
                changes += _quirk(quirks, quirk, row["seen"], family, source)
    vocabulary.save()
    quirks.save()
    return changes


class _Lines:
    """A data file with one row a line: what is not changed stays as it is written, byte for byte."""

    def __init__(self, path: Path, pattern: str) -> None:
        self.path = path
        self.lines = path.read_text(encoding="utf-8").split("\n")
        self.at: dict[str, int] = {}
        for i, line in enumerate(self.lines):
            found = re.match(pattern, line)
            if found:
                self.at[found.group(1)] = i
        self.keyed = "vocabulary" in path.name

    def row(self, name: str) -> dict[str, Any]:
        text = self.lines[self.at[name]].strip().removesuffix(",")
        row: dict[str, Any] = json.loads(text.split(": ", 1)[1] if self.keyed else text)
        return row

    def put(self, name: str, row: Mapping[str, Any]) -> None:
        comma = "," if self.lines[self.at[name]].rstrip().endswith(",") else ""
        text = json.dumps(row, ensure_ascii=False)
        self.lines[self.at[name]] = f'  "{name}": {text}{comma}' if self.keyed else f"  {text}{comma}"

    def save(self) -> None:
        text = "\n".join(self.lines)
        json.loads(text)
        self.path.write_text(text, encoding="utf-8")


def _operation(data: _Lines, kind: str, works: bool, family: str, source: str) -> list[str]:
    row = data.row(kind)
    given = row["compiles"]
    before = set(FAMILIES) if given is True else set() if given is False else set(given)
    place = FAMILIES.index(family)
    after = before | set(FAMILIES[place:]) if works else before - set(FAMILIES[: place + 1])
    unknown = [f for f in row.get("unknown", ()) if f != family and f not in after]
    if after == before and unknown == row.get("unknown", []):
        return []
    row["compiles"] = True if len(after) == len(FAMILIES) else [f for f in FAMILIES if f in after] or False
    row.pop("unknown", None)
    if unknown:
        row["unknown"] = unknown
    row["source"] = [*row["source"], source]
    data.put(kind, row)
    return [f"{kind}: {'compiles' if works else 'does not compile'} on {family}"]


def _quirk(data: _Lines, quirk: str, seen: bool, family: str, source: str) -> list[str]:
    row = data.row(quirk)
    reports = dict(row.get("reports", {}))
    if reports.get(family, {}).get("seen") == seen:
        return []
    reports[family] = {"seen": seen, "source": source}
    row["reports"] = reports
    line = f"{quirk}: {'seen' if seen else 'not seen'} on {family}"
    if seen and family not in row["families"]:
        row["families"] = [f for f in FAMILIES if f in row["families"] or f == family]
        line += ", added to its families"
    if seen:
        row["measured"] = True
    data.put(quirk, row)
    return [line]
