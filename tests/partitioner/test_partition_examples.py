"""Graphs with a known right answer, as they come from real models."""

from dataclasses import replace

import pytest

from aneforge.partitioner import Node, partition, split


def build(*rows: str, **classes: str) -> list[Node]:
    """Rows such as "c: a b" : node c reads the values of a and b. Classes: cpu="c d", free="e", layout="f"."""
    kind = {name: status for status, names in classes.items() for name in names.split()}
    nodes = []
    for i, row in enumerate(rows):
        name, _, inputs = row.partition(":")
        status = kind.get(name, "engine")
        nodes.append(
            Node(i, tuple(inputs.split()), (name,), "engine" if status == "layout" else status, 1, status == "layout")
        )  # type: ignore[arg-type]
    return nodes


def regions(nodes: list[Node], *outputs: str, **options: object) -> list[str]:
    result = partition(nodes, outputs, **options)  # type: ignore[arg-type]
    return [" ".join(nodes[i].outputs[0] for i in r.nodes) for r in result.regions]


def test_a_whole_network_is_one_region() -> None:
    rows = ["a0: x"]
    for k in range(50):  # residual blocks
        rows += [f"b{k}: a{k}", f"c{k}: b{k}", f"a{k + 1}: c{k} a{k}"]
    nodes = build(*rows)
    (region,) = partition(nodes, ["a50"]).regions
    assert len(region.nodes) == len(nodes)
    assert region.inputs == ("x",)
    assert region.outputs == ("a50",)


def test_one_refused_node_in_a_residual_branch_costs_one_cut() -> None:
    nodes = build("a: x", "b: a", "c: b", "d: c", "e: d a", "f: e", "g: f", cpu="c")
    assert regions(nodes, "g") == ["a b", "d e f g"]


def test_overlapping_detours_share_a_cut() -> None:
    rows = ["a0: x"] + [f"a{i}: a{i - 1}" for i in range(1, 6)] + ["p: a1", "q: a3", "a6: a5 p q", "a7: a6"]
    assert regions(build(*rows, cpu="p q"), "a7") == ["a0 a1 a2 a3 a4 a5", "a6 a7"]


def test_a_branch_that_started_early_is_joined() -> None:
    # b could run before c (CPU, needs only the input), but nothing makes it: b and d are one region.
    assert regions(build("c: x", "b: x", "d: c b", cpu="c"), "d") == ["b d"]
    # The same where c does depend on the engine, but not on b.
    assert regions(build("a: x", "c: a", "b: y", "d: c b", cpu="c"), "d") == ["a", "b d"]


def test_two_regions_never_wait_for_each_other() -> None:
    # p -> c1 -> s and r -> c2 -> q: joining p with q and r with s would make each wait for the other.
    nodes = build("p: x", "r: x", "c1: p", "c2: r", "q: p c2", "s: r c1", cpu="c1 c2")
    result = partition(nodes, ["q", "s"])
    assert len(result.regions) == 3
    assert not result.released


def test_disconnected_branches_stay_apart() -> None:
    assert regions(build("a: x", "b: a", "c: y"), "b", "c") == ["a b", "c"]


class TestFree:
    def test_between_members_joins(self) -> None:
        nodes = build("a: x", "shape: a", "size: shape", "b: a size", "c: b", free="shape size")
        assert regions(nodes, "c") == ["a shape size b c"]

    def test_read_outside_stays_outside_and_parts_the_region(self) -> None:
        nodes = build("a: x", "shape: a", "b: a shape", "c: b shape", cpu="c", free="shape")
        assert regions(nodes, "c") == ["a", "b"]

    def test_graph_output_stays_outside(self) -> None:
        nodes = build("k: ", "a: x k", free="k")
        assert regions(nodes, "a") == ["k a"]
        assert regions(nodes, "a", "k") == ["a"]

    def test_nothing_above_it_harms_nobody(self) -> None:
        # k is read in two regions; as no engine node comes before it, it parts nothing.
        nodes = build("k: ", "a: x k", "b: a", "c: b", "d: c k", cpu="c", free="k")
        assert regions(nodes, "d") == ["a b", "d"]

    def test_shared_by_two_readers_in_one_region(self) -> None:
        nodes = build("a: x", "s: a", "b: a s", "c: x s", "d: b c", free="s")
        assert regions(nodes, "d") == ["a s b c d"]

    def test_never_alone(self) -> None:
        nodes = build("s: x", "t: s", "c: t", cpu="c", free="s t")
        assert regions(nodes, "c") == []

    def test_a_region_only_tied_by_a_value_needed_elsewhere(self) -> None:
        nodes = build("a: x", "s: a", "b: y s", "c: b", "d: c s", cpu="c", free="s")
        assert regions(nodes, "d", "a") == ["a", "b", "d"]


