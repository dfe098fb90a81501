"""`aneforge explain MODEL`: every node, where it runs, in which region, and why."""

from __future__ import annotations

import argparse
import json
from typing import Any

from . import arguments, baseline, tables
from .errors import MODEL, OK


def configure(parser: argparse.ArgumentParser) -> None:
    arguments.add_model(parser)
    baseline.configure(parser)
    parser.add_argument("--json", action="store_true", help="the report as JSON (with what --rules says)")
    parser.add_argument(
        "--rules",
        action="store_true",
        help="for each rewrite rule, where it fired, and where it nearly did and why not",
    )


def main(given: argparse.Namespace) -> int:
    """Shows the report of a session; with --strict, says too whether the model loads whole (1 if not). 3 when it is
    worse than its baseline, or than it must be."""
    import aneforge.provider

    session = arguments.session(given)
    report = aneforge.provider.report(session)
    refusal = _refusal(given) if given.strict else None
    if given.json:
        told = report.to_dict()
        if given.strict:
            told["strict"] = {"loads": refusal is None, "refusal": refusal}
        print(json.dumps(told, indent=1))
    else:
        if given.rules:
            _show_rules(report)
        else:
            _show(report)
        if given.strict:
            print(f"\nstrict: {'loads as one program' if refusal is None else refusal}")
    nodes = [
        baseline.Entry(n.name, n.op, n.index, n.graph, n.region is not None, n.macs, n.reason or "")
        for n in report.nodes
    ]
    baseline.apply(given, "explain", report.target, nodes)
    return OK if refusal is None else MODEL


def _refusal(given: argparse.Namespace) -> str | None:
    """Why the model does not load strictly; None if it does."""
    from ..errors import CompileError, DynamicShapeError, InternalError, UnsupportedModelError

    try:
        with arguments.load(given):
            return None
    except (UnsupportedModelError, DynamicShapeError, CompileError, InternalError) as error:
        return str(error)


def _show(report: Any) -> None:
    from ..provider.render import summary

    nodes = [
        [n.graph or "main", str(n.index), n.op, n.name, n.where, n.region or "", n.reason or ""] for n in report.nodes
    ]
    tables.show(["graph", "#", "op", "name", "where", "region", "reason"], nodes)
    if report.regions:
        regions = [
            [r.name, r.where, str(r.nodes), str(r.mil_ops), f"{r.macs:,}", f"{r.engine_estimate_us / 1e3:.2f} ms"]
            for r in report.regions
        ]
        print()
        tables.show(["region", "where", "nodes", "MIL ops", "MACs", "engine, estimated"], regions)
    _show_weights(report)
    print(f"\n{summary(report)}")
    if report.blocks:
        print("blocks: " + ", ".join(f"{count} {name}" for name, count in report.blocks.items()))
    for warning in report.warnings:
        print(warning)


def _show_weights(report: Any) -> None:
    """With `compress`: each weight that could be packed, and what the constants of each region came to."""
    names = {(n.graph, n.index): n.name or f"{n.op} #{n.index}" for n in report.nodes}
    rows = [
        [
            r.name,
            " + ".join(names.get((r.graph, i), str(i)) for i in w.nodes),
            "x".join(map(str, w.shape)),
            w.encoding,
            f"{w.bytes_before:,}",
            f"{w.bytes_after:,}",
            f"{w.error:.2g}",
            w.note,
        ]
        for r in report.regions
        for w in r.weights
    ]
    if rows:
        print()
        tables.show(["region", "weight of", "shape", "encoding", "bytes, fp16", "bytes", "error", "note"], rows)
        for r in report.regions:
            if r.weights:
                share = r.weight_bytes / max(1, r.weight_bytes_before)
                print(f"{r.name}: constants {r.weight_bytes_before:,} -> {r.weight_bytes:,} bytes ({share:.0%})")


def _show_rules(report: Any) -> None:
    """A row for each rule and condition, with the nodes of each place; then the rules that had nothing to do."""
    from ..passes import RULES

    names = {(n.graph, n.index): f"{n.op} {n.name!r}" if n.name else f"{n.op} #{n.index}" for n in report.nodes}
    places: dict[tuple[str, str], list[str]] = {}
    for region in report.regions:
        for note in region.rule_notes:
            nodes = " + ".join(names.get((region.graph, i), str(i)) for i in note.nodes) or "(a constant)"
            what = f"nearly: {note.condition}" if note.what == "nearly" else note.what
            places.setdefault((note.rule, what), []).append(nodes)
    rows = []
    for rule in RULES:
        own = sorted((what, nodes) for (name, what), nodes in places.items() if name == rule.name)
        rows += [[rule.name, str(len(nodes)), what, "; ".join(nodes)] for what, nodes in own]
    tables.show(["rule", "times", "what", "nodes"], rows)
    idle = [rule.name for rule in RULES if all(name != rule.name for name, _ in places)]
    print(f"\nnothing to do for: {', '.join(idle)}")
