"""`aneforge ops`: the ONNX operators that have an engine form."""

from __future__ import annotations

import argparse
import json

from . import tables
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
    cells = [[", ".join(map(str, v)) if isinstance(v, list) else str(v) for v in row.values()] for row in rows]
    tables.show(["domain", "operator", "versions", "inputs known at import"], cells)
    print(f"\n{len(rows)} operators")
    return OK
