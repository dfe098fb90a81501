"""`aneforge explain MODEL`: every node, where it runs, in which region, and why."""

from __future__ import annotations

import argparse
import json
from typing import Any

from . import arguments
from .errors import MODEL, OK


def configure(parser: argparse.ArgumentParser) -> None:
    arguments.add_model(parser)
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def main(given: argparse.Namespace) -> int:
    """Shows the report of a session; with --strict, says too whether the model loads whole (1 if not)."""
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
        _show(report)
        if given.strict:
            print(f"\nstrict: {'loads as one program' if refusal is None else refusal}")
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
    from rich.console import Console
    from rich.table import Table

    from ..provider.render import summary

    out = Console(highlight=False, soft_wrap=False)
    nodes = Table("graph", "#", "op", "name", "where", "region", "reason", box=None, pad_edge=False)
    for n in report.nodes:
        nodes.add_row(n.graph or "main", str(n.index), n.op, n.name, n.where, n.region or "", n.reason or "")
    out.print(nodes, markup=False)
    regions = Table("region", "where", "nodes", "MIL ops", "MACs", "engine, estimated", box=None, pad_edge=False)
    for r in report.regions:
        estimate = f"{r.engine_estimate_us / 1e3:.2f} ms"
        regions.add_row(r.name, r.where, str(r.nodes), str(r.mil_ops), f"{r.macs:,}", estimate)
    if report.regions:
        out.print()
        out.print(regions, markup=False)
    out.print(f"\n{summary(report)}", markup=False, soft_wrap=True)
    for warning in report.warnings:
        out.print(warning, markup=False, soft_wrap=True)
