"""The reviewed list of outcomes, `outcomes.tsv`: suite, case, and a column for each road.

A column says `right`; `lossy` and in which numerics; `refused` and the kind; `cpu` (a session, nothing on the engine); or
`invalid` (ONNX Runtime's own CPU provider does not pass the case). What is right in all numerics is just `right`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import onnx
import onnxruntime

from .judge import NUMERICS, ROADS, Outcome

FILE = Path(__file__).parent / "outcomes.tsv"
VERSIONS = f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}"
"""The list is of one version of each: others have other cases, and run them otherwise."""
Found = Mapping[tuple[str, str], Outcome]


def kind(why: str) -> str:
    """The kind of a refusal."""
    return why.partition(":")[0]


def short(why: str) -> str:
    """A refusal without the names of values, to be counted."""
    return re.sub(r"'[^']*'", "…", why)[:120]


def column(found: Found, road: str) -> str:
    """One road's outcome in all numerics that were run."""
    seen = {n: found[road, n] for n in NUMERICS if (road, n) in found}
    if not seen:
        return ""
    words = {n: f"refused ({kind(o.why)})" if o.verdict == "refused" else o.verdict for n, o in seen.items()}
    if len(set(words.values())) == 1:
        return next(iter(words.values()))
    return ", ".join(
        f"{word} in {' and '.join(n for n in words if words[n] == word)}" for word in dict.fromkeys(words.values())
    )


def current() -> bool:
    """Whether the list is of the versions that are installed here."""
    return FILE.read_text().partition("\n")[0] == VERSIONS


def read() -> dict[tuple[str, str], dict[str, str]]:
    """(suite, case) -> road -> column."""
    if not FILE.exists():
        return {}
    rows = [line.split("\t") for line in FILE.read_text().splitlines()[2:]]
    return {(r[0], r[1]): dict(zip(ROADS, r[2:], strict=True)) for r in rows}


def write(found: Mapping[str, Mapping[str, Found]]) -> None:
    """Writes what was found over what the list says; the rest of it stays."""
    listed = read()
    for suite, each in found.items():
        for case, f in each.items():
            row = listed.setdefault((suite, case), dict.fromkeys(ROADS, ""))
            row |= {road: column(f, road) for road in ROADS if column(f, road)}
    lines = [VERSIONS, "\t".join(("suite", "case", *ROADS))]
    lines += ["\t".join((*key, *(row[road] for road in ROADS))) for key, row in sorted(listed.items())]
    FILE.write_text("\n".join(lines) + "\n")


def changes(found: Mapping[str, Mapping[str, Found]]) -> list[str]:
    """How the outcomes differ from the list, one line each."""
    listed = read()
    out = []
    for suite, each in found.items():
        for case, f in each.items():
            row = listed.get((suite, case))
            for road in ROADS:
                now = column(f, road)
                if now and row is None:
                    out.append(f"{suite} {case} {road}: {now}; not in the list")
                elif now and row is not None and not _covers(row[road], now, f):
                    out.append(f"{suite} {case} {road}: {now}; the list says {row[road]}")
    return out


def _covers(listed: str, now: str, found: Found) -> bool:
    """Whether the list agrees; when only some numerics were run, as far as they tell."""
    if listed == now:
        return True
    ran = {n for _, n in found}
    if ran == set(NUMERICS):
        return False
    parts = dict.fromkeys(ran, listed)
    for part in listed.split(", "):
        word, _, where = part.partition(" in ")
        if where:
            parts |= {n: word for n in where.split(" and ") if n in ran}
    if len(set(parts.values())) == 1:
        return next(iter(parts.values())) == now
    words = list(parts.values())
    order = [n for n in NUMERICS if n in ran]
    return now == ", ".join(
        f"{w} in {' and '.join(n for n in order if parts[n] == w)}" for w in dict.fromkeys(parts[n] for n in order)
    ) and bool(words)
