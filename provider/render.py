"""A report as text and as HTML. Nothing is computed here but sums for display."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .reports import NodeReport, Report


def text(report: Report) -> str:
    """A summary in lines: what runs where, each region, and the reasons with the nodes that they keep on the CPU."""
    lines = [summary(report)]
    if report.regions:
        lines += [
            "",
            *_table(["region", "where", "nodes", "MIL ops", "MACs", "runs", "engine, estimated"], _regions(report)),
        ]
    if report.blocks:
        lines += ["", "blocks: " + ", ".join(f"{count} {name}" for name, count in report.blocks.items())]
    if report.on_cpu:
        lines += ["", *_table(["on CPU", "op", "reason"], _reasons(report.on_cpu))]
    lines += [f"\n{w}" for w in report.warnings]
    return "\n".join(lines)


def summary(report: Report) -> str:
    places = Counter(node.where for node in report.nodes)
    where = ", ".join(f"{count} nodes on {place}" for place, count in places.most_common()) or "no nodes"
    return (
        f"{report.provider} {report.version}, target {report.target} ({report.chips}): {where}; "
        f"{len(report.regions)} region{'s' if len(report.regions) != 1 else ''} with {report.mac_share:.1%} of the "
        "multiply-adds"
    )


def html(report: Report) -> str:
    """Tables without style or script of their own."""
    parts = [f"<p>{escape(summary(report))}</p>"]
    if report.regions:
        header = ["region", "where", "nodes", "MIL ops", "MACs", "runs", "engine, estimated"]
        parts.append(_html_table(header, _regions(report)))
    rows = [
        [n.graph or "main", str(n.index), n.op, n.name, n.where, n.region or "", n.reason or ""] for n in report.nodes
    ]
    parts.append(_html_table(["graph", "#", "op", "name", "where", "region", "reason"], rows))
    parts += [f"<p>{escape(w)}</p>" for w in report.warnings]
    return "\n".join(parts)


def _regions(report: Report) -> list[list[str]]:
    return [
        [
            r.name,
            r.where,
            str(r.nodes),
            str(r.mil_ops),
            f"{r.macs:,}",
            str(r.runs),
            f"{r.engine_estimate_us / 1e3:.2f} ms",
        ]
        for r in report.regions
    ]


def _reasons(nodes: Iterable[NodeReport]) -> list[list[str]]:
    counts = Counter((n.op, n.reason or "") for n in nodes)
    return [[str(count), op, reason] for (op, reason), count in counts.most_common()]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in [header, *rows]]


def _html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(header, "th") + "".join(line(row, "td") for row in rows) + "</table>"
