"""`aneforge ops`: the ONNX operators that have an engine form."""

from __future__ import annotations

import argparse
import difflib
import json
from typing import Any

from . import tables
from .errors import OK, UsageError

SCHEMA_VERSION = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("op", nargs="?", metavar="OP", help="one operator: Conv, com.microsoft::Gelu")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the list as JSON")
    form.add_argument("--markdown", action="store_true", help="the table of docs/operators.md")
    form.add_argument("--numerics", action="store_true", help="the page docs/numerics.md: the quirks of the engine")
    form.add_argument("--usability", action="store_true",
                      help="the two-column table that onnxruntime's mobile usability checker reads")  # fmt: skip


def main(given: argparse.Namespace) -> int:
    """Prints the registry of handlers, or what is known of one operator."""
    if given.numerics and not given.op:
        from .numerics import markdown

        print(markdown(), end="")
        return OK
    from ..onnx import catalog

    if given.op and (given.markdown or given.usability or given.numerics):
        raise UsageError("--markdown, --numerics and --usability are for all operators")
    if given.markdown or given.usability:
        print(catalog.markdown() if given.markdown else catalog.usability(), end="")
        return OK
    entries = catalog.entries()
    if given.op:
        entries = _named(given.op, entries)
    rows = [_plain(entry) for entry in entries]
    if given.json:
        print(json.dumps({"schema_version": SCHEMA_VERSION, "operators": rows}, indent=1))
    elif given.op:
        print("\n\n".join(_one(entry) for entry in entries))
    else:
        cells = [
            [row["domain"], row["op"], ", ".join(map(str, row["since"])), ", ".join(row["known_at_import"])]
            for row in rows
        ]
        tables.show(["domain", "operator", "versions", "inputs known at import"], cells)
        print(f"\n{len(rows)} operators")
    return OK


def _named(text: str, entries: list[Any]) -> list[Any]:
    """The operators of that name, in any domain unless it is given."""
    domain, _, op = text.replace("::", ":").rpartition(":")
    found = [e for e in entries if e.op.lower() == op.lower() and domain in ("", e.domain or "ai.onnx")]
    if found:
        return found
    names = {e.op.lower(): e.op for e in entries}
    near = [names[n] for n in difflib.get_close_matches(op.lower(), names, n=3, cutoff=0.7)]
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `aneforge ops` lists those that are"
    raise UsageError(f"ONNX op {text!r} not supported{hint}")


def _plain(entry: Any) -> dict[str, Any]:
    return {
        "domain": entry.domain or "ai.onnx",
        "op": entry.op,
        "since": list(entry.since),
        "known_at_import": list(entry.constant),
        "inputs": list(entry.inputs),
        "attributes": list(entry.attributes),
        "engine": list(entry.engine),
        "refusals": [{"kind": kind, "text": text} for kind, text in entry.refusals],
        "summary": entry.summary,
    }


def _one(entry: Any) -> str:
    lines = [f"{entry.domain or 'ai.onnx'}::{entry.op}, versions {', '.join(map(str, entry.since))}"]
    if entry.summary:
        lines.append(entry.summary)
    named = {
        "inputs": entry.inputs,
        "known at import": entry.constant,
        "attributes": entry.attributes,
        "engine operations": entry.engine,
    }
    lines += [f"{what}: {', '.join(words)}" for what, words in named.items() if words]
    if entry.refusals:
        lines += ["refused:", *(f"  {text} ({kind})" for kind, text in entry.refusals)]
    return "\n".join(lines)
