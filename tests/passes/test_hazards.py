"""On the host backend with the engine's numerics: written plainly, a program hits a quirk; legalized, it does not.

Each case fails when the simulation of the row is removed, and when the rule that works around it is.
"""

from __future__ import annotations

import numpy as np
import pytest
from programs import built

from aneforge import backends, mil, ops, passes
from aneforge.backends import native
from aneforge.errors import BackendUnavailableError
from aneforge.ir import Program, input
from aneforge.options import Options
from aneforge.targets import resolve

try:
    native.load()
except (BackendUnavailableError, ImportError, OSError):  # pragma: no cover - a checkout without the native library
    pytest.skip("the native library is not built", allow_module_level=True)

R = np.random.default_rng(2)


def execute(program: Program, target: str, *arrays: np.ndarray) -> np.ndarray:
    options = Options(backend="host", target=target)
    executable = backends.compile(mil.write(program, options.numerics), options, resolve(target))
    return executable.run([np.asarray(a, np.float32) for a in arrays])[0].astype(np.float64)


def whole(shape, most):
    return R.integers(-most, most + 1, shape).astype(np.float32)


HAZARDS = {
    "Q06": ("m1", lambda x: ops.reduce_sum(x, 1, True), np.ones((1, 4096)), lambda x: x.sum(1, keepdims=True)),
    "Q06 mean": (
        "m4",
        lambda x: ops.reduce_mean(x, 1, True),
        np.full((1, 3000), 2.0),
        lambda x: x.mean(1, keepdims=True),
    ),
    "Q08": ("m1", lambda x: ops.slice_by_size(x, (0, 2), (2, 3)), whole((2, 6), 6000) * 8, lambda x: x[:, 2:5]),
    "Q13": (
        "m4",
        lambda x: ops.reduce_log_sum_exp(x, 1, True),
        np.full((1, 32), 30.0),
        lambda x: x[:, :1] + np.log(32),
    ),
    "Q14": ("m4", ops.softplus, np.array([[-3.0, 0.0, 12.0, 60.0]]), lambda x: np.logaddexp(x, 0)),
    "Q15": ("m4", lambda x: ops.mul(ops.floor(x), 3.0), np.array([[1.5, -2.5, 7.25]]), lambda x: np.floor(x) * 3),
    "Q15 one": ("m4", lambda x: ops.mul(ops.floor(x), 3.0), np.array([[7.25]]), lambda x: np.floor(x) * 3),
    "Q16": ("m4", ops.round, np.array([[1024.0, 1025.0, -2047.0]]), np.rint),
    "Q17": ("m1", ops.round, np.array([[0.5, 1.5, 2.5, -0.5, -1.5]]), np.rint),
}


@pytest.mark.parametrize("case", HAZARDS)
def test_hazard(case):
    target, build, x, reference = HAZARDS[case]
    program = built(build, x.shape)
    want = reference(x.astype(np.float64))
    plain = execute(program, target, x)
    assert not np.allclose(plain, want, rtol=7e-4, atol=7e-3), "the quirk is not simulated"
    np.testing.assert_allclose(
        execute(passes.legalize(program, resolve(target)), target, x), want, rtol=7e-4, atol=7e-3
    )


def test_a_logsumexp_in_pieces() -> None:
    """exp overflows from 11.1 on; log(sum(exp(x))) is recognized and takes the maximum out first."""
    x = np.array([[60.0, 1.0, 30.0], [-60.0, -61.0, -62.0]], np.float32)
    tensor = input("x", x.shape)
    out = ops.log(ops.reduce_sum(ops.exp(tensor), (1,), True), 0.0)
    program, fired = passes.optimize(Program([("x", tensor)], [("y", out)]))
    assert [rule.name for rule, _ in fired] == ["logsumexp"]
    want = np.logaddexp.reduce(x.astype(np.float64), axis=1, keepdims=True)
    np.testing.assert_allclose(execute(passes.legalize(program, resolve("m4")), "m4", x), want, rtol=2e-3)


