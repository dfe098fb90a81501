"""Random graphs against brute force: what a partition promises, checked from the definition."""

import random
import time
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.partitioner import Node, Partition, partition, split


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Node], list[str]]:
    size = draw(st.integers(1, 14))
    status = st.sampled_from(["engine", "engine", "engine", "free", "cpu"])
    nodes: list[Node] = []
    values = ["x"]
    for i in range(size):
        inputs = tuple(draw(st.lists(st.sampled_from(values), min_size=0, max_size=3)))
        outputs = tuple(f"v{i}_{k}" for k in range(draw(st.integers(1, 2))))
        nodes.append(Node(i, inputs, outputs, draw(status), draw(st.integers(0, 3)), draw(st.booleans())))
        values += outputs
    outputs_of_graph = draw(st.lists(st.sampled_from(values), max_size=3, unique=True))
    return draw(st.permutations(nodes)), outputs_of_graph


def edges(nodes: Sequence[Node]) -> set[tuple[int, int]]:
    producer = {name: n.id for n in nodes for name in n.outputs}
    return {(producer[name], n.id) for n in nodes for name in n.inputs if name in producer}


def has_cycle(points: Iterable[object], arrows: set[tuple[object, object]]) -> bool:
    left = set(points)
    while left:
        sources = {p for p in left if not any(b == p and a in left for a, b in arrows)}
        if not sources:
            return True
        left -= sources
    return False


def contracted(
    nodes: Sequence[Node], groups: Iterable[Iterable[int]]
) -> tuple[set[object], set[tuple[object, object]]]:
    name: dict[int, object] = {n.id: n.id for n in nodes}
    for k, group in enumerate(groups):
        name |= dict.fromkeys(group, f"group {k}")
    arrows = {(name[a], name[b]) for a, b in edges(nodes) if name[a] != name[b]}
    return set(name.values()), arrows


def check(nodes: Sequence[Node], graph_outputs: Sequence[str], result: Partition) -> None:
    by_id = {n.id: n for n in nodes}
    groups = [set(r.nodes) for r in result.regions]
    everyone = [i for g in groups for i in g]
    assert len(everyone) == len(set(everyone))
    assert all(by_id[i].status != "cpu" for i in everyone)

    # Every engine node is in a region, or has a reason; nobody has both.
    engine = {n.id for n in nodes if n.status == "engine"}
    assert engine - set(everyone) == set(result.released)

    # Convex and free of cycles between groups: contracting all of them leaves a DAG (a path out and back would be a
    # cycle).
    assert not has_cycle(*contracted(nodes, groups))

    arrows = edges(nodes)
    readers = {n.id: {b for a, b in arrows if a == n.id} for n in nodes}
    for region, group in zip(result.regions, groups, strict=True):
        # Connected.
        seen, todo = set(), [next(iter(group))]
        while todo:
            i = todo.pop()
            if i not in seen:
                seen.add(i)
                todo += [b for a, b in arrows if a == i and b in group] + [
                    a for a, b in arrows if b == i and a in group
                ]
        assert seen == group
        # Free members are read inside only; no region lives of them alone; the boundary is right.
        for i in group:
            if by_id[i].status == "free":
                assert readers[i] <= group
                assert readers[i]
                assert not set(by_id[i].outputs) & set(graph_outputs)
        assert any(by_id[i].status == "engine" for i in group)
        inside = {name for i in group for name in by_id[i].outputs}
        assert set(region.inputs) == {name for i in group for name in by_id[i].inputs} - inside
        outside = {name for n in nodes if n.id not in group for name in n.inputs} | set(graph_outputs)
        assert set(region.outputs) == inside & outside

    # Maximal: two neighbours joined into one would make a cycle.
    home = {i: k for k, g in enumerate(groups) for i in g}
    for a, b in {(home[a], home[b]) for a, b in arrows if a in home and b in home and home[a] != home[b]}:
        joined = [g for k, g in enumerate(groups) if k not in (a, b)] + [groups[a] | groups[b]]
        assert has_cycle(*contracted(nodes, joined)), f"regions {a} and {b} could be one"

    # A free node stays outside only if it is read in two places.
    for n in nodes:
        if n.status == "free" and n.id not in home and readers[n.id] and not set(n.outputs) & set(graph_outputs):
            places = {home.get(r, -1) for r in readers[n.id]}
            assert len(places) > 1 or places == {-1}


