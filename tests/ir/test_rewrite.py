"""The rewrite engine: operands first, to the end, origins united, types guarded."""

from __future__ import annotations

import pytest

from aneforge import ops
from aneforge.ir import Op, Program, Replacement, RuleSet, Uses, input, origin, rewrite, rule, verify


@rule("double-relu", "relu", "relu twice is relu")
def double_relu(op: Op, uses: Uses) -> Replacement:
    below = op.operand("x")
    return below if below.op.kind == "relu" else None


@rule("exp-log", "log", "log(exp(x)) is x")
def exp_log(op: Op, uses: Uses) -> Replacement:
    below = op.operand("x").op
    return below.operand("x") if below.kind == "exp" else None


@rule("square-root", "sqrt", "sqrt to pow, for the test")
def square_root(op: Op, uses: Uses) -> Replacement:
    return ops.pow(ops.abs(op.operand("x")), 0.5)


def test_to_the_end():
    x = input("x", (2,))
    with origin("n"):
        y = ops.log(ops.exp(ops.relu(ops.relu(ops.relu(x)))))
    program, fired = rewrite(Program([("x", x)], [("y", y)]), [double_relu, exp_log])
    assert [op.kind for op in program.ops] == ["input", "relu"]
    assert sorted(r.name for r, _ in fired) == ["double-relu", "double-relu", "exp-log"]
    assert all(marks == {"n"} for _, marks in fired)


def test_origins_of_what_vanishes_go_to_what_comes():
    x = input("x", (2,))
    with origin("scale"):
        a = ops.mul(x, 2.0)
    with origin("root"):
        b = ops.sqrt(a)

    @rule("swallow", "sqrt", "takes the product below it too")
    def swallow(op: Op, uses: Uses) -> Replacement:
        below = op.operand("x").op
        return ops.exp(below.operand("x")) if below.kind == "mul" else None

    program, fired = rewrite(Program([("x", x)], [("y", b)]), [swallow])
    assert [op.kind for op in program.ops] == ["input", "exp"]
    assert program.origins(program.ops[-1]) == {"scale", "root"}
    assert fired[0][1] == {"scale", "root"}


def test_neighbours_keep_their_own_origins():
    x = input("x", (2,))
    with origin("far"):
        far = ops.relu(x)
    with origin("near"):
        near = ops.sqrt(far)
    program, _ = rewrite(Program([("x", x)], [("y", near)]), [square_root])
    by_kind = {op.kind: program.origins(op) for op in program.ops}
    assert by_kind["relu"] == {"far"}
    assert by_kind["abs"] == by_kind["pow"] == {"near"}


def test_the_earlier_rule_wins():
    x = input("x", (2,))

    @rule("first", "sqrt", "…")
    def first(op: Op, uses: Uses) -> Replacement:
        return ops.exp(op.operand("x"))

    program, fired = rewrite(Program([("x", x)], [("y", ops.sqrt(x))]), RuleSet([first, square_root]))
    assert [r.name for r, _ in fired] == ["first"]
    assert program.ops[-1].kind == "exp"


def test_uses_count_readers():
    x = input("x", (2,))
    seen = []

    @rule("look", "relu", "…")
    def look(op: Op, uses: Uses) -> Replacement:
        seen.append(uses(op.operand("x")))
        return None

    e = ops.exp(x)
    rewrite(Program([("x", x)], [("y", ops.relu(e)), ("z", e)]), [look])
    assert seen == [2]


def test_multi_result_replacement():
    x = input("x", (4,))

    @rule("split-by-slices", "split", "…")
    def by_slices(op: Op, uses: Uses) -> Replacement:
        return tuple(ops.slice_by_size(op.operand("x"), (i * 2,), (2,)) for i in range(2))

    a, b = ops.split(x, num_splits=2, axis=0)
    program, fired = rewrite(Program([("x", x)], [("y", ops.sub(b, a))]), [by_slices])
    assert len(fired) == 1
    verify(program)
    assert [op.kind for op in program.ops] == ["input", "slice_by_size", "slice_by_size", "sub"]


def test_types_are_guarded():
    x = input("x", (2, 3))

    @rule("wrong", "relu", "…")
    def wrong(op: Op, uses: Uses) -> Replacement:
        return ops.reshape(op.operand("x"), (3, 2))

    with pytest.raises(TypeError, match="'wrong'"):
        rewrite(Program([("x", x)], [("y", ops.relu(x))]), [wrong])


def test_rules_that_never_rest_are_named():
    x = input("x", (2,))

    @rule("ping", "relu", "…")
    def ping(op: Op, uses: Uses) -> Replacement:
        return ops.abs(op.operand("x"))

    @rule("pong", "abs", "…")
    def pong(op: Op, uses: Uses) -> Replacement:
        return ops.relu(op.operand("x"))

    with pytest.raises(RuntimeError, match="ping"):
        rewrite(Program([("x", x)], [("y", ops.relu(x))]), [ping, pong])


def test_long_chains():
    x = y = input("x", (2,))
    for _ in range(20_000):
        y = ops.relu(ops.exp(y))
    program, fired = rewrite(Program([("x", x)], [("y", y)]), [double_relu])
    assert not fired
    assert len(program.ops) == 40_001
