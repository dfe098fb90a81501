"""`aneforge doctor`: what is installed, what this machine has and can do, and whether that is what this release believes.

On a Mac it is the acceptance test: it measures the engine and writes a report that can be sent (no user, no folder, no
file name is in it); `--apply` takes a report over into the data files of this installation or checkout.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
from pathlib import Path
from typing import Any

import aneforge

from .errors import CHECK, OK, USAGE, UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="run the self-check over every backend that is here")
    parser.add_argument(
        "--every", action="store_true", help="also try operations that are not claimed to compile (slow on an engine)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the report of the self-check to this file")
    parser.add_argument(
        "--target", default="auto", help="the engine whose claims are checked; by default that of this machine"
    )
    parser.add_argument("--apply", metavar="REPORT", help="take a report over into the data files about engines")
    parser.add_argument(
        "--data", metavar="FOLDER", help="with --apply: the folder of those files, instead of the installed ones"
    )
    parser.add_argument("--rehearse", action="store_true",
                        help="with --apply and --data: take an emulation for an engine, to try out the way")  # fmt: skip


def main(given: argparse.Namespace) -> int:
    """Prints one line a check; 2 if something is missing, 3 if a measurement is not what the data claim."""
    if given.apply:
        return _apply(given)
    if given.rehearse or given.data:
        raise UsageError("--rehearse and --data go with --apply")
    failed = _installation()
    if not (given.check or given.json or given.every):
        return USAGE if failed else OK
    if failed:
        return USAGE
    from ..selfcheck import differences, examine

    report = examine(given.target, every=given.every, say=print)
    for name, why in report["absent"].items():
        print(f"{name}: not here: {why}")
    found = differences(report)
    for difference in found:
        print(f"DIFFERENT: {difference}")
    if given.json:
        Path(given.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        print(f"report: {given.json}")
    checks = sum(len(p["vocabulary"]) + len(p["quirks"]) + len(p["models"]) for p in report["backends"].values())
    print(f"{checks} checks on {', '.join(report['backends']) or 'no backend'}, {len(found)} not as the data claim")
    return CHECK if found else OK


def _apply(given: argparse.Namespace) -> int:
    if given.rehearse and not given.data:
        raise UsageError("--rehearse changes copies only: name their folder with --data")
    from .. import selfcheck, targets

    folder = Path(given.data) if given.data else Path(targets.__path__[0])
    changes = selfcheck.apply(selfcheck.read(given.apply), folder, rehearse=given.rehearse)
    for line in changes:
        print(line)
    print(f"{len(changes)} changes")
    return OK


def _installation() -> bool:
    """Prints what is installed and what the machine is; whether something is missing."""
    print(
        f"{aneforge.__distribution__} {aneforge.__version__}, Python {platform.python_version()}, {platform.platform()}"
    )
    for name in ("numpy", "onnx", "onnxruntime", "rich"):
        print(f"  {name} {_version(name)}")
    failed = False
    for what, check in (
        ("native library", _library),
        ("provider", _provider),
        ("chip", _chip),
        ("engine runtime", _runtime),
        ("backend", _backend),
    ):
        try:
            print(f"  {what}: {check()}")
        except Exception as error:  # every failure is one line of the table
            failed = True
            print(f"  {what}: FAILED: {error}", file=sys.stderr)
    return failed


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _library() -> str:
    from ..backends import native

    return f"{native.library_path()} {native.load().version()}"


def _provider() -> str:
    import aneforge.provider

    return f"{aneforge.provider.NAME} is registered with onnxruntime"


def _chip() -> str:
    from ..targets import here

    chip = here()
    words = [w for w, yes in (("translated by Rosetta", chip.rosetta), ("a virtual machine", chip.virtual)) if yes]
    about = f" ({', '.join(words)})" if words else ""
    return f"{chip.name or 'unknown'}{about}{f'; {chip.note}' if chip.note else ''}"


def _runtime() -> str:
    from ..selfcheck.symbols import symbols

    found: dict[str, Any] = symbols()
    if not found:
        return "not on this machine"
    if "error" in found:
        return str(found["error"])
    missing = found.get("missing", ())
    return f"{len(found.get('found', ()))} names found, {len(missing)} missing{': ' + ', '.join(missing) if missing else ''}"


def _backend() -> str:
    from ..backends import word
    from ..options import Options
    from ..targets import resolve

    target = resolve("auto")
    return f"{word(Options())}; target auto is {target.name} ({target.chips})"
