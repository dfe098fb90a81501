"""`aneforge cache list|clear|path`: what is kept on disk."""

from __future__ import annotations

import argparse
import json
import time

from . import tables
from .errors import OK

SCHEMA_VERSION = 1


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=("list", "clear", "path"), help="what to do")
    parser.add_argument("--cache-dir", default="", metavar="DIR", help="this folder instead of the user's cache")
    parser.add_argument("--json", action="store_true", help="say it as JSON")


def main(given: argparse.Namespace) -> int:
    """Shows or clears; entries that a running process has open stay."""
    from ..cache import Cache

    cache = Cache(given.cache_dir)
    told: dict[str, object] = {"schema_version": SCHEMA_VERSION, "path": str(cache.root)}
    if given.what == "clear":
        freed, kept = cache.clear() if cache.root.is_dir() else (0, 0)
        told |= {"removed_bytes": freed, "kept_open": kept}
        text = f"{freed:,} bytes removed" + (f"; {kept} entries are in use and stay" if kept else "")
    elif given.what == "list":
        rows = cache.rows()
        told |= {
            "limit_bytes": cache.limit,
            "entries": [{"kind": r.kind, "key": r.key, "bytes": r.size, "used": r.used, "open": r.open} for r in rows],
        }
        text = f"{cache.root}: {len(rows)} entries, {sum(r.size for r in rows):,} bytes of at most {cache.limit:,}"
    else:
        text = str(cache.root)
    if given.json:
        print(json.dumps(told, indent=1))
        return OK
    if given.what == "list" and rows:
        form = "%Y-%m-%d %H:%M"
        cells = [
            [r.kind, r.key[:12], f"{r.size:,}", time.strftime(form, time.localtime(r.used)), "in use" if r.open else ""]
            for r in rows
        ]
        tables.show(["kind", "key", "bytes", "last used", ""], cells)
    print(text)
    return OK
