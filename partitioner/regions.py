"""`partition`: from a graph to regions. The two halves of the work: clusters.py (phases), merge.py (contraction)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from .clusters import CPU, ENGINE, Roles, cluster, homeless, settle
from .graph import Graph, Node

# How often free nodes are tried inside regions; afterwards all doubtful ones are taken out at once.
_ROUNDS = 6
_MANY = 4
_CRUMB = 4
"""Of more than _MANY regions, those of fewer than _CRUMB nodes are crumbs, where others hold the arithmetic."""


@dataclass(frozen=True)
class Region:
    """Nodes that run as one program.

    Attributes:
        nodes: ids, in topological order.
        inputs: names of the values read from outside (graph inputs and constants among them), in order of first use.
        outputs: names of the values that somebody outside reads or that the graph returns.
        macs: multiply-adds of all members.
    """

    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    macs: int = 0


@dataclass(frozen=True)
class Partition:
    """regions: in topological order of their first nodes. released: engine node id -> why it is in no region."""

    regions: tuple[Region, ...]
    released: Mapping[int, str]


def partition(
    nodes: Sequence[Node],
    graph_outputs: Iterable[str],
    min_nodes: int = 1,
    *,
    keep_layout: bool = False,
    keep_crumbs: bool = True,
) -> Partition:
    """Groups the engine nodes of a DAG.

    Every region is convex (no path leaves it and comes back, on any edge), connected, and maximal (no two neighbours
    could be one). Regions and the remaining nodes, each region taken as one node, form a DAG. A free node is never in a
    region when somebody outside needs its values. Deterministic.

    Args:
        nodes: in any order; see `Node`.
        graph_outputs: names of the values that the graph returns.
        min_nodes: regions with fewer engine nodes are released.
        keep_layout: keep regions that move data only.
        keep_crumbs: keep regions of a few nodes without multiply-adds also where a graph falls into many regions: a
            call of the engine costs more there than the CPU, which has the neighbours, needs for the nodes.

    Raises:
        ValueError: a value with two producers, a repeated id, or a cycle.
    """
    graph = Graph(nodes, graph_outputs)
    roles = Roles.of(graph)
    released: dict[int, str] = {}
    members = _settle(graph, roles)
    # What is released no longer ties its neighbours together, so two of those left might now be one: look again.
    while unwanted := (
        _unwanted(graph, roles, members, min_nodes, keep_layout)
        or ([] if keep_crumbs else _crumbs(graph, roles, members))
    ):
        for group, why in unwanted:
            for i in group:
                if roles.kind[i] == ENGINE:
                    released[graph.nodes[i].id] = why
                    roles.kind[i] = CPU
        members = _settle(graph, roles)
    return Partition(tuple(region_from(graph, group) for group in members), released)


def split(
    nodes: Sequence[Node], graph_outputs: Iterable[str], region: Region, min_nodes: int = 1
) -> tuple[Region, ...]:
    """Cuts one region of a partition in two along its topological order, about half of the work in each.

    The parts are again convex and connected (so there may be more than two), and may stand beside the other regions of
    the same partition. Engine nodes that are in no part stay outside.
    """
    graph = Graph(nodes, graph_outputs)
    inside = set(region.nodes)
    members = [graph.nodes[i] for i in graph.order if graph.nodes[i].id in inside]
    engine = [n for n in members if n.status == "engine"]
    if len(engine) < 2:
        return ()
    weight = [n.macs for n in engine]
    if not any(weight[:-1]):
        weight = [1] * len(engine)
    cut, seen = 1, weight[0]
    while cut < len(engine) - 1 and 2 * seen < sum(weight):
        seen += weight[cut]
        cut += 1
    parts: list[Region] = []
    for half in (engine[:cut], engine[cut:]):
        # What is not in this half counts as CPU. A free node with readers in both halves then stays outside both.
        wanted = {n.id for n in half} | {n.id for n in members if n.status == "free"}
        masked = [n if n.id in wanted else replace(n, status="cpu") for n in graph.nodes]
        parts += partition(masked, graph.graph_outputs, min_nodes).regions
    return tuple(parts)


def region_from(graph: Graph, group: Sequence[int]) -> Region:
    """The region made of the nodes at these positions (in topological order): its boundary is what crosses it."""
    inside = set(group)
    inputs: dict[str, None] = {}
    outputs: dict[str, None] = {}
    for i in group:
        node = graph.nodes[i]
        for name in node.inputs:
            if name and graph.producer.get(name) not in inside:
                inputs.setdefault(name)
        for name in node.outputs:
            if name and (name in graph.graph_outputs or any(r not in inside for r in graph.readers.get(name, ()))):
                outputs.setdefault(name)
    ids = tuple(graph.nodes[i].id for i in group)
    return Region(ids, tuple(inputs), tuple(outputs), sum(graph.nodes[i].macs for i in group))


def _settle(graph: Graph, roles: Roles) -> list[list[int]]:
    """Clusters the nodes, and finds a place for the free ones. Members of each region in topological order."""
    rounds = 0
    while lost := homeless(graph, roles, region_of := cluster(graph, roles)):
        # These lie on a path from engine node to engine node, and their values are needed in two places: they stay
        # outside, and outside they are in the way like any node of the CPU.
        rounds += 1
        roles.expel(lost if rounds < _ROUNDS else roles.contended())
    settle(graph, roles, region_of)
    members: dict[int, list[int]] = {}
    for i in graph.order:
        if region_of[i] >= 0:
            members.setdefault(region_of[i], []).append(i)
    return list(members.values())


def _unwanted(
    graph: Graph, roles: Roles, members: list[list[int]], min_nodes: int, keep_layout: bool
) -> list[tuple[list[int], str]]:
    found = []
    for group in members:
        engine = [graph.nodes[i] for i in group if roles.kind[i] == ENGINE]
        if not keep_layout and all(node.layout for node in engine):
            found.append(
                (group, "only moves data or computes shapes, beside no arithmetic: not worth a call of the engine")
            )
        elif len(engine) < min_nodes:
            found.append((group, f"a region of {len(engine)} engine nodes is smaller than min_nodes={min_nodes}"))
    return found


def _crumbs(graph: Graph, roles: Roles, members: list[list[int]]) -> list[tuple[list[int], str]]:
    """Small regions without multiply-adds among many, if others have some."""
    light = [group for group in members if not any(graph.nodes[i].macs for i in group)]
    if len(members) <= _MANY or len(light) == len(members):
        return []
    sizes = [sum(roles.kind[i] == ENGINE for i in group) for group in light]
    why = f"one of {len(members)} regions, with {{}} nodes and no multiply-adds: not worth a call of the engine"
    return [(group, why.format(n)) for group, n in zip(light, sizes, strict=True) if n < _CRUMB]
