"""`aneforge ops`: the ONNX operators that have an engine form."""

from __future__ import annotations

import argparse
import json

from .errors import OK

SCHEMA_VERSION = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the list as JSON")


def main(given: argparse.Namespace) -> int:
    """Prints the registry of handlers."""
    from ..onnx.registry import handlers

    rows = [
        {
            "domain": handler.domain or "ai.onnx",
            "op": handler.op,
            "since": list(handler.since),
            "known_at_import": [p.name for p in handler.inputs if p.form == "Known"],
        }
        for handler in sorted(handlers().values(), key=lambda h: (h.domain, h.op))
    ]
    if given.json:
        print(json.dumps({"schema_version": SCHEMA_VERSION, "operators": rows}, indent=1))
        return OK
    from rich.console import Console
    from rich.table import Table

    table = Table("domain", "operator", "versions", "inputs known at import", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(", ".join(map(str, v)) if isinstance(v, list) else str(v) for v in row.values()))
    out = Console(highlight=False)
    out.print(table, markup=False)
    out.print(f"\n{len(rows)} operators")
    return OK
