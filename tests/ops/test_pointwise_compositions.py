"""Compositions that compute element by element, against numpy: import errors show in fp32, unsafe forms in fp16."""

from __future__ import annotations

import math

import numpy as np
import pytest
from composed import R, check, normal
from evaluate import program, run

from aneforge import ops
from aneforge.errors import Refused
from aneforge.ir import input


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@pytest.mark.parametrize("scale", [1.0, 8.0, 1000.0])
@pytest.mark.parametrize(
    ("build", "reference"),
    [
        (ops.softplus_safe, softplus),
        (ops.mish, lambda x: x * np.tanh(softplus(x))),
        (ops.gelu_tanh, lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
        (ops.hardswish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
        (
            lambda x: ops.celu(x, 2.0),
            lambda x: np.maximum(x, 0) + np.minimum(0, 2 * (np.exp(np.minimum(x, 0) / 2) - 1)),
        ),
        (ops.selu, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))),
        (lambda x: ops.swish(x, 1.5), lambda x: x / (1 + np.exp(np.minimum(-1.5 * x, 700)))),
        (lambda x: ops.clamp(x, -1.0, 2.0), lambda x: np.clip(x, -1, 2)),
        (lambda x: ops.clamp(x, 0.0, 6.0), lambda x: np.clip(x, 0, 6)),
        (lambda x: ops.clamp(x, 2.0, -1.0), lambda x: np.minimum(np.maximum(x, 2), -1)),
        (lambda x: ops.clamp(x, None, 1.0), lambda x: np.minimum(x, 1)),
        (lambda x: ops.clamp(x, -np.inf, np.inf), lambda x: x),
        (lambda x: ops.clamp(x, 0.0), lambda x: np.maximum(x, 0)),
        (lambda x: ops.prelu_any(x, np.full(8, 0.25)), lambda x: np.where(x > 0, x, 0.25 * x)),
        (lambda x: ops.prelu_any(x, np.arange(8.0)), lambda x: np.where(x > 0, x, np.arange(8.0) * x)),
        (
            lambda x: ops.prelu_any(x, np.arange(4.0)[:, None]),
            lambda x: np.where(x > 0, x, np.arange(4.0)[:, None] * x),
        ),
    ],
)
def test_pointwise(build, reference, scale):
    check(build, reference, (3, 4, 8), values=normal(scale))


def test_relu_above_keeps_nothing_at_the_threshold():
    check(
        lambda x: ops.relu_above(x, 1.0),
        lambda x: np.where(x > 1, x, 0),
        (1000,),
        values=lambda s: R.integers(-2, 4, s),
    )


@pytest.mark.parametrize("p", [-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 1.5])
def test_power(p):
    whole = p == int(p)
    check(
        lambda x: ops.power(x, p),
        lambda x: x**p,
        (500,),
        values=lambda s: R.uniform(0.5, 2, s) * (R.choice([-1, 1], s) if whole else 1),
    )


def test_power_of_unknown_sign_is_refused():
    with pytest.raises(Refused):
        ops.power(input("x", (2,)), 9.0)


def every_finite_fp16():
    bits = np.arange(65536, dtype=np.uint16).view(np.float16)
    return bits[np.isfinite(bits)]


@pytest.mark.parametrize(
    ("build", "reference", "low", "high", "relative"),
    [
        (ops.arc_tangent, np.arctan, -65504, 65504, True),
        (ops.arc_sine, np.arcsin, -1, 1, True),
        (ops.arc_cosine, np.arccos, -1, 1, True),
        (ops.hyperbolic_sine, np.sinh, -11.75, 11.75, True),
        (ops.hyperbolic_cosine, np.cosh, -11.75, 11.75, True),
        (ops.area_sine, np.arcsinh, -65504, 65504, True),
        (ops.area_cosine, np.arccosh, 1, 65504, True),
        (ops.area_tangent, np.arctanh, -0.9995, 0.9995, True),
        (ops.tangent, np.tan, -30, 30, True),
        (ops.sine, np.sin, -700, 700, False),
        (ops.cosine, np.cos, -700, 700, False),
    ],
)
def test_elementary_functions_over_the_fp16_domain(build, reference, low, high, relative):
    """Every fp16 value of the range: in fp32 to the polynomials' error, in fp16 to a few roundings."""
    x = every_finite_fp16()
    x = x[(x >= low) & (x <= high)]
    built = program(build(input("x0", x.shape)))
    want = reference(x.astype(np.float64))
    scale = np.maximum(np.abs(want), 6.2e-5) if relative else 1.0  # below it fp16 loses digits of its own
    for numerics, tolerance in (("fp32", 2e-5), ("fp16", 5e-3)):
        got = run(built, {"x0": x}, numerics)["y0"].astype(np.float64)
        assert np.max(np.abs(got - want) / scale) < tolerance, numerics


def test_elementary_functions_at_their_ends():
    x = np.array([1, -1, 12, -12], np.float16)
    run_ = lambda build: run(program(build(input("x0", x.shape))), {"x0": x})["y0"]  # noqa: E731
    np.testing.assert_array_equal(run_(ops.area_tangent)[:2], [np.inf, -np.inf])
    np.testing.assert_array_equal(run_(ops.hyperbolic_sine)[2:], [np.inf, -np.inf])
    np.testing.assert_array_equal(run_(ops.hyperbolic_cosine)[2:], [np.inf, np.inf])


@pytest.mark.parametrize(("build", "reference"), [(ops.round_half_even, np.rint), (ops.trunc, np.trunc)])
def test_rounding_is_exact_for_every_fp16(build, reference):
    x = every_finite_fp16()
    got = run(program(build(input("x0", x.shape))), {"x0": x})["y0"]
    np.testing.assert_array_equal(got, reference(x))


@pytest.mark.parametrize("divisor", [3.0, 7.0, 10.0, -3.0, -7.0])
def test_remainders_of_whole_numbers_are_exact(divisor):
    def values(shape):
        return R.integers(-200, 201, shape)

    check(lambda x: ops.mod_floor(x, divisor), lambda x: np.mod(x, divisor), (2000,), values=values, fp32=0, fp16=0)
    check(lambda x: ops.mod_trunc(x, divisor), lambda x: np.fmod(x, divisor), (2000,), values=values, fp32=0, fp16=0)
    full = np.full((2000,), divisor)
    check(lambda x: ops.mod_floor(x, full), lambda x: np.mod(x, full), (2000,), values=values, fp32=0, fp16=0)
