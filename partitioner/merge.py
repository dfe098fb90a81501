"""The second half of the work: joining neighbouring clusters until no two of them could be one.

The graph here has one point for each cluster and one for each outside node that could lie between two clusters.
Joining u and v, u before v, is allowed exactly when no path from u to v goes through an outside node; paths through
other clusters are no hindrance, because those can be joined first: among all predecessors of v that v may be joined
with, one that precedes no other has no path to v but the direct edge.

So two bit sets for each point suffice: `above`, the clusters from which it can be reached, and `barred`, those from
which it can be reached through an outside node. Points are looked at in topological order, and each is joined with
its predecessors as long as one can be. Both sets only grow by that (so what was refused stays refused), and the
growth is handed on only to points already looked at, and only as far as it is news.
"""

from __future__ import annotations

from collections import deque

from .graph import Graph


def join(graph: Graph, label: list[int], preds: list[set[int]]) -> list[int]:
    """Joins clusters as far as possible.

    Args:
        label: cluster number of each position, -1 for nodes outside. Contracting the clusters must leave a DAG.
        preds: predecessors of each position (only of representatives; others have none and nobody names them).

    Returns:
        The new labels.
    """
    quotient = _Quotient(graph, label, preds)
    if quotient.has_neighbours():
        quotient.join_all()
    return [quotient.name(cluster) if cluster >= 0 else -1 for cluster in label]


class _Quotient:
    def __init__(self, graph: Graph, label: list[int], preds: list[set[int]]) -> None:
        between = _between(graph, label, preds)
        points: dict[int, int] = {}  # cluster label, or ~position of an outside node -> point number

        def point(i: int) -> int:
            return points.setdefault(label[i] if label[i] >= 0 else ~i, len(points))

        edges: list[tuple[int, int]] = []
        weight: dict[int, list[int]] = {}
        for i in graph.order:
            if label[i] >= 0:
                me = point(i)
                total = weight.setdefault(me, [0, 0])
                total[0] += graph.nodes[i].macs
                total[1] += 1
            elif between[i]:
                me = point(i)
            else:
                continue
            edges += [(point(p), me) for p in preds[i] if label[p] >= 0 or between[p]]
        size = len(points)
        self.of_cluster = {key: p for key, p in points.items() if key >= 0}
        self.is_cluster = [False] * size
        for p in self.of_cluster.values():
            self.is_cluster[p] = True
        self.succ: list[set[int]] = [set() for _ in range(size)]
        self.pred: list[set[int]] = [set() for _ in range(size)]
        for a, b in edges:
            if a != b:
                self.succ[a].add(b)
                self.pred[b].add(a)
        self.parent = list(range(size))
        self.seen = [False] * size
        self.mask = [0] * size  # bits of the clusters that a point stands for
        self.above = [0] * size
        self.barred = [0] * size
        self.weight = weight

    def has_neighbours(self) -> bool:
        return any(self.is_cluster[b] for a in self.of_cluster.values() for b in self.succ[a])

    def name(self, cluster: int) -> int:
        return self.find(self.of_cluster[cluster])

    def find(self, p: int) -> int:
        while self.parent[p] != p:
            self.parent[p] = self.parent[self.parent[p]]
            p = self.parent[p]
        return p

    def join_all(self) -> None:
        bit = 1
        for p in self._topological():
            # Everything before p has been looked at, nothing after it has: p collects what is known.
            self.seen[p] = True
            for q in self.pred[p]:
                above = self.above[q] | self.mask[q]
                self.above[p] |= above
                self.barred[p] |= self.barred[q] if self.is_cluster[q] else above
            if self.is_cluster[p]:
                self.mask[p], bit = bit, bit << 1
                later = p
                while (earlier := self._partner(later)) >= 0:
                    later = self._join(earlier, later)

    def _partner(self, p: int) -> int:
        """A predecessor that p may be joined with now, the heaviest if there are several; -1 if none."""
        barred = self.barred[p]
        candidates = [q for q in self.pred[p] if self.is_cluster[q] and not barred & self.mask[q]]
        if len(candidates) < 2:
            return candidates[0] if candidates else -1
        not_last = 0
        for q in candidates:
            not_last |= self.above[q]
        return max((q for q in candidates if not self.mask[q] & not_last), key=lambda q: (*self.weight[q], -q))

    def _join(self, u: int, v: int) -> int:
        if len(self.succ[u]) + len(self.pred[u]) < len(self.succ[v]) + len(self.pred[v]):
            u, v = v, u
        self.parent[v] = u
        for s in self.succ[v]:
            self.pred[s].discard(v)
            self.pred[s].add(u)
        for q in self.pred[v]:
            self.succ[q].discard(v)
            self.succ[q].add(u)
        self.succ[u] |= self.succ[v]
        self.pred[u] |= self.pred[v]
        self.succ[u] -= {u, v}
        self.pred[u] -= {u, v}
        self.succ[v], self.pred[v] = set(), set()
        self.weight[u] = [a + b for a, b in zip(self.weight[u], self.weight[v], strict=True)]
        self.mask[u] |= self.mask[v]
        self.above[u] = (self.above[u] | self.above[v]) & ~self.mask[u]
        self.barred[u] |= self.barred[v]
        self.above[v] = self.barred[v] = 0
        news = deque([u])
        while news:
            news.extend(self._hand_on(news.popleft()))
        return u

    def _hand_on(self, p: int) -> list[int]:
        """Tells the successors of p what is above them; returns those to whom it was news."""
        above = self.above[p] | self.mask[p]
        barred = self.barred[p] if self.is_cluster[p] else above
        news = []
        for s in self.succ[p]:
            if not self.seen[s]:
                continue
            a, b = self.above[s] | above, self.barred[s] | barred
            if a != self.above[s] or b != self.barred[s]:
                self.above[s], self.barred[s] = a, b
                news.append(s)
        return news

    def _topological(self) -> list[int]:
        waiting = [len(p) for p in self.pred]
        ready = deque(p for p, n in enumerate(waiting) if n == 0)
        order = []
        while ready:
            p = ready.popleft()
            order.append(p)
            for s in sorted(self.succ[p]):
                waiting[s] -= 1
                if not waiting[s]:
                    ready.append(s)
        assert len(order) == len(waiting), "clusters depend on one another in a cycle"
        return order


def _between(graph: Graph, label: list[int], preds: list[set[int]]) -> list[bool]:
    """Outside nodes with a cluster before and a cluster after: only those can bar anything."""
    after = [False] * len(label)  # some cluster comes before
    for i in graph.order:
        after[i] = any(label[p] >= 0 or after[p] for p in preds[i])
    before = [False] * len(label)  # some cluster comes after
    for i in reversed(graph.order):
        if label[i] >= 0 or before[i]:
            for p in preds[i]:
                before[p] = True
    return [label[i] < 0 and after[i] and before[i] for i in range(len(label))]
