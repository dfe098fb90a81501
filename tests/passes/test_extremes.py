"""Constants that fp16 does not hold are refused or rewritten, never narrowed into other numbers; log(0) is -inf."""

from __future__ import annotations

import numpy as np
import pytest
from programs import M1, M4, built, feeds, kinds, legal, same
from test_hazards import execute

from aneforge import ops, passes

LOST = {
    "factor": lambda x: ops.mul(x, 1048576.0),
    "factor that vanishes": lambda x: ops.mul(x, 1e-28),
    "factors": lambda x: ops.mul(x, np.array([1.0, 2.0, 1e6, 3.0])),
    "divisor that vanishes": lambda x: ops.real_div(x, 1e-9),
    "dividend": lambda x: ops.real_div(1e6, x),
    "addend": lambda x: ops.add(x, 1e6),
    "mask without a softmax": lambda x: ops.add(x, -1e9),
    "product without a softmax": lambda x: ops.mul(x, -3.4e38),
    "subtrahend": lambda x: ops.sub(x, 70000.0),
    "exponent": lambda x: ops.pow(x, 1e5),
    "base": lambda x: ops.pow(1e6, x),
    "weights": lambda x: ops.matmul(x, np.full((3, 4), 7e4), transpose_y=True),
    "weights that vanish": lambda x: ops.matmul(x, np.full((3, 4), 1e-9), transpose_y=True),
    "filters": lambda x: ops.conv(ops.reshape(x, (1, 4, 1, 2)), np.full((2, 4, 1, 1), 1e5)),
}


@pytest.mark.parametrize("case", LOST)
def test_lost_constants_are_refused(case):
    program = built(LOST[case], (2, 4))
    with pytest.raises(passes.LegalizeError, match="fp16"):
        passes.legalize(program, M1)
    if "without" not in case:  # what may become a mask, only the whole region shows
        outputs, inputs = ([t for _, t in ports] for ports in (program.outputs, program.inputs))
        reason = passes.check_node(outputs, inputs, M1)
        assert reason is not None
        assert reason.kind == "limit"


def test_bounds_may_be_clamped():
    low = float(np.finfo(np.float32).min)
    for build in (
        lambda x: ops.clip(x, -1e9, 1e9),
        lambda x: ops.maximum(x, low),
        lambda x: ops.where(ops.greater(x, 1e6), x, -1e9),
        lambda x: ops.where(ops.less(x, 1e-9), x, 1.0),
        lambda x: ops.softmax(ops.add(x, -1e9), -1),
        lambda x: ops.softmax(ops.add(x, ops.mul(ops.sub(1.0, x), low)), -1),
    ):
        passes.legalize(built(build, (2, 4)), M1)


@pytest.mark.parametrize(
    ("build", "reference"),
    [
        (lambda x: ops.real_div(x, 1e6), lambda x: x / 1e6),
        (lambda x: ops.real_div(x, 3e-5), lambda x: x / 3e-5),
        (lambda x: ops.mul(x, 3.3e-7), lambda x: x * 3.3e-7),
        (lambda x: ops.mul(x, np.array([1e-6, 3e-6, 5e-6])), lambda x: x * np.array([1e-6, 3e-6, 5e-6])),
    ],
)
def test_factors_near_the_ends_keep_their_digits(build, reference):
    program = built(build, (2, 3))
    after = legal(program, M1)
    same(program, after, feeds(program))
    x = np.array([[1.5, 0.75, -1.25], [60000.0, 30000.0, -50000.0]])
    want = reference(x)
    keep = np.abs(want) < 6e4
    np.testing.assert_allclose(execute(after, "m1", x)[keep], want[keep], rtol=3e-3, atol=6.1e-8)


def test_log_of_zero():
    x = np.array([[0.0, 1.0, 2.0, 1e-4]])
    with np.errstate(divide="ignore"):
        want = np.log(x.astype(np.float16).astype(float))
    program = built(lambda t: ops.log(t, 0.0), x.shape)
    assert execute(program, "m1", x)[0, 0] == -45440, "the quirk is not simulated"
    np.testing.assert_allclose(execute(legal(program, M1), "m1", x), want, rtol=2e-3)
    assert kinds(legal(program, M4)) == ["log"]


@pytest.mark.parametrize(
    "build",
    [
        ops.softplus_safe,
        lambda x: ops.log(ops.add(ops.relu(x), 1e-3), 0.0),
        ops.logsumexp,
        lambda x: ops.log(ops.exp(x), 0.0),
    ],
)
def test_log_of_what_is_above_zero_stays_one_operation(build):
    assert "equal" not in kinds(legal(built(build, (2, 32)), M1))


def test_norm_of_a_small_spread_beside_a_large_mean():
    """The mean rounds to a quarter there; what is left of it after one subtraction is taken away by another."""
    x = (np.random.default_rng(5).standard_normal((4, 64)) * 0.7 + 300.1).astype(np.float16).astype(float)

    def reference(v):
        centred = v - v.mean(1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)

    def pieces(t):
        centred = ops.sub(t, ops.reduce_mean_wide(t, 1))
        return ops.real_div(centred, ops.sqrt(ops.add(ops.reduce_mean_wide(ops.mul(centred, centred), 1), 1e-5)))

    for build in (lambda t: ops.layer_norm(t, (1,)), pieces):
        program, _ = passes.optimize(built(build, x.shape))
        np.testing.assert_allclose(execute(legal(program, M1), "m1", x), reference(x), atol=1e-2)


def test_a_sum_beyond_fp16_that_is_scaled():
    x = np.full((2, 512), 15.8).astype(np.float16).astype(float)
    for build, reference in (
        (lambda t: ops.mul(ops.reduce_sum_wide(ops.mul(t, t), 1), 1 / 512), lambda v: (v * v).mean(1, keepdims=True)),
        (lambda t: ops.real_div(ops.sum_square(t, 1, False), 300.0), lambda v: (v * v).sum(1) / 300),
    ):
        program, fired = passes.optimize(built(build, x.shape), "0")
        assert "scale-of-sum" in [rule.name for rule, _ in fired]
        np.testing.assert_allclose(execute(legal(program, M1), "m1", x), reference(x), rtol=2e-3)
