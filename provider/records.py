"""What is remembered of each provider instance, for its report. Numbers and texts only: nothing here keeps weights or
programs alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aneforge.errors import Reason

_records: dict[int, SessionRecord] = {}
_lock = threading.Lock()  # never held while anything outside this module is called


@dataclass(frozen=True)
class NodeRecord:
    """One node of a graph. `region` is its region's name, or None; then `reason` says why."""

    index: int
    name: str
    op: str
    domain: str
    macs: int
    region: str | None
    reason: Reason | None


@dataclass(frozen=True)
class RegionRecord:
    """One compiled region. `word`: who computes it. Times in seconds; the estimate is for the target's engine."""

    name: str
    word: str
    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    macs: int
    n_ops: int
    fired: Mapping[str, int]
    seconds: Mapping[str, float]
    estimate_us: float
    describe: str


@dataclass(frozen=True)
class GraphRecord:
    """What became of one graph: the main one (`parent_op` "") or the body of a control-flow node."""

    label: str
    parent_op: str
    nodes: tuple[NodeRecord, ...]
    regions: tuple[RegionRecord, ...]
    seconds: Mapping[str, float]
    warnings: tuple[str, ...] = ()


@dataclass
class SessionRecord:
    """One provider instance. ONNX Runtime shows bodies first and the main graph last, and may then begin again,
    with more functions inlined: the last word about a graph counts.
    """

    ep: int
    target: str = ""
    chips: str = ""
    word: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    bodies: list[GraphRecord] = field(default_factory=list)
    main: GraphRecord | None = None
    _pass: list[GraphRecord] = field(default_factory=list)

    def next_label(self, parent_op: str) -> str:
        """A name for the graph that is being looked at: the same in every pass."""
        if not parent_op:
            return ""
        return f"{parent_op}#{sum(graph.parent_op == parent_op for graph in self._pass)}"

    def add(self, graph: GraphRecord) -> None:
        if graph.parent_op:
            self._pass.append(graph)
            self.bodies = list(self._pass) if self.main is None else self.bodies
            return
        if self._pass:
            self.bodies, self._pass = self._pass, []
        self.main = graph

    @property
    def graphs(self) -> list[GraphRecord]:
        return ([self.main] if self.main else []) + self.bodies


def of(ep: int, live: Callable[[], list[int]]) -> SessionRecord:
    """The record of a provider instance, made if there is none; those of dead ones are dropped."""
    alive = {*live(), ep}
    with _lock:
        for dead in [number for number in _records if number not in alive]:
            del _records[dead]
        return _records.setdefault(ep, SessionRecord(ep))


def find(ep: int) -> SessionRecord | None:
    with _lock:
        return _records.get(ep)
