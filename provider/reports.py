"""Which node of a session ran where, and why: `report(session)`.

Every time carries the name of who took it: "ANE", "host emulation" or "CPU". Estimates are called estimates.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import aneforge
from aneforge.backends import native

from . import records
from .records import GraphRecord, SessionRecord

if TYPE_CHECKING:
    from aneforge.pipeline import RuleNote

SCHEMA_VERSION = 1
CPU = "CPU"


@dataclass(frozen=True)
class NodeReport:
    """One node.

    Attributes:
        graph: "" for the main graph, else the name of the body.
        where: "ANE", "host emulation" or "CPU".
        kind, reason: why, for a node on the CPU.
        macs: multiply-adds of one run.
    """

    graph: str
    index: int
    name: str
    op: str
    domain: str
    where: str
    region: str | None
    kind: str | None
    reason: str | None
    macs: int


@dataclass(frozen=True)
class WeightReport:
    """One weight. `nodes`: positions in the graph; `encoding`: "fp16" where it stayed, and then `note` says why; `error`:
    relative L2."""

    nodes: tuple[int, ...]
    shape: tuple[int, ...]
    encoding: str
    bytes_before: int
    bytes_after: int
    error: float
    note: str


@dataclass(frozen=True)
class RegionReport:
    """One region, compiled as one program.

    Attributes:
        where: who computes it.
        mil_ops: operations of the program.
        rules: rewrite rules that fired (and blocks that they know by name), and how often.
        rule_notes: on which nodes of the graph, and where a rule nearly fired, with the condition that failed.
        seconds: time of each stage of making it, on this machine's CPU.
        engine_estimate_us: estimated microseconds of one run on the target's engine; an estimate, never a measurement.
        weight_bytes, weight_bytes_before: of all constants of the program, and what they were before `compress`.
        weights: with `compress`, each weight that could have been packed.
        runs, saturated, nonfinite: runs so far; those in which finite inputs went beyond fp16's range, and those in
            which they gave infinities or NaN.
    """

    name: str
    graph: str
    where: str
    nodes: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    macs: int
    mil_ops: int
    rules: Mapping[str, int]
    rule_notes: tuple[RuleNote, ...]
    seconds: Mapping[str, float]
    engine_estimate_us: float
    details: str
    weight_bytes: int
    weight_bytes_before: int
    weights: tuple[WeightReport, ...]
    runs: int
    saturated: int
    nonfinite: int


@dataclass(frozen=True)
class Report:
    """What became of a session's nodes. `str()` is a summary; a notebook shows a table.

    Attributes:
        backend: who computes the regions, "ANE" or "host emulation".
        target, chips: what the programs were compiled for.
        seconds: time of each stage while the session was made, on this machine's CPU.
    """

    backend: str
    target: str
    chips: str
    options: Mapping[str, Any]
    nodes: tuple[NodeReport, ...]
    regions: tuple[RegionReport, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION
    provider: str = "ANEForgeProvider"
    version: str = aneforge.__version__

    @property
    def mac_share(self) -> float:
        """Share of the multiply-adds that regions do, 0 to 1; of the nodes, where no node multiplies."""
        total, inside = sum(n.macs for n in self.nodes), sum(n.macs for n in self.nodes if n.region)
        if total:
            return inside / total
        return sum(n.region is not None for n in self.nodes) / len(self.nodes) if self.nodes else 0.0

    @property
    def blocks(self) -> Mapping[str, int]:
        """Blocks of networks that were recognized in the regions, by name, and how many."""
        found: dict[str, int] = {}
        for note in (note for region in self.regions for note in region.rule_notes if note.what == "block"):
            found[note.rule] = found.get(note.rule, 0) + 1
        return found

    @property
    def on_cpu(self) -> tuple[NodeReport, ...]:
        return tuple(n for n in self.nodes if n.region is None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as in the JSON form."""
        head = {"schema_version": self.schema_version, "provider": self.provider, "version": self.version}
        summary = {
            "nodes": len(self.nodes),
            "nodes_in_regions": len(self.nodes) - len(self.on_cpu),
            "regions": len(self.regions),
            "mac_share": self.mac_share,
            "blocks": dict(self.blocks),
        }
        return {**head, "summary": summary, **asdict(self)}

    def to_json(self, indent: int | None = 1) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def to_html(self) -> str:
        from .render import html  # noqa: PLC0415 - only for those who look

        return html(self)

    _repr_html_ = to_html

    def __str__(self) -> str:
        from .render import text  # noqa: PLC0415

        return text(self)


