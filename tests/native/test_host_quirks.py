"""Each simulated quirk, on and off: the numbers are those of the target data's sources, or follow from its `simulation` text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from milkit import Program, half

INF = np.inf


def run(kind: str, shape: tuple[int, ...], quirks: str, numerics: str = "engine", **args: Any) -> np.ndarray:
    p = Program("fp16")
    bound = {k: p.input(v) if k in ("x",) else v for k, v in args.items()}
    y = p.op(kind, shape, **bound)
    plain, fast = (p.run([y], numerics=numerics, quirks=quirks, kernels=kernels)[0] for kernels in ("plain", "fast"))
    np.testing.assert_array_equal(fast, plain)
    return plain


def test_q04_accumulators_end_at_32752() -> None:
    x = np.array([[1.0, 1.0]])
    for big, plain, engine in [(16376.0, 32752.0, 32752.0), (16384.0, 32768.0, INF), (-16384.0, -32768.0, -INF)]:
        y = np.array([[big], [big]])
        assert run("matmul", (1, 1), "Q04", x=x, y=y) == engine
        assert run("matmul", (1, 1), "Q12", x=x, y=y) == plain
        assert run("linear", (1, 1), "Q04", x=x, weight=y.T.copy()) == engine
        weight = np.array([big, big]).reshape(1, 2, 1, 1)
        assert run("conv", (1, 1, 1, 1), "Q04", x=x.reshape(1, 2, 1, 1), weight=weight) == engine
        assert run("conv", (1, 1, 1, 1), "Q04", "fp16", x=x.reshape(1, 2, 1, 1), weight=weight) != INF
        assert (
            run("conv_transpose", (1, 1, 1, 1), "Q04", x=x.reshape(1, 2, 1, 1), weight=weight.reshape(2, 1, 1, 1))
            == engine
        )


def test_q04_spares_a_single_tap_and_comes_before_the_bias() -> None:
    one = np.full((1, 1, 1, 1), 60000.0)
    assert run("conv", (1, 1, 1, 1), "Q04", x=one, weight=np.ones((1, 1, 1, 1))) == half(60000)
    assert run("matmul", (1, 1), "Q04", x=np.array([[60000.0]]), y=np.array([[1.0]])) == INF
    x = np.ones((1, 2, 1, 1))
    args = {"x": x, "weight": np.full((1, 2, 1, 1), 20000.0), "bias": np.array([-20000.0])}
    assert run("conv", (1, 1, 1, 1), "Q04", **args) == INF
    assert run("conv", (1, 1, 1, 1), "Q12", **args) == half(20000)


def test_q06_sums_round_at_every_addition() -> None:
    ones = np.ones((1, 4096))
    assert run("reduce_sum", (1, 1), "Q06", x=ones, axes=[1], keep_dims=True) == 2048
    assert run("reduce_sum", (1, 1), "Q12", x=ones, axes=[1], keep_dims=True) == 4096
    assert run("reduce_sum", (1, 1), "Q06", "fp16", x=ones, axes=[1], keep_dims=True) == 4096
    assert run("reduce_mean", (1, 1), "Q06", x=ones, axes=[1], keep_dims=True) == 0.5
    assert run("reduce_l1_norm", (1, 1), "Q06", x=-ones, axes=[1], keep_dims=True) == 2048
    assert run("reduce_sum_square", (1, 1), "Q06", x=np.full((1, 1), 256.0), axes=[1], keep_dims=True) == INF
    assert run("reduce_sum_square", (1, 1), "Q06", x=ones, axes=[1], keep_dims=True) == 2048
    x = np.random.default_rng(0).normal(size=(3, 50))
    want = np.zeros(3)
    for column in half(x).T:
        want = half(want + column)
    np.testing.assert_array_equal(run("reduce_sum", (3,), "Q06", x=x, axes=[1], keep_dims=False), want)


def test_q08_width_slices_hold_4094() -> None:
    x = np.array([[5000.0, 4094.0, 4096.0, -4096.0, 1.0]])
    by_size = {"x": x, "begin": [0, 1], "size": [1, 4]}
    np.testing.assert_array_equal(run("slice_by_size", (1, 4), "Q08", **by_size), [[4094, INF, -INF, 1]])
    np.testing.assert_array_equal(run("slice_by_size", (1, 4), "Q12", **by_size), x[:, 1:])
    np.testing.assert_array_equal(run("slice_by_size", (1, 2), "Q08", x=x, begin=[0, 0], size=[1, 2]), x[:, :2])
    np.testing.assert_array_equal(
        run("slice_by_index", (1, 3), "Q08", x=x, begin=[0, -3], end=[1, 5]), [[INF, -INF, 1]]
    )
    np.testing.assert_array_equal(run("slice_by_index", (1, 5), "Q08", x=x.repeat(2, 0), begin=[1, 0], end=[2, 5]), x)


def test_q11_nan_enters_as_infinity() -> None:
    x = np.array([np.nan, 1.0])
    np.testing.assert_array_equal(run("add", (2,), "Q11", x=x, y=0.0), [INF, 1])
    np.testing.assert_array_equal(run("add", (2,), "Q11", "fp16", x=x, y=0.0), [np.nan, 1])
    for dtype in (np.float16, np.float64):
        p = Program("fp16")
        y = p.op("relu", (2,), x=p.input(x))
        np.testing.assert_array_equal(p.run([y], feeds=[x.astype(dtype)], quirks="Q11")[0], [INF, 1])


def test_q12_no_operation_gives_nan() -> None:
    x = np.array([INF, -1.0, 4.0])
    np.testing.assert_array_equal(run("sub", (3,), "Q12", x=x, y=np.array([INF, 0.0, 0.0])), [0, -1, 4])
    np.testing.assert_array_equal(run("mul", (3,), "Q12", x=x, y=0.0), [0, 0, 0])
    np.testing.assert_array_equal(run("sqrt", (3,), "Q12", x=x), [INF, 0, 2])
    np.testing.assert_array_equal(run("log", (3,), "Q12", x=x, epsilon=0.0)[:2], [INF, 0])
    np.testing.assert_array_equal(run("rsqrt", (3,), "Q12", x=x, epsilon=0.0), [0, 0, 0.5])
    np.testing.assert_array_equal(run("softmax", (3,), "Q12", x=np.full(3, -INF), axis=0), [0, 0, 0])
    np.testing.assert_array_equal(
        run("matmul", (1, 1), "Q12", x=np.array([[INF, INF]]), y=np.array([[1.0], [-1.0]])), [[0]]
    )
    assert np.isnan(run("sqrt", (3,), "Q12", "fp16", x=x)[1])


def test_q13_log_sum_exp_without_a_shift() -> None:
    for value, want in [(7.5, 7.5 + np.log(32)), (7.75, 0.0), (12.0, 0.0)]:
        got = run("reduce_log_sum_exp", (1,), "Q13", x=np.full((1, 32), value), axes=[1], keep_dims=False)
        assert got == pytest.approx(want, abs=0.01)
        assert run("reduce_log_sum_exp", (1,), "Q12", x=np.full((1, 32), value), axes=[1], keep_dims=False) == half(
            value + np.log(32)
        )


def test_q14_and_q26_softplus_and_softsign() -> None:
    x = np.array([11.0, 11.09375, 60000.0, INF, -20.0])
    plain = half(np.logaddexp(half(x), 0))
    np.testing.assert_array_equal(run("softplus", (5,), "Q12", x=x), plain)
    np.testing.assert_array_equal(run("softplus", (5,), "Q14", x=x), [plain[0], 0, 0, 0, plain[4]])
    np.testing.assert_array_equal(run("softplus", (5,), "Q26", x=x), [*plain[:3], 0, plain[4]])
    assert run("softsign", (1,), "Q26", x=np.array([INF])) == 0
    assert run("softsign", (1,), "Q12", x=np.array([INF])) == 1


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round"])
def test_q15_a_scalar_factor_behind_a_rounding_is_lost(rounding: str) -> None:
    x = np.array([[1.25, -2.75, 3.0]])
    rounded = {"floor": np.floor, "ceil": np.ceil, "round": np.rint}[rounding](x)
    for factor, lost in [(4.0, True), (np.array([[4.0]]), True), (np.full((1, 3), 4.0), False)]:
        for swap in (False, True):
            p = Program("fp16")
            r = p.op(rounding, (1, 3), x=p.input(x))
            a, b = (factor, r) if swap else (r, factor)
            y = p.op("mul", (1, 3), x=a, y=b)
            np.testing.assert_array_equal(p.run([y], quirks="Q15")[0], rounded if lost else rounded * 4)
            np.testing.assert_array_equal(p.run([y], quirks="Q12")[0], rounded * 4)
            np.testing.assert_array_equal(p.run([y, r], quirks="Q15")[1], rounded)
    p = Program("fp16")
    r = p.op(rounding, (1, 3), x=p.input(x))
    np.testing.assert_array_equal(p.run([p.op("add", (1, 3), x=r, y=4.0)], quirks="Q15")[0], rounded + 4)


def test_q16_and_q17_round() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 1024.0, 1025.0, -2047.0, 1023.0, 2048.0, INF])
    np.testing.assert_array_equal(run("round", (11,), "Q12", x=x), np.rint(x))
    away = [1, 2, 3, -1, -3, 1024, 1025, -2047, 1023, 2048, INF]
    np.testing.assert_array_equal(run("round", (11,), "Q17", x=x), away)
    measured = [1, 2, 3, -1, -3, 1025, 1026, -2048, 1023, 2048, INF]
    np.testing.assert_array_equal(run("round", (11,), "Q16,Q17", x=x), measured)
    np.testing.assert_array_equal(run("round", (11,), "Q16", x=x), [0, 2, 2, 0, -2, *measured[5:]])


def test_q21_log_of_zero() -> None:
    np.testing.assert_array_equal(run("log", (2,), "Q21", x=np.array([0.0, 1.0]), epsilon=0.0), [-45440, 0])
    np.testing.assert_array_equal(run("log", (2,), "Q12", x=np.array([0.0, 1.0]), epsilon=0.0), [-INF, 0])


def test_q41_thresholded_relu_keeps_the_threshold() -> None:
    np.testing.assert_array_equal(
        run("thresholded_relu", (3,), "Q41", x=np.array([1.0, 0.5, 2.0]), alpha=1.0), [1, 0, 2]
    )


def test_quirks_act_in_engine_numerics_only_and_unknown_ones_are_errors() -> None:
    x = np.array([0.5])
    assert run("round", (1,), "Q17", "fp16", x=x) == 0
    assert run("round", (1,), "", x=x) == 0
    for wrong in ("Q99", "Q09", "q04"):
        with pytest.raises(ValueError, match=wrong):
            run("round", (1,), wrong, x=x)


def test_every_quirk_that_the_targets_call_simulated_is_known_here() -> None:
    from aneforge.targets import resolve  # noqa: PLC0415 - the rest of this file needs the native library only

    for name in ("m1", "m2", "m3", "m4"):
        run("relu", (1,), ",".join(resolve(name).simulated_quirks), x=np.ones(1))
