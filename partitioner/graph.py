"""The DAG: nodes, who feeds whom, and an order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Literal


@dataclass(frozen=True)
class Node:
    """One node of the graph.

    Attributes:
        id: any number, unique in the graph.
        inputs: names of the values that it reads, those that a nested graph captures included; "" is an absent one.
        outputs: names of the values that it writes; a name is written by one node only.
        status: "engine" can run on the engine; "free" has outputs that are known without running it (so it costs
        nothing
            inside a region, where nobody runs it, but its values cannot leave one); "cpu" cannot.
        macs: multiply-adds; decides ties only.
        layout: moves data or computes shapes, but does no arithmetic: not worth a region by itself.
    """

    id: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    status: Literal["engine", "free", "cpu"] = "engine"
    macs: int = 0
    layout: bool = False


class Graph:
    """Edges and a topological order of nodes given in any order. Positions are places in `nodes`."""

    def __init__(self, nodes: Sequence[Node], graph_outputs: Iterable[str]) -> None:
        self.nodes = tuple(nodes)
        self.graph_outputs = frozenset(graph_outputs)
        self.producer: dict[str, int] = {}
        for i, node in enumerate(self.nodes):
            for name in node.outputs:
                if name and self.producer.setdefault(name, i) != i:
                    first = self.nodes[self.producer[name]].id
                    raise ValueError(f"value {name!r} is written by two nodes ({first}, {node.id})")
        if len({node.id for node in self.nodes}) != len(self.nodes):
            raise ValueError("node ids must be unique")
        self.readers: dict[str, list[int]] = {}
        self.preds: list[list[int]] = []
        self.succs: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            preds = sorted({self.producer[name] for name in node.inputs if name in self.producer})
            self.preds.append(preds)
            for p in preds:
                self.succs[p].append(i)
            for name in dict.fromkeys(node.inputs):
                self.readers.setdefault(name, []).append(i)
        self.order = _topological(self.preds, self.succs)
        if len(self.order) != len(self.nodes):
            raise ValueError("the graph has a cycle")

    def leaves(self, i: int) -> bool:
        """Whether a value of node i is a graph output."""
        return any(name in self.graph_outputs for name in self.nodes[i].outputs)


def _topological(preds: list[list[int]], succs: list[list[int]]) -> list[int]:
    """The smallest position first among the ready ones: an order that was already topological is kept."""
    waiting = [len(p) for p in preds]
    ready = [i for i, n in enumerate(waiting) if n == 0]
    heapify(ready)
    order = []
    while ready:
        i = heappop(ready)
        order.append(i)
        for s in succs[i]:
            waiting[s] -= 1
            if not waiting[s]:
                heappush(ready, s)
    return order
