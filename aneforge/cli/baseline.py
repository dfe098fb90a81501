"""A gate for other people's CI: what was on the engine, and how right it was, must stay so.

    aneforge check model.onnx --write-baseline base.json      # once, and when a change is wanted
    aneforge check model.onnx --baseline base.json --min-engine 95%

`explain` has the same flags; its baselines hold placement alone.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import CheckError, UsageError

SCHEMA_VERSION = 1
KIND = "aneforge baseline"
GROWTH = 2.0
"""An error may vary by this factor: other seeds of rounding give as much."""
SHOWN = 20


@dataclass(frozen=True)
class Entry:
    """One node. `error`: max|d|/max|ref| along the engine's path; None where nothing was measured."""

    name: str
    op: str
    index: int
    graph: str
    on_engine: bool
    macs: int
    reason: str = ""
    error: float | None = None


def configure(parser: argparse.ArgumentParser) -> None:
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--baseline", metavar="BASE.json", help="exit 3 if a node has left the engine since, "
                       "or an error has grown")  # fmt: skip
    files.add_argument("--write-baseline", metavar="BASE.json", help="write what --baseline compares with")
    parser.add_argument("--min-engine", metavar="95%", help="exit 3 below this share of the multiply-adds (of the "
                        "nodes, where nothing multiplies)")  # fmt: skip
    parser.add_argument("--min-engine-nodes", metavar="90%", help="exit 3 below this share of the nodes")


def apply(given: argparse.Namespace, command: str, target: str, nodes: Sequence[Entry], least: float = 0.0) -> None:
    """Writes the baseline, or holds the model against it and against the shares.

    Args:
        least: errors below it do not count as grown.

    Raises:
        UsageError: a share or a file that says nothing, or a baseline of another command or target.
        CheckError: it lists what is worse than it was, or than it must be.
    """
    shares = {
        "multiply-adds": (_share(given.min_engine, "--min-engine"), _by_macs(nodes)),
        "nodes": (_share(given.min_engine_nodes, "--min-engine-nodes"), _by_nodes(nodes)),
    }
    problems = [
        f"{share:.1%} of the {what} are on the engine, and at least {wanted:.1%} must be"
        for what, (wanted, share) in shares.items()
        if wanted is not None and share < wanted
    ]
    if given.write_baseline:
        _write(given.write_baseline, _document(command, target, nodes))
    if given.baseline:
        problems = [*_compare(_read(given.baseline, command, target), nodes, least), *problems]
    if problems:
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        raise CheckError("\n  ".join(["not as it must be:", *problems[:SHOWN], *more]))


def shares(nodes: Sequence[Entry]) -> dict[str, float]:
    """What of the model is on the engine."""
    return {"by_macs": _by_macs(nodes), "by_nodes": _by_nodes(nodes)}


def _by_macs(nodes: Sequence[Entry]) -> float:
    total = sum(n.macs for n in nodes)
    return sum(n.macs for n in nodes if n.on_engine) / total if total else _by_nodes(nodes)


def _by_nodes(nodes: Sequence[Entry]) -> float:
    return sum(n.on_engine for n in nodes) / len(nodes) if nodes else 1.0


def _share(text: str | None, flag: str) -> float | None:
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100 or (0 < value < 1 and not text.endswith("%")):
        raise UsageError(f"{flag} takes a share such as 95%, not {text!r}")
    return value / 100


def _keys(nodes: Sequence[Entry]) -> dict[str, Entry]:
    """Nodes by name; by operator and place where a name is empty or not the only one."""
    count = Counter((n.graph, n.name) for n in nodes)
    return {
        f"{n.graph}/{n.name}" if n.name and count[n.graph, n.name] == 1 else f"{n.graph}/{n.op}#{n.index}": n
        for n in nodes
    }


def _document(command: str, target: str, nodes: Sequence[Entry]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "command": command,
        "target": target,
        "engine": shares(nodes),
        "nodes": {
            key: {"op": n.op, "engine": n.on_engine, **({} if n.error is None else {"error": min(n.error, 1e30)})}
            for key, n in _keys(nodes).items()
        },
    }


def _compare(base: Mapping[str, Any], nodes: Sequence[Entry], least: float) -> list[str]:
    left, grown = [], []
    for key, node in _keys(nodes).items():
        before = base["nodes"].get(key)
        if before is None:
            continue
        what = f"{node.op} {node.name!r}" if node.name else f"{node.op} #{node.index}"
        if before["engine"] and not node.on_engine:
            left.append(f"{what} has left the engine{': ' if node.reason else ''}{node.reason}")
        old = before.get("error")
        if old is not None and node.error is not None and node.error >= least and node.error > GROWTH * old:
            grown.append(f"the error of {what} has grown from {old:.2g} to {node.error:.2g}")
    return left + grown


def _read(path: str, command: str, target: str) -> Mapping[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            base = json.load(file)
        if base["kind"] != KIND or base["schema_version"] != SCHEMA_VERSION:
            raise KeyError("kind")
        made_by, made_for = base["command"], base["target"]
        sound = all(isinstance(row["engine"], bool) for row in base["nodes"].values())
    except (OSError, ValueError) as error:
        raise UsageError(f"--baseline {path}: {error}") from error
    except (KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        raise UsageError(f"--baseline {path}: this is no baseline of version {SCHEMA_VERSION}; make one with "
                         "--write-baseline")  # fmt: skip
    if (made_by, made_for) != (command, target):
        raise UsageError(
            f"--baseline {path}: it was made by `aneforge {made_by}` for target {made_for}; this is `{command}` for "
            f"{target}"
        )
    return base  # type: ignore[no-any-return]


def _write(path: str, document: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".baseline-", suffix=".json")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1, ensure_ascii=False)
            file.write("\n")
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
