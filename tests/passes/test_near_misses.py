"""Where a rule nearly fires, it says which condition failed and which nodes are meant; each condition stands here once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from programs import R, built

from aneforge import ops, passes
from aneforge.ir import Notes, Op, Program, Replacement, Uses, const, input, miss, origin, recognize, rewrite, rule

ROOT, K = 1 / math.sqrt(2), math.sqrt(2 / math.pi)


def weight(*shape):
    return R.standard_normal(shape)


def half_erf(x, factor=ROOT, half=0.5, other=None):
    return ops.mul(ops.mul(x if other is None else other, ops.add(ops.erf(ops.mul(x, factor)), 1.0)), half)


CASES = {
    "silu: the sigmoid has another reader": (lambda x: (ops.mul(s := ops.sigmoid(x), x), ops.exp(s)), [(3, 8)]),
    "mish: the tanh has another reader": (
        lambda x: (ops.mul(x, t := ops.tanh(ops.softplus_safe(x))), ops.exp(t)),
        [(3, 8)],
    ),
    "hardswish: the gate is not shifted by 3": (
        lambda x: ops.mul(x, ops.real_div(ops.relu6(ops.add(x, 2.0)), 6.0)),
        [(3, 8)],
    ),
    "hardswish: the gate and the constants are not those of a sixth": (
        lambda x: ops.mul(x, ops.real_div(ops.relu6(ops.add(x, 3.0)), 5.0)),
        [(3, 8)],
    ),
    "hardswish: a factor is computed": (
        lambda x, y: ops.mul(y, ops.mul(x, ops.relu6(ops.add(x, 3.0)))),
        [(3, 8), (3, 8)],
    ),
    "hardsigmoid: the gate is not divided by 6": (
        lambda x: ops.real_div(ops.relu6(ops.add(x, 3.0)), 5.0),
        [(3, 8)],
    ),
    "moments-norm: the variance is not that of x around this mean": (
        lambda x, y: ops.sub(
            ops.mul(
                x,
                inverse := ops.rsqrt(
                    ops.add(ops.reduce_mean_wide(ops.mul(d := ops.sub(y, ops.reduce_mean_wide(y, -1)), d), -1), 1e-3)
                ),
            ),
            ops.mul(ops.reduce_mean_wide(x, -1), inverse),
        ),
        [(3, 32), (3, 32)],
    ),
    "scale-before-matmul: what is scaled or shifted has another reader": (
        lambda x: (ops.matmul(y := ops.mul(x, weight(6)), weight(6, 5)), ops.exp(y)),
        [(3, 6)],
    ),
    "scale-before-matmul: the constant is not one for each input": (
        lambda x: ops.matmul(ops.mul(x, weight(3, 1)), weight(6, 5)),
        [(3, 6)],
    ),
    "shift-before-matmul: the bias would be large beside what it is added to": (
        lambda x: ops.matmul(ops.add(x, np.full(6, 100.0)), np.ones((6, 5))),
        [(3, 6)],
    ),
    "bias-of-sum: a biased product has another reader": (
        lambda x: (
            ops.add(
                y := ops.conv_bias(x, weight(4, 3, 1, 1), weight(4)), ops.conv_bias(x, weight(4, 3, 1, 1), weight(4))
            ),
            ops.exp(y),
        ),
        [(1, 3, 6, 6)],
    ),
    "flatten-order: what is flattened has another reader": (
        lambda x: (
            ops.matmul(y := ops.reshape(ops.transpose(x, (0, 2, 3, 1)), (2, 60)), weight(60, 7)),
            ops.exp(y),
        ),
        [(2, 3, 4, 5)],
    ),
    "view-between: the inner change of shape has another reader": (
        lambda x: (ops.reshape(ops.exp(y := ops.reshape(x, (4, 3))), (3, 4)), ops.abs(y)),
        [(3, 4)],
    ),
    "gelu: the argument of erf has other coefficients": (lambda x: half_erf(x, 0.9), [(3, 8)]),
    "gelu: the constants do not multiply to a half": (lambda x: half_erf(x, half=0.6), [(3, 8)]),
    "gelu: a factor is computed at run time": (
        lambda x, y: ops.mul(ops.mul(x, ops.add(ops.erf(ops.mul(x, ROOT)), 1.0)), y),
        [(3, 8), (3, 8)],
    ),
    "gelu-tanh: the argument of tanh has other coefficients": (
        lambda x: ops.mul(ops.mul(x, 0.5), ops.add(ops.tanh(ops.mul(ops.add(x, ops.pow(x, 3.0)), K)), 1.0)),
        [(3, 8)],
    ),
    "log-softmax: the logarithm has an epsilon": (lambda x: ops.log(ops.softmax(x, 1), 1e-3), [(3, 40)]),
    "unit-variance: what is divided is not what is squared": (
        lambda x, y: ops.real_div(x, ops.sqrt(ops.add(ops.reduce_mean_wide(ops.mul(y, y), -1), 1e-5))),
        [(3, 32), (3, 32)],
    ),
    "affine-norm: the gain is computed at run time": (
        lambda x, g: ops.mul(x, ops.mul(ops.rsqrt(ops.add(ops.reduce_mean_wide(ops.mul(x, x), -1), 1e-3)), g)),
        [(3, 32), (3, 32)],
    ),
    "scale-into-weight: the product has another reader": (
        lambda x: (ops.mul(y := ops.conv(x, weight(4, 3, 3, 3)), weight(4, 1, 1)), ops.exp(y)),
        [(1, 3, 6, 6)],
    ),
    "scale-into-weight: the factor is not one for each output": (
        lambda x: ops.mul(ops.conv(x, weight(4, 3, 3, 3)), weight(4, 4)),
        [(1, 3, 6, 6)],
    ),
    "scale-into-weight: fp16 would not hold the scaled weight as well": (
        lambda x: ops.mul(ops.conv(x, np.ones((4, 3, 1, 1))), 1e7),
        [(1, 3, 6, 6)],
    ),
    "scale-into-weight: the product is halved so that it stays below 32752 (Q04)": (
        lambda x: ops.select_axis(x, 1, np.array([5, 3])),
        [(1, 64)],
    ),
    "scale-into-weight: the weight is computed at run time": (
        lambda x, y: ops.mul(ops.matmul(x, y), 0.25),
        [(3, 4), (4, 3)],
    ),
    "scale-before-bias: the product, or its sum with the bias, has another reader": (
        lambda x: (ops.mul(y := ops.conv_bias(x, weight(4, 3, 1, 1), weight(4)), weight(4, 1, 1)), ops.exp(y)),
        [(1, 3, 6, 6)],
    ),
    "scale-before-conv: what is scaled has another reader": (
        lambda x: (ops.conv(y := ops.mul(x, weight(3, 1, 1)), weight(4, 3, 3, 3)), ops.exp(y)),
        [(1, 3, 6, 6)],
    ),
    "scale-before-conv: the factor is not one for each channel": (
        lambda x: ops.conv(ops.mul(x, weight(6, 6)), weight(4, 3, 3, 3)),
        [(1, 3, 6, 6)],
    ),
    "shift-before-conv: the convolution pads with zeros, which the shift does not reach": (
        lambda x: ops.conv(ops.add(x, weight(3, 1, 1)), weight(4, 3, 3, 3), pad=1),
        [(1, 3, 6, 6)],
    ),
    "shift-before-conv: what is shifted has another reader": (
        lambda x: (ops.conv(y := ops.add(x, weight(3, 1, 1)), weight(4, 3, 3, 3)), ops.exp(y)),
        [(1, 3, 6, 6)],
    ),
    "batch-norm: a parameter is computed at run time": (
        lambda x, m: ops.batch_norm(x, m, np.ones(3)),
        [(1, 3, 6, 6), (3,)],
    ),
    "pad-into-conv: what is padded around is not zeros": (
        lambda x: ops.conv(ops.pad(x, (1, 1, 1, 1), "constant", 1.0), weight(4, 3, 3, 3)),
        [(1, 3, 6, 6)],
    ),
    "pad-into-conv: the padding reaches the batch or the channels": (
        lambda x: ops.conv(ops.pad(x, (0, 0, 0, 1, 0, 0, 0, 0)), weight(4, 4, 3, 3)),
        [(1, 3, 6, 6)],
    ),
    "concat-chain: the inner concat has another reader": (
        lambda x, y: (ops.concat((c := ops.concat((x, y), 0), ops.relu(x)), 0), ops.exp(c)),
        [(3, 4), (2, 4)],
    ),
    "concat-chain: two constants in one concat do not always compile (Q32)": (
        lambda x: ops.concat((ops.concat((const(np.zeros((1, 4))), x), 0), const(np.ones((1, 4)))), 0),
        [(3, 4)],
    ),
    "split-concat: not all pieces of the split, in their order": (
        lambda x: ops.concat(ops.split(x, num_splits=2, axis=1)[::-1], 1),
        [(3, 4)],
    ),
    "scalar-constant: the engine drops a scalar factor after a rounding (Q15)": (
        lambda x: ops.mul(ops.floor(x), np.full((3, 4), 2.5)),
        [(3, 4)],
    ),
    "divide-by-power: the engine drops a scalar factor after a rounding (Q15)": (
        lambda x: ops.real_div(ops.floor(x), 8.0),
        [(3, 4)],
    ),
    "constant-chain: the inner result has another reader": (
        lambda x: (ops.mul(y := ops.mul(x, 3.0), 0.5), ops.exp(y)),
        [(3, 4)],
    ),
    "constant-chain: fp16 does not hold the combined constant well": (
        lambda x: ops.mul(ops.mul(x, 1e-5), 1e-5),
        [(3, 4)],
    ),
    "constant-chain: the combined constant would be larger": (
        lambda x: ops.mul(ops.mul(x, weight(3, 1)), weight(4)),
        [(3, 4)],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_condition(case):
    name, _, condition = case.partition(": ")
    build, shapes = CASES[case]
    notes = Notes()
    _, fired = passes.optimize(built(build, *shapes), notes=notes)
    assert name not in {r.name for r, _ in fired}
    found = [near for near in notes.near if near.rule.name == name and near.condition == condition]
    assert [near.origin for near in found] == [{"node"}]


def test_without_a_near_miss_there_is_nothing_to_say():
    notes = Notes()
    passes.optimize(built(lambda x: ops.add(half_erf(x), ops.mul(ops.sigmoid(x), 2.0)), (3, 8)), notes=notes)
    assert notes.near == []


def test_what_fires_in_the_end_is_no_near_miss():
    """Before the outer product is seen, the inner one lacks its half."""
    notes = Notes()
    _, fired = passes.optimize(built(half_erf, (3, 8)), notes=notes)
    assert [r.name for r, _ in fired] == ["gelu"]
    assert notes.near == []


# ---------------------------------------------------------------- the mechanism


@rule("picky", "relu", "…")
def picky(op: Op, uses: Uses) -> Replacement:
    x = op.operand("x")
    if x.op.kind == "exp":
        return miss("above an exp", x)
    return recognize(x) if x.op.kind == "tanh" else None


def named(*kinds: str) -> Program:
    x = y = input("x", (2,))
    for kind in kinds:
        with origin(kind):
            y = getattr(ops, kind)(y)
    return Program([("x", x)], [("y", y)])


def test_nodes_of_both():
    notes = Notes()
    rewrite(named("sigmoid", "exp", "relu"), [picky], notes)
    assert [(n.rule.name, n.condition, n.origin) for n in notes.near] == [("picky", "above an exp", {"exp", "relu"})]
    assert notes.blocks == []


def test_blocks():
    notes = Notes()
    rewrite(named("tanh", "relu"), [picky], notes)
    assert [(r.name, marks) for r, marks in notes.blocks] == [("picky", {"tanh", "relu"})]
    assert notes.near == []


def test_said_to_nobody():
    assert miss("nobody asked") is None
    assert recognize() is None
    rewrite(named("exp", "relu"), [picky])
    notes = Notes()
    rewrite(named("exp"), [picky], notes)
    assert notes.near == []
