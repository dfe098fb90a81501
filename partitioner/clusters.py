"""The first half of the work: roles, phases, and the free nodes.

Phases. Give every node a number: a CPU node gets the largest number among its predecessors; an engine node the largest
among its engine predecessors and (CPU predecessors + 1). Numbers never fall along an edge and rise from CPU to
engine, so a path that leaves the engine and comes back has a higher number at its end: engine nodes of one number
form a convex set, and so does each of its connected parts. That is linear, and does nearly all the work; what can
still be joined (a branch that started early because it could) is joined by merge.py.

Free nodes. Their values are known, so nobody runs them, but the runtime sees their edges: a path over one that stays
outside leaves the region. A free node belongs where all its readers are, and putting it there never hurts: a path that
came back through it would have come back to the reader before. So a free node whose readers are one node is taken as a
part of that node. The rest ("contended") are tried as engine nodes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .graph import Graph
from .merge import join

CPU, FREE, ENGINE = 0, 1, 2


@dataclass
class Roles:
    """What each node is taken for; falls to CPU when a node is released, or when a free node finds no place.

    Attributes:
        kind: CPU, FREE or ENGINE for each position.
        home: of an inner node itself, of a free node the node that it is a part of (itself if contended); else -1.
        expelled: free nodes that count as CPU, because their readers are in different places.
    """

    kind: list[int]
    home: list[int] = field(default_factory=list)
    expelled: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, graph: Graph) -> Roles:
        return cls([{"engine": ENGINE, "free": FREE, "cpu": CPU}[node.status] for node in graph.nodes])

    def contended(self) -> list[int]:
        return [i for i, kind in enumerate(self.kind) if kind == FREE and self.home[i] == i]

    def expel(self, nodes: Iterable[int]) -> None:
        for i in nodes:
            self.kind[i] = CPU
            self.expelled.add(i)


def _find_homes(graph: Graph, roles: Roles) -> None:
    below_engine = [False] * len(graph.nodes)
    for i in graph.order:
        below_engine[i] = any(roles.kind[p] == ENGINE or below_engine[p] for p in graph.preds[i])
    home = roles.home = [-1] * len(graph.nodes)
    for i in reversed(graph.order):
        if roles.kind[i] == ENGINE:
            home[i] = i
        elif roles.kind[i] == FREE and graph.succs[i] and not graph.leaves(i):
            homes = {home[s] for s in graph.succs[i]}
            if len(homes) == 1:
                home[i] = homes.pop()
            elif -1 not in homes and below_engine[i]:
                home[i] = i
            # else: nothing on the engine comes before it, so it is in nobody's way; it gets its place at the end.


def cluster(graph: Graph, roles: Roles) -> list[int]:
    """A region number for each position (-1 for none), free nodes not yet settled. Fills `roles.home`."""
    _find_homes(graph, roles)
    home, size = roles.home, len(graph.nodes)
    inside = [home[i] == i for i in range(size)]  # engine nodes and contended free ones stand for themselves

    # Edges between representatives: an outsider stands for itself, a free node at home is a part of its home.
    preds: list[set[int]] = [set() for _ in range(size)]
    for i in graph.order:
        me = home[i] if home[i] >= 0 else i
        for p in graph.preds[i]:
            other = home[p] if home[p] >= 0 else p
            if other != me:
                preds[me].add(other)

    phase = [-1] * size
    parts = _Parts(size)
    for i in graph.order:
        if inside[i]:
            phase[i] = max((phase[p] if inside[p] else phase[p] + 1 for p in preds[i]), default=0)
            for p in preds[i]:
                if inside[p] and phase[p] == phase[i]:
                    parts.unite(p, i)
        elif home[i] < 0:
            phase[i] = max((phase[p] for p in preds[i]), default=-1)

    label = join(graph, [parts.find(i) if inside[i] else -1 for i in range(size)], preds)
    return [label[home[i]] if home[i] >= 0 else -1 for i in range(size)]


def homeless(graph: Graph, roles: Roles, region_of: list[int]) -> list[int]:
    """Puts every free node where all its readers are, in place.

    Returns the contended nodes whose readers are in different places: the caller must expel them and cluster anew.
    """
    found = []
    for i in reversed(graph.order):
        if roles.kind[i] == FREE:
            region_of[i] = _place(graph, region_of, i)
            if region_of[i] < 0 and roles.home[i] == i:
                found.append(i)
    return found


def settle(graph: Graph, roles: Roles, region_of: list[int]) -> list[int]:
    """The last touches, once no free node is homeless: moving free nodes to their readers may have parted a region,
    or made neighbours of two that can be one; and then an expelled node may have all its readers in one place."""
    free = [i for i in reversed(graph.order) if roles.kind[i] == FREE or i in roles.expelled]
    _number_connected_parts(graph, roles, region_of)
    preds = [set(p) for p in graph.preds] if free else []
    while free:
        before = list(region_of)
        for i in free:
            region_of[i] = _place(graph, region_of, i)
        region_of[:] = join(graph, region_of, preds)
        if len(set(before)) == len(set(region_of)) and all(
            (a < 0) == (b < 0) for a, b in zip(before, region_of, strict=True)
        ):
            break
    return region_of


def _place(graph: Graph, region_of: list[int], free: int) -> int:
    places = {region_of[s] for s in graph.succs[free]}
    return places.pop() if len(places) == 1 and not graph.leaves(free) else -1


def _number_connected_parts(graph: Graph, roles: Roles, region_of: list[int]) -> None:
    """Moving a free node away may have taken the only link of two parts; a part without an engine node is dissolved."""
    parts = _Parts(len(region_of))
    for i in graph.order:
        if region_of[i] >= 0:
            for p in graph.preds[i]:
                if region_of[p] == region_of[i]:
                    parts.unite(p, i)
    roots = [parts.find(i) if region >= 0 else -1 for i, region in enumerate(region_of)]
    real = {root for i, root in enumerate(roots) if roles.kind[i] == ENGINE}
    region_of[:] = [root if root in real else -1 for root in roots]


class _Parts:
    """Disjoint sets of positions; a set is named by its smallest member."""

    def __init__(self, size: int) -> None:
        self.parent = list(range(size))

    def find(self, i: int) -> int:
        while self.parent[i] != i:
            self.parent[i] = self.parent[self.parent[i]]
            i = self.parent[i]
        return i

    def unite(self, a: int, b: int) -> None:
        a, b = self.find(a), self.find(b)
        self.parent[max(a, b)] = min(a, b)