@settings(max_examples=400, deadline=None)
@given(graphs())
def test_what_a_partition_promises(graph: tuple[list[Node], list[str]]) -> None:
    nodes, outputs = graph
    result = partition(nodes, outputs, keep_layout=True)
    assert not result.released
    check(nodes, outputs, result)
    assert partition(nodes, outputs, keep_layout=True) == result
    status = {n.id: n.status for n in nodes}
    shuffled = partition(nodes[::-1], outputs, keep_layout=True)
    assert sum(status[i] == "engine" for r in shuffled.regions for i in r.nodes) == sum(
        n.status == "engine" for n in nodes
    )


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(0, 3))
def test_released_nodes_have_reasons(graph: tuple[list[Node], list[str]], min_nodes: int) -> None:
    nodes, outputs = graph
    result = partition(nodes, outputs, min_nodes)
    check(nodes, outputs, result)
    by_id = {n.id: n for n in nodes}
    for region in result.regions:
        engine = [by_id[i] for i in region.nodes if by_id[i].status == "engine"]
        assert len(engine) >= min_nodes
        assert not all(n.layout for n in engine)


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_a_split_region_stands_beside_the_others(graph: tuple[list[Node], list[str]]) -> None:
    nodes, outputs = graph
    result = partition(nodes, outputs, keep_layout=True)
    for region in result.regions:
        parts = split(nodes, outputs, region)
        assert all(set(p.nodes) < set(region.nodes) for p in parts)
        others = [r.nodes for r in result.regions if r is not region]
        together = [set(g) for g in [*others, *(p.nodes for p in parts)]]
        assert len({i for g in together for i in g}) == sum(map(len, together))
        assert not has_cycle(*contracted(nodes, together))


def _random(size: int, seed: int, cpu: float, window: int) -> list[Node]:
    draw = random.Random(seed)
    nodes = [Node(0, ("x",), ("v0",))]
    for i in range(1, size):
        inputs = tuple(f"v{draw.randrange(max(0, i - window), i)}" for _ in range(2))
        lot = draw.random()
        nodes.append(
            Node(
                i,
                inputs,
                (f"v{i}",),
                "cpu" if lot < cpu else "free" if lot < cpu + 0.05 else "engine",
                draw.randrange(9),
            )
        )
    return nodes


def _chain(size: int) -> list[Node]:
    return [Node(i, (f"v{i - 1}",), (f"v{i}",), "cpu" if i % 7 == 3 else "engine") for i in range(size)]


def _wide(size: int) -> list[Node]:
    middle = [Node(i, ("v0",), (f"v{i}",), "cpu" if i % 3 == 0 else "engine") for i in range(1, size - 1)]
    return [Node(0, ("x",), ("v0",)), *middle, Node(size - 1, tuple(f"v{i}" for i in range(1, size - 1)), ("y",))]


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(_chain(50_000), id="chain"),
        pytest.param(_wide(50_000), id="wide"),
        pytest.param(_random(50_000, 1, 0.02, 100), id="random, local"),
        pytest.param(_random(50_000, 2, 0.3, 50_000), id="random, global"),
    ],
)
def test_fifty_thousand_nodes_take_seconds(nodes: list[Node]) -> None:
    start = time.perf_counter()
    result = partition(nodes, [nodes[-1].outputs[0]])
    assert time.perf_counter() - start < 20  # 0.3 to 3 s on one core of a laptop; the rest is for a loaded CI machine
    assert sum(n.status == "engine" for n in nodes) <= sum(len(r.nodes) for r in result.regions)