def report(session: Any) -> Report:
    """The report of an onnxruntime.InferenceSession that has the ANEForge provider.

    Raises:
        ValueError: the session has no such provider (a session that fell back to the CPU has not, either).
    """
    module = native.load()
    ep = 0
    if "ANEForgeProvider" in session.get_providers():
        token = uuid.uuid4().hex
        session.set_ep_dynamic_options({"aneforge.token": token})
        ep = module.ep_of_token(token)
    if not ep:
        raise ValueError(
            f"the session runs without ANEForgeProvider; its providers are {', '.join(session.get_providers())}"
        )
    return build(records.of(ep, module.live_eps), module.ep_regions(ep))


def build(record: SessionRecord, counters: Iterable[Mapping[str, Any]] | None) -> Report:
    """Puts a report together.

    Args:
        counters: what the provider counts for each region that it compiled; None while the session is being made,
            when nothing is counted yet.
    """
    counted = None if counters is None else {str(row["name"]): row for row in counters}
    nodes: list[NodeReport] = []
    regions: list[RegionReport] = []
    seconds: dict[str, float] = {}
    for graph in record.graphs:
        taken = {r.name for r in graph.regions if counted is None or r.name in counted}
        nodes += _nodes(graph, record.word, taken)
        regions += [_region(graph, r, (counted or {}).get(r.name, {})) for r in graph.regions if r.name in taken]
        for stage, time in graph.seconds.items():
            seconds[stage] = seconds.get(stage, 0.0) + time
    warnings = [w for graph in record.graphs for w in graph.warnings]
    return Report(
        record.word,
        record.target,
        record.chips,
        dict(record.options),
        tuple(nodes),
        tuple(regions),
        seconds,
        tuple(warnings),
    )


def _nodes(graph: GraphRecord, word: str, taken: set[str]) -> list[NodeReport]:
    out = []
    for n in graph.nodes:
        inside = n.region in taken
        kind, reason = (None, None) if n.reason is None else (n.reason.kind, n.reason.text)
        if n.region is not None and not inside:
            kind, reason = "policy", "onnxruntime did not take the region"
        where = word if inside else CPU
        region = n.region if inside else None
        out.append(NodeReport(graph.label, n.index, n.name, n.op, n.domain, where, region, kind, reason, n.macs))
    return out


def _region(graph: GraphRecord, r: records.RegionRecord, counts: Mapping[str, Any]) -> RegionReport:
    return RegionReport(
        name=r.name,
        graph=graph.label,
        where=r.word,
        nodes=len(r.nodes),
        inputs=r.inputs,
        outputs=r.outputs,
        macs=r.macs,
        mil_ops=r.n_ops,
        rules=dict(r.fired),
        rule_notes=r.notes,
        seconds=dict(r.seconds),
        engine_estimate_us=r.estimate_us,
        details=r.describe,
        weight_bytes=r.weight_bytes[1],
        weight_bytes_before=r.weight_bytes[0],
        weights=tuple(
            WeightReport(
                tuple(sorted(i for i in w.origins if isinstance(i, int))),
                w.shape,
                w.encoding,
                w.bytes_before,
                w.bytes_after,
                w.error,
                w.note,
            )
            for w in r.weights
        ),
        runs=int(counts.get("runs", 0)),
        saturated=int(counts.get("saturated", 0)),
        nonfinite=int(counts.get("nonfinite", 0)),
    )


def write_json(made: Report, path: str) -> None:
    """Writes a report whole or not at all."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".report-", suffix=".json")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(made.to_json() + "\n")
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