class TestPolicy:
    def test_layout_alone_is_released(self) -> None:
        nodes = build("t: x", "c: t", "u: c", "v: u", cpu="c", layout="t u")
        result = partition(nodes, ["v"])
        assert [nodes[i].outputs[0] for r in result.regions for i in r.nodes] == ["u", "v"]
        assert "moves data" in result.released[0]
        assert regions(nodes, "v", keep_layout=True) == ["t", "u v"]

    def test_min_nodes(self) -> None:
        nodes = build("a: x", "c: a", "d: c", "e: d", cpu="c")
        assert regions(nodes, "e", min_nodes=2) == ["d e"]
        assert "min_nodes=2" in partition(nodes, ["e"], 2).released[0]

    def test_crumbs(self) -> None:
        """Of many regions, the small ones without arithmetic are released; alone, or among few, they stay."""
        heavy = build("m0: x", "m1: m0")
        rows = ["m0: x", "m1: m0"]
        for k in range(5):
            rows += [f"c{k}: m{k + 1}", f"m{k + 2}: c{k}"]
        cpu = " ".join(f"c{k}" for k in range(5))
        light = [replace(n, macs=0) for n in build(*rows, cpu=cpu)]
        everything = ["m0 m1", "m2", "m3", "m4", "m5", "m6"]
        assert regions(light, "m6", keep_crumbs=False) == everything  # nobody multiplies
        one = [replace(n, macs=n.id == 0) for n in light]
        assert regions(one, "m6") == everything
        assert regions(one, "m6", keep_crumbs=False) == ["m0 m1"]
        assert "one of 6 regions, with 1 nodes" in partition(one, ["m6"], keep_crumbs=False).released[3]
        few = [n for n in one if n.outputs[0] not in ("c3", "m5", "c4", "m6")]
        assert regions(few, "m4", keep_crumbs=False) == everything[:4]
        assert regions(heavy, "m1", keep_crumbs=False) == ["m0 m1"]

    def test_released_nodes_no_longer_tie(self) -> None:
        # t ties nothing that computes; once it is out, a and b are still one region.
        nodes = build("a: x", "c: a", "t: c", "d: t", "b: a y", cpu="c d", layout="t")
        assert regions(nodes, "b", "d") == ["a b"]


def test_boundary_names() -> None:
    nodes = [Node(7, ("x", "", "w"), ("y", "mask")), Node(9, ("y", "w"), ("z",)), Node(11, ("mask",), ("m",), "cpu")]
    (region,) = partition(nodes, ["z", "m"]).regions
    assert region.nodes == (7, 9)
    assert region.inputs == ("x", "w")
    assert region.outputs == ("mask", "z")


def test_split_halves_the_work() -> None:
    nodes = [Node(i, (f"v{i}",), (f"v{i + 1}",), "engine", 100 if i == 0 else 10) for i in range(11)]
    (region,) = partition(nodes, ["v11"]).regions
    parts = split(nodes, ["v11"], region)
    assert [p.nodes for p in parts] == [(0,), tuple(range(1, 11))]
    assert parts[0].outputs == parts[1].inputs == ("v1",)
    assert split(nodes[:1], ["v1"], parts[0]) == ()


@pytest.mark.parametrize(
    ("nodes", "what"),
    [
        ([Node(0, ("b",), ("a",)), Node(1, ("a",), ("b",))], "cycle"),
        ([Node(0, (), ("a",)), Node(1, (), ("a",))], "two nodes"),
        ([Node(0, (), ("a",)), Node(0, (), ("b",))], "unique"),
    ],
)
def test_bad_graphs(nodes: list[Node], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        partition(nodes, [])


def test_an_empty_graph() -> None:
    assert partition([], []).regions == ()
