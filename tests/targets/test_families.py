"""What differs between engines: the same graph lowered for each, and every violation listed by `check`."""

import numpy as np
import pytest

import aneforge as af
from aneforge import ops, passes
from aneforge.ir import Program, input, origin
from aneforge.targets import resolve

MACS = ("m1", "m2", "m3", "m4", "m5")


def lowered(build, shape, target):
    x = input("x", shape)
    with origin("node"):
        y = build(x)
    return passes.legalize(passes.optimize(Program([("x", x)], [("y", y)]))[0], resolve(target))


def kinds(build, shape, target):
    return [op.kind for op in lowered(build, shape, target).ops if not op.is_leaf]


WEIGHT = np.ones((4, 3, 1, 14), np.float32)
# what, graph, shape, operation that only some send as it is, who
DIFFERENT = [
    ("sine", ops.sin, (2, 8), "sin", {"m3", "m4", "m5"}),
    ("cosine", ops.cos, (2, 8), "cos", {"m3", "m4", "m5"}),
    ("resize", lambda x: ops.upsample_nearest_neighbor(x, 2, 2), (1, 2, 4, 4), "upsample_nearest_neighbor", {"m2", "m3", "m4", "m5"}),
    ("turned slice", lambda x: ops.slice_by_size(x, (0, 2), (2, 3)), (2, 8), "transpose", {"m1", "m2", "m3"}),
    ("log of zero", ops.log, (2, 8), "select", {"m1"}),
]  # fmt: skip


@pytest.mark.parametrize(("what", "build", "shape", "kind", "who"), DIFFERENT, ids=[d[0] for d in DIFFERENT])
def test_workarounds_are_chosen_by_family(what, build, shape, kind, who):
    assert {mac for mac in MACS if kind in kinds(build, shape, mac)} == who


def test_a_wide_kernel_is_sent_whole_where_it_fits():
    def build(x):
        return ops.conv(x, WEIGHT, pad=(0, 0, 0, 0))

    def widths(mac):
        convs = [op for op in lowered(build, (1, 3, 8, 40), mac).ops if op.kind == "conv"]
        return [op.operand("weight").shape[3] for op in convs]

    assert widths("m5") == [14]
    assert all(width <= 13 for width in widths("m1"))


@pytest.mark.parametrize("mac", MACS)
def test_what_is_lowered_is_clean(mac):
    for _, build, shape, *_ in DIFFERENT:
        assert af.check(lowered(build, shape, mac), mac) == []


def test_a_program_for_the_least_runs_on_all():
    for _, build, shape, *_ in DIFFERENT:
        for mac in MACS:
            assert af.check(lowered(build, shape, "h13"), mac) == []


def test_every_violation_is_listed():
    x = input("x", (1, 20000))
    with origin("first"):
        y = ops.sin(x)
    with origin("second"):
        z = ops.relu(y)
    found = af.check(Program([("x", x)], [("z", z)]), "m1")
    assert [(v.op.kind, v.why.kind) for v in found] == [
        ("input", "limit"),
        ("sin", "no engine form"),
        ("relu", "limit"),
    ]
    assert "has no MIL op 'sin'" in str(found[1])
    assert "(from first)" in str(found[1])
    assert "20000" in str(found[2])
    assert af.check(Program([("x", x)], [("z", z)]), "m5") == []
    # 65536 on an M4 is a prediction: not relied upon
    assert [v.why.kind for v in af.check(Program([("x", x)], [("z", z)]), "m4")] == ["limit"] * 3


def test_graphs_by_hand_are_lowered_first():
    x = af.input((2, 8))
    assert af.check(x.sin(), "m1") == []
    assert af.check([x.sin(), x.relu()], "h18") == []
    wide = af.input((1, 20000)).relu()
    assert [v.why.kind for v in af.check(wide, "m1")] == ["limit", "limit"]
    with pytest.raises(af.OptionError, match="unknown target"):
        af.check(wide, "m9x")
    with pytest.raises(af.OptionError, match="older than H13"):
        af.check(wide, "h11")


def test_weights_of_one_program(monkeypatch):
    x = af.input((1, 64))
    y = ops.matmul(x, np.ones((64, 64), np.float32))
    target = resolve("m1")
    assert af.check(y, target) == []
    limits = type(target.limits)(**{**vars(target.limits), "program_weight_bytes": 8000})
    (found,) = af.check(y, type(target)(target.name, target.family, target.chips, limits, target.cost))
    assert found.what == "program"
    assert "weights of" in str(found)
