"""Tensor, Op and Program: immutable, canonical, iterative, deterministic."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge import ops
from aneforge.ir import Op, Program, Tensor, Type, const, input, origin, replace, substitute, verify


def chain(length: int) -> Program:
    x = y = input("x", (4,))
    for i in range(length):
        y = ops.add(y, float(i % 7))
    return Program([("x", x)], [("y", y)])


def test_nothing_changes_after_construction():
    x = input("x", (2, 3))
    y = ops.relu(x)
    for thing, name in ((x, "type"), (y.op, "kind"), (y, "op")):
        with pytest.raises(AttributeError):
            setattr(thing, name, None)
    with pytest.raises(TypeError):
        y.op.inputs["x"] = x
    weights = np.ones(3, np.float32)
    held = const(weights)
    assert np.shares_memory(held.value, weights), "weights are not copied"
    assert not held.value.flags.writeable
    assert weights.flags.writeable, "the caller's array stays as it was"


def test_identity_decides_equality():
    x = input("x", (2,))
    assert ops.relu(x) != ops.relu(x)
    assert len({x, x}) == 1


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.float64(1), "fp16"),
        (np.ones(2, np.float16), "fp16"),
        (True, "bool"),
        (np.int64(3), "int32"),
        (np.uint8(3), "uint8"),
    ],
)
def test_dtype_of_constants(array, dtype):
    assert const(array).dtype == dtype
    assert const(array).value.dtype == np.asarray(array).dtype, "the precision that it came with"


def test_only_constants_have_a_value():
    with pytest.raises(ValueError, match="run time"):
        _ = input("x", (1,)).value


def test_equal_ops_are_one_and_dead_ones_are_gone():
    x = input("x", (2, 3))
    with origin("a"):
        left = ops.exp(ops.add(x, 1.0))
    with origin("b"):
        right = ops.exp(ops.add(x, 1.0))
        ops.sqrt(x)
    program = Program([("x", x)], [("y", ops.mul(left, right))])
    kinds = [op.kind for op in program.ops]
    assert sorted(kinds) == ["add", "const", "exp", "input", "mul"]
    exp = next(op for op in program.ops if op.kind == "exp")
    assert program.origins(exp) == {"a", "b"}
    assert exp.origin == {"a"}, "origin is no part of what an Op is"


def test_constants_are_compared_by_content_or_by_place():
    x = input("x", (3000,))
    big = np.arange(3000.0)
    y = ops.add(ops.add(x, big), big)
    assert sum(op.kind == "const" for op in Program([("x", x)], [("y", y)]).ops) == 1
    z = ops.add(ops.add(x, big), big.copy())
    assert sum(op.kind == "const" for op in Program([("x", x)], [("y", z)]).ops) == 2
    small = ops.add(ops.add(x, np.float32(2)), np.float32(2))
    assert sum(op.kind == "const" for op in Program([("x", x)], [("y", small)]).ops) == 1
    signs = ops.concat((ops.add(x, 0.0), ops.add(x, -0.0)), 0)
    assert sum(op.kind == "const" for op in Program([("x", x)], [("y", signs)]).ops) == 2


def test_parameters_tell_ops_apart():
    x = input("x", (2, 3))
    parts = (ops.clip(x, 0.0, 1.0), ops.clip(x, -0.0, 1.0), ops.softmax(x, 0), ops.softmax(x, 1))
    assert (
        sum(
            op.kind in ("clip", "softmax")
            for op in Program([("x", x)], [(f"y{i}", p) for i, p in enumerate(parts)]).ops
        )
        == 4
    )


def test_bad_ports():
    x, other = input("x", (2,)), input("z", (2,))
    with pytest.raises(ValueError, match="'z' is needed but not listed"):
        Program([("x", x)], [("y", ops.add(x, other))])
    with pytest.raises(ValueError, match="twice"):
        Program([("x", x), ("x", other)], [("y", ops.add(x, other))])
    with pytest.raises(ValueError, match="needs an output"):
        Program([("x", x)], [])
    with pytest.raises(ValueError, match=r"use Program\.cut"):
        Program([("x", ops.relu(x))], [("y", ops.relu(x))])


def test_idle_inputs_stay_listed():
    x, idle = input("x", (2,)), input("idle", (3,))
    program = Program([("x", x), ("idle", idle)], [("y", ops.relu(x))])
    assert [name for name, _ in program.inputs] == ["x", "idle"]
    assert program.uses(idle) == 0


def test_long_chains_do_not_recurse():
    program = chain(50_000)
    assert len(program.ops) == 50_000 + 7 + 1
    verify(program)
    assert str(program).count("\n") == 50_000 + 7 + 1
    cut = Program.cut(program.inputs, program.outputs)
    assert len(cut.ops) == len(program.ops)


def test_construction_is_linear_and_cheap():
    """5,000 operations and their constants take 0.1 s on an idle machine; here only the order of magnitude is held."""

    def cost(length: int) -> float:
        times = []
        for _ in range(5):
            start = time.process_time()
            chain(length)
            times.append(time.process_time() - start)
        return min(times)

    assert cost(5000) < 1.0
    assert cost(20_000) < 20 * max(cost(5000), 0.01)


def test_cut_makes_inputs_of_given_tensors():
    x = input("x", (2, 3))
    with origin(1):
        middle = ops.relu(ops.exp(x))
    with origin(2):
        y = ops.mul(middle, ops.sqrt(middle))
    program = Program.cut([("m", middle)], [("y", y), ("again", middle)])
    assert [op.kind for op in program.ops] == ["input", "sqrt", "mul"]
    assert program.outputs[1][1] is program.inputs[0][1]
    assert program.origins(program.ops[1]) == {2}


def test_replace_keeps_what_does_not_depend_on_it():
    x = input("x", (2, 3))
    kept = ops.exp(x)
    old = ops.sqrt(kept)
    program = Program([("x", x)], [("y", ops.add(old, kept))])
    new = replace(program, {old: ops.abs(kept)})
    assert [op.kind for op in new.ops] == ["input", "exp", "abs", "add"]
    assert new.ops[1] is kept.op
    with pytest.raises(TypeError, match="cannot replace"):
        replace(program, {old: ops.reshape(kept, (3, 2))})


def test_substitute_of_many_outputs():
    x, z = input("x", (2,)), input("z", (2,))
    a, b = ops.exp(x), ops.relu(x)
    new_a, new_b = substitute([a, b], {x: z})
    assert new_a.op.operand("x") is z
    assert new_b.op.operand("x") is z
    assert substitute([a], {z: x}) == [a]


def test_order_depends_on_the_graph_alone():
    assert str(chain(50)) == str(chain(50))


def test_multi_result_ops():
    x = input("x", (4, 2))
    first, second = ops.split(x, num_splits=2, axis=0)
    again = ops.split(x, num_splits=2, axis=0)
    program = Program([("x", x)], [("y", ops.add(second, again[0])), ("z", first)])
    assert sum(op.kind == "split" for op in program.ops) == 1
    verify(program)


def test_verify_finds_wrong_types():
    x = input("x", (2, 3))
    wrong = Op("relu", {"x": x}, {}, (Type("fp16", (3, 2)),)).outputs[0]
    with pytest.raises(ValueError, match=r"relu.*\[3, 2\].*\[2, 3\]"):
        verify(Program([("x", x)], [("y", wrong)]))
    unknown = Op("frobnicate", {"x": x}, {}, (x.type,)).outputs[0]
    with pytest.raises(ValueError, match="no operation of this name"):
        verify(Program([("x", x)], [("y", unknown)]))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Tensor], list[Tensor]]:
    inputs = [input(f"x{i}", (2, 2)) for i in range(draw(st.integers(1, 3)))]
    pool = list(inputs)
    for node in range(draw(st.integers(1, 25))):
        with origin(node):
            pick = st.sampled_from(pool)
            kind = draw(st.sampled_from(["relu", "add", "mul", "scalar", "split"]))
            if kind == "relu":
                pool.append(ops.relu(draw(pick)))
            elif kind == "scalar":
                pool.append(ops.add(draw(pick), draw(st.sampled_from([0.0, 1.0, 2.5]))))
            elif kind == "split":
                halves = ops.split(draw(pick), num_splits=2, axis=0)
                pool.append(ops.concat(halves, 0))
            else:
                pool.append(getattr(ops, kind)(draw(pick), draw(pick)))
    outputs = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3))
    return inputs, outputs


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_canonical_form(graph):
    inputs, outputs = graph
    ports = [(f"x{i}", t) for i, t in enumerate(inputs)]
    program = Program(ports, [(f"y{i}", t) for i, t in enumerate(outputs)])
    verify(program)
    keys = {
        (op.kind, tuple(op.inputs.items()), tuple((k, repr(v)) for k, v in op.params.items())) for op in program.ops
    }
    assert len(keys) == len(program.ops), "no two ops are equal"
    needed = {t for _, t in program.outputs} | {s for op in program.ops for s in op.sources}
    assert all(any(t in needed for t in op.outputs) for op in program.ops), "no op is dead"
    assert all(program.origins(op) for op in program.ops if op.kind not in ("input", "const"))
    again = Program(program.inputs, program.outputs, program.origin_table)
    assert str(again) == str(program)
    assert again.ops == program.ops, "canonical programs are left alone"
