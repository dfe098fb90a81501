"""What is remembered of each provider instance, for its report. Numbers and texts only: nothing here keeps weights or
programs alive.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aneforge.errors import Reason

if TYPE_CHECKING:  # the import of the provider stays light
    from aneforge.passes import Weight
    from aneforge.pipeline import RuleNote

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
    notes: tuple[RuleNote, ...]
    seconds: Mapping[str, float]
    estimate_us: float
    describe: str
    weight_bytes: tuple[int, int] = (0, 0)
    weights: tuple[Weight, ...] = ()


@dataclass(frozen=True)
class GraphRecord:
    """What became of one graph: the main one (`parent_op` "") or the body of a control-flow node."""

    label: str
    parent_op: str
    nodes: tuple[NodeRecord, ...]
    regions: tuple[RegionRecord, ...]
    seconds: Mapping[str, float]
    warnings: tuple[str, ...] = ()


Key = tuple[str, tuple[str, ...], int]
"""What tells a graph from others: the operator whose body it is, its outputs, and how many such came before it."""


@dataclass
class SessionRecord:
    """One provider instance. ONNX Runtime shows bodies first and the main graph last, and then begins again if it has
    inlined functions: without the graphs in which nothing is left to take, and with regions as single nodes.
    """

    ep: int
    target: str = ""
    chips: str = ""
    word: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    _found: dict[Key, GraphRecord] = field(default_factory=dict)
    _seen: set[Key] = field(default_factory=set)
    """Of this pass."""

    def key(self, parent_op: str, outputs: Sequence[str]) -> Key:
        """Of the graph that is being looked at: the same in every pass."""
        named = ("", ()) if not parent_op else (parent_op, tuple(outputs))
        return (*named, sum(key[:2] == named for key in self._seen))

    def label(self, key: Key) -> str:
        """A name for a graph, for people: "" for the main one."""
        if not key[0]:
            return ""
        known = self._found.get(key)
        return known.label if known else f"{key[0]}#{sum(other[0] == key[0] for other in self._found)}"

    def before(self, key: Key) -> GraphRecord | None:
        """What was found when the graph was looked at in an earlier pass."""
        return self._found.get(key)

    def add(self, key: Key, graph: GraphRecord) -> None:
        """The last word about a graph counts. The main graph ends a pass."""
        self._found[key] = graph
        self._seen = self._seen | {key} if key[0] else set()

    @property
    def graphs(self) -> list[GraphRecord]:
        """The main one first."""
        return sorted(self._found.values(), key=lambda graph: graph.parent_op != "")


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
