"""Host kernels against plain NumPy in float64: arithmetic, functions of one operand, comparisons, casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from milkit import MODES, In, Program, check, half

RNG = np.random.default_rng(7)
erf = np.vectorize(math.erf)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


BINARY: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "real_div": np.divide, "maximum": np.maximum, "minimum": np.minimum,
    "floor_div": lambda x, y: np.floor(np.float32(x) / np.float32(y)), "mod": np.mod, "pow": lambda x, y: np.abs(x) ** y,
}  # fmt: skip
SHAPES = [
    ((2, 3, 4), (2, 3, 4)), ((2, 3, 4), ()), ((), (5,)), ((2, 5, 3, 3), (5, 1, 1)), ((4, 7), (7,)), ((4, 1), (1, 6)),
    ((2, 1, 3, 1), (4, 1, 5)), ((1,), (1, 1)), ((70000,), (70000,)), ((300, 300), (300, 1)),
]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", BINARY)
def test_binary(kind: str, mode: str) -> None:
    for left, right in SHAPES:
        x, y = RNG.normal(size=left) * 3, RNG.normal(size=right) * 3
        if kind == "pow":
            x = np.abs(x)
        oracle = lambda x, y: BINARY[kind](x, y)  # noqa: E731
        check(mode, kind, oracle, ulp=1 if kind in ("pow", "mod") else 0, rtol=3e-6, atol=1e-6 if kind == "mod" else None,
              x=In(np.asarray(x)), y=In(np.asarray(y)))  # fmt: skip
        check(
            mode,
            kind,
            oracle,
            ulp=1 if kind in ("pow", "mod") else 0,
            atol=1e-6 if kind == "mod" else None,
            x=In(np.asarray(x)),
            y=y,
        )


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 65504.0, 6e-8, -6e-8, 2.5, -2.5, 0.5, 11.0, -20.0])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "real_div", "maximum", "minimum"])
def test_binary_special_values(kind: str, mode: str) -> None:
    x, y = (a.copy() for a in np.meshgrid(SPECIAL, SPECIAL))
    check(mode, kind, lambda x, y: BINARY[kind](x, y), ulp=0, x=In(x), y=In(y))


@pytest.mark.parametrize("mode", ["fp32", "fp16"])
def test_nan_passes_maxima_and_relu(mode: str) -> None:
    p = Program("fp32" if mode == "fp32" else "fp16")
    x, y = p.input(np.array([np.nan, 1.0, np.nan])), p.input(np.array([1.0, np.nan, np.nan]))
    outs = [p.op("maximum", (3,), x=x, y=y), p.op("minimum", (3,), x=x, y=y)]
    outs += [
        p.op("reduce_max", (1,), x=x, axes=[0], keep_dims=True),
        p.op("reduce_min", (1,), x=x, axes=[0], keep_dims=True),
    ]
    for got in p.run(outs, numerics=mode):
        assert np.isnan(got).all()
    (got,) = p.run([p.op("relu", (3,), x=x)], numerics=mode)
    assert np.isnan(got[[0, 2]]).all() and got[1] == 1


UNARY: dict[str, tuple[Callable[..., np.ndarray], dict[str, Any]]] = {
    "abs": (np.abs, {}), "square": (np.square, {}), "sqrt": (np.sqrt, {}), "exp": (np.exp, {}), "exp2": (np.exp2, {}),
    "erf": (erf, {}), "sign": (np.sign, {}), "floor": (np.floor, {}), "ceil": (np.ceil, {}), "round": (np.rint, {}),
    "sin": (np.sin, {}), "cos": (np.cos, {}), "tan": (np.tan, {}), "atan": (np.arctan, {}),
    "rsqrt": (lambda x, epsilon: 1 / np.sqrt(x + epsilon), {"epsilon": 0.0}),
    "inverse": (lambda x, epsilon: 1 / (x + epsilon), {"epsilon": 0.0}),
    "log": (lambda x, epsilon: np.log(x + epsilon), {"epsilon": 0.0}),
    "relu": (lambda x: np.maximum(x, 0), {}), "relu6": (lambda x: np.clip(x, 0, 6), {}),
    "sigmoid": (sigmoid, {}), "tanh": (np.tanh, {}), "silu": (lambda x: x * sigmoid(x), {}),
    "softsign": (lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))), {}),
    "softplus": (lambda x: np.logaddexp(x, 0), {}),
    "elu": (lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)), {"alpha": 1.5}),
    "leaky_relu": (lambda x, alpha: np.where(x >= 0, x, alpha * x), {"alpha": 0.25}),
    "threshold": (lambda x, alpha: np.maximum(x, alpha), {"alpha": 0.5}),
    "thresholded_relu": (lambda x, alpha: np.where(x >= alpha, x, 0), {"alpha": 0.5}),
    "clip": (lambda x, alpha, beta: np.clip(x, alpha, beta), {"alpha": -0.75, "beta": 1.25}),
    "clamped_relu": (lambda x, alpha, beta: np.minimum(np.where(x >= 0, x, alpha * x), beta), {"alpha": 0.125, "beta": 1.5}),
    "scaled_tanh": (lambda x, alpha, beta: alpha * np.tanh(beta * x), {"alpha": 1.75, "beta": 0.625}),
    "sigmoid_hard": (lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), {"alpha": 0.2, "beta": 0.5}),
    "linear_activation": (lambda x, alpha, beta: alpha * x + beta, {"alpha": 1.5, "beta": -0.25}),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str, mode: str) -> None:
    oracle, params = UNARY[kind]
    x = np.concatenate([SPECIAL, RNG.normal(size=5000) * 2, RNG.normal(size=300) * 0.01, np.arange(-8, 8, 0.5)])
    if kind in ("silu", "elu", "leaky_relu", "clamped_relu", "sigmoid_hard", "linear_activation"):
        x = x[np.isfinite(x)]
    if kind in ("sin", "cos", "tan"):
        x = x[np.abs(x) < 1000]
    if kind in ("log", "sqrt", "rsqrt"):
        x = np.abs(x)
    check(
        mode,
        kind,
        oracle,
        ulp=1,
        atol=3e-7 if kind in ("tan", "linear_activation", "log", "sin", "cos") else None,
        x=In(x),
        **params,
    )
    check(mode, kind, oracle, ulp=1, atol=1e-6, x=In(RNG.normal(size=(3, 1, 70, 200))) if kind not in ("log", "sqrt", "rsqrt") else
          In(RNG.uniform(0.1, 4, size=(3, 1, 70, 200))), **params)  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["gelu"])
def test_gelu(kind: str, mode: str) -> None:
    x = np.concatenate([np.linspace(-6, 6, 500), [0.0, -0.0, 60.0, -60.0]])
    forms = {
        "EXACT": lambda x, mode: 0.5 * x * (1 + erf(x / np.sqrt(2))),
        "TANH_APPROXIMATION": lambda x, mode: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        "SIGMOID_APPROXIMATION": lambda x, mode: x * sigmoid(1.702 * x),
    }
    for form, oracle in forms.items():
        check(mode, kind, oracle, atol=1e-7, x=In(x), mode=form)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
def test_prelu_has_a_slope_for_every_channel(mode: str) -> None:
    slope = np.array([0.25, -0.5, 2.0, 0.125])
    for shape in [(2, 4), (3, 4, 5), (2, 4, 3, 3), (1, 4, 2, 2, 2)]:

        def oracle(x: np.ndarray, alpha: np.ndarray) -> np.ndarray:
            return np.where(x >= 0, x, x * alpha.reshape(4, *[1] * (x.ndim - 2)))

        check(mode, "prelu", oracle, ulp=0, x=In(RNG.normal(size=shape)), alpha=slope)


@pytest.mark.parametrize("mode", MODES)
def test_comparisons(mode: str) -> None:
    table = {
        "greater": np.greater, "less": np.less, "equal": np.equal, "not_equal": np.not_equal,
        "greater_equal": np.greater_equal, "less_equal": np.less_equal,
    }  # fmt: skip
    x, y = RNG.integers(-2, 3, size=(4, 1, 6)).astype(float), RNG.integers(-2, 3, size=(5, 6)).astype(float)
    x[0, 0, :2] = np.inf
    for kind, oracle in table.items():
        check(mode, kind, lambda x, y, f=oracle: f(x, y), dtype="bool", x=In(x), y=In(y))
        check(mode, kind, lambda x, y, f=oracle: f(x, y), dtype="bool", x=In(x), y=1.0)


@pytest.mark.parametrize("mode", MODES)
def test_logic_and_select(mode: str) -> None:
    x, y = RNG.integers(0, 2, size=(4, 1, 6)).astype(bool), RNG.integers(0, 2, size=(5, 6)).astype(bool)
    for kind, oracle in (
        ("logical_and", np.logical_and),
        ("logical_or", np.logical_or),
        ("logical_xor", np.logical_xor),
    ):
        check(mode, kind, lambda x, y, f=oracle: f(x, y), dtype="bool", x=In(x), y=In(y))
    check(mode, "logical_not", lambda x: ~x, dtype="bool", x=In(x))
    cond, a, b = In(x), RNG.normal(size=(4, 5, 6)), RNG.normal(size=(5, 6))
    for left, right in [(a, b), (a, a), (np.asarray(1.0), b)]:
        check(mode, "select", lambda cond, a, b: np.where(cond, a, b), ulp=0, cond=cond, a=In(left), b=In(right))


@pytest.mark.parametrize("mode", MODES)
def test_casts(mode: str) -> None:
    fp = "fp32" if mode == "fp32" else "fp16"
    x = np.array([0.0, -0.0, 0.4, 1.5, -1.5, 254.9, 300.0, -3.0, np.inf, -np.inf])
    trunc = np.trunc(np.clip(half(x), -1e6, 1e6))

    def cast(array: np.ndarray, to: str, kind: str | None = None) -> np.ndarray:
        p = Program(fp)
        v = p.input(array, kind)
        name = p.name()
        p.statements.append(
            f'{p.type(to, array.shape)} {name} = cast(dtype = {p.bind(to)}, x = {v})[name = string("c")];'
        )
        return p.run([name], numerics=mode)[0]

    np.testing.assert_array_equal(cast(x, "uint8"), np.clip(trunc, 0, 255))
    np.testing.assert_array_equal(cast(x[:8], "int32"), trunc[:8])
    np.testing.assert_array_equal(cast(x, "bool"), x != 0)
    pixels = np.arange(256, dtype=np.uint8).reshape(1, 256)
    np.testing.assert_array_equal(cast(pixels, fp), pixels)
    np.testing.assert_array_equal(cast(np.array([0, 7, 1], np.uint8), "bool"), [False, True, True])
    np.testing.assert_array_equal(cast(np.array([True, False]), fp), [1, 0])
    np.testing.assert_array_equal(
        cast(np.array([70000, -5], np.int32), fp), [70000, -5] if mode == "fp32" else [np.inf, -5]
    )


@pytest.mark.parametrize("mode", MODES)
def test_int32_arithmetic(mode: str) -> None:
    x, y = np.array([7, -7, 7, -7, 2**31 - 1], np.int32), np.array([3, 3, -3, -3, 1], np.int32)
    p = Program("fp32" if mode == "fp32" else "fp16")
    a, b = p.input(x), p.input(y)
    kinds = {
        "add": x + y, "sub": x - y, "mul": x * y, "floor_div": x // y, "mod": x % y,
        "maximum": np.maximum(x, y), "minimum": np.minimum(x, y), "real_div": np.trunc(x / y),
    }  # fmt: skip
    outs = [p.op(kind, (5,), dtype="int32", x=a, y=b) for kind in kinds]
    for got, want in zip(p.run(outs, numerics=mode), kinds.values(), strict=True):
        np.testing.assert_array_equal(got, want)