def test_sums_beyond_half_of_fp16():
    """Q04: the accumulator of products stops at 32752; sums, running sums and selections pass it."""
    x = np.full((1, 64), 1000.0)
    for build, want in (
        (lambda t: ops.reduce_sum_wide(t, 1), [[64000.0]]),
        (lambda t: ops.slice_axis(ops.running_sum(t, 1), 1, 0, 64), np.cumsum(x, 1)),
        (lambda t: ops.select_axis(ops.mul(t, 60.0), 1, np.array([5, 3])), [[60000.0, 60000.0]]),
    ):
        program = passes.legalize(built(build, x.shape), resolve("m4"))
        np.testing.assert_allclose(execute(program, "m4", x), want, rtol=2e-3)
    plain = built(lambda t: ops.matmul(t, np.ones((1, 64)), transpose_y=True), x.shape)
    assert np.isinf(execute(plain, "m4", x)).all()


def test_norms_of_large_values():
    """Q37, Q36: no square leaves fp16's range."""
    x = R.standard_normal((4, 64)) * 3000

    def standard(v):
        centred = v - v.mean(1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)

    program = passes.legalize(built(lambda t: ops.layer_norm(t, (1,)), x.shape), resolve("m1"))
    np.testing.assert_allclose(execute(program, "m1", x), standard(x.astype(np.float16).astype(float)), atol=2e-2)


@pytest.mark.parametrize("target", ["m1", "m4"])
def test_masked_rows(target):
    """Q27 with Q12: a row of nothing but masked is even, not 0 or NaN."""
    low = np.finfo(np.float32).min

    def build(x, keep):
        return ops.softmax(ops.add(ops.add(x, ops.mul(ops.sub(1.0, keep), float(low))), np.full((1, 6), low)), -1)

    program = built(build, (2, 6), (2, 6))
    legal = passes.legalize(program, resolve(target))
    got = execute(legal, target, np.zeros((2, 6)), np.zeros((2, 6)))
    np.testing.assert_allclose(got, 1 / 6, rtol=1e-3)


def test_values_at_the_ends_of_the_pointwise_functions():
    x = np.array([[-60000.0, -300.0, -11.1, -1.0, 0.0, 1.0, 5.6, 11.1, 300.0, 60000.0]])
    for build, reference in (
        (ops.softplus_safe, lambda v: np.logaddexp(v, 0)),
        (ops.mish, lambda v: v * np.tanh(np.logaddexp(v, 0))),
        (
            ops.gelu_tanh,
            lambda v: np.where(
                v > 20, v, np.where(v < -20, 0, 0.5 * v * (1 + np.tanh(0.7978845608 * (v + 0.044715 * v**3))))
            ),
        ),
        (ops.hardswish, lambda v: v * np.clip(v / 6 + 0.5, 0, 1)),
    ):
        program = passes.legalize(built(build, x.shape), resolve("m1"))
        np.testing.assert_allclose(
            execute(program, "m1", x), np.clip(reference(x), -65504, 65504), rtol=4e-3, atol=4e-3
        )


def test_epsilons_do_not_vanish():
    """1e-12 and 1e-10 are 0 in fp16; as guards they stay the least number above it, and exact in fp32."""
    zero = np.zeros((1, 4))
    for build, most in (
        (lambda t: ops.real_div(t, ops.maximum(t, 1e-12)), 0.0),
        (lambda t: ops.mul(t, ops.inverse(ops.add(ops.abs(t), 1e-10), 0.0)), 0.0),
        (lambda t: ops.log(ops.add(t, 1e-10), 0.0), 17.0),
        (lambda t: ops.log(t, 1e-10), 17.0),
    ):
        program = passes.legalize(built(build, zero.shape), resolve("m1"))
        got = execute(program, "m1", zero)
        assert (np.abs(got) <= most).all()
        exact = backends.compile(mil.write(program, "fp32"), Options(backend="host", numerics="fp32"), resolve("m1"))
        if most:
            np.testing.assert_allclose(exact.run([zero.astype(np.float32)])[0], np.log(1e-10), rtol=1e-5)
