"""Compositions against numpy: import errors show in fp32, unsafe forms in fp16."""

from __future__ import annotations

import math

import numpy as np
import pytest
from evaluate import program, run
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge import ops
from aneforge.errors import Refused
from aneforge.ir import input, verify

FP32, FP16 = 4e-5, 4e-3
R = np.random.default_rng(5)


def normal(scale=1.0):
    return lambda shape: R.standard_normal(shape) * scale


def check(build, reference, *shapes, values=None, fp32=FP32, fp16=FP16):
    """Runs `build` on random inputs of `shapes` in both precisions; errors relative to |reference| + 1."""
    given = [np.asarray((values or normal())(s)).astype(np.float16) for s in shapes]
    tensors = [input(f"x{i}", s) for i, s in enumerate(shapes)]
    built = program(build(*tensors))
    verify(built)
    feed = {name: given[int(name[1:])] for name, _ in built.inputs}
    want = np.asarray(reference(*[g.astype(np.float64) for g in given]), np.float64)
    for numerics, tolerance in (("fp32", fp32), ("fp16", fp16)):
        got = run(built, feed, numerics)["y0"].astype(np.float64)
        assert got.shape == want.shape
        assert np.isfinite(got).all() == np.isfinite(want).all(), numerics
        error = np.abs(got - want) / (np.abs(want) + 1.0)
        assert np.nanmax(error, initial=0.0) <= tolerance, numerics
    return built


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


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_product(axis, exclusive, reverse):
    def reference(x):
        way = np.flip(x, axis) if reverse else x
        if exclusive:
            way = np.concatenate([np.ones_like(np.take(way, [0], axis)), np.delete(way, -1, axis)], axis)
        out = np.cumprod(way, axis)
        return np.flip(out, axis) if reverse else out

    check(lambda x: ops.running_product(x, axis, exclusive, reverse), reference, (3, 5, 4))
    check(lambda x: ops.running_product(x, axis, exclusive, reverse), reference, (1, 1, 1))


def test_a_long_running_product_is_refused():
    with pytest.raises(Refused):
        ops.running_product(input("x0", (257,)), 0)


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


AXES = [(1,), (2, 3), (1, 2, 3), (0, 2), (0, 1, 2, 3), (3,), (0, 3), (-1,), (0,)]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("axes", AXES)
class TestSums:
    shape = (4, 20, 9, 7)

    def test_sum(self, axes, keep):
        check(lambda x: ops.reduce_sum_wide(x, axes, keep), lambda x: x.sum(axes, keepdims=keep), self.shape)

    def test_mean(self, axes, keep):
        check(lambda x: ops.reduce_mean_wide(x, axes, keep), lambda x: x.mean(axes, keepdims=keep), self.shape)

    def test_l1(self, axes, keep):
        check(lambda x: ops.reduce_l1(x, axes, keep), lambda x: np.abs(x).sum(axes, keepdims=keep), self.shape)

    def test_l2_of_large_values(self, axes, keep):
        check(
            lambda x: ops.reduce_l2(x, axes, keep),
            lambda x: np.sqrt((x * x).sum(axes, keepdims=keep)),
            self.shape,
            values=normal(700.0),
        )

    def test_logsumexp_of_large_values(self, axes, keep):
        def reference(x):
            top = x.max(axes, keepdims=True)
            out = top + np.log(np.exp(x - top).sum(axes, keepdims=True))
            return out if keep else out.squeeze(axes)

        check(lambda x: ops.logsumexp(x, axes, keep), reference, self.shape, values=normal(50.0))


def test_long_sums_do_not_accumulate_in_fp16():
    """4096 ones are 4096; adding in fp16 stops at 2048."""
    for build, want in ((ops.reduce_sum_wide, 4096.0), (ops.reduce_mean_wide, 1.0)):
        built = program(build(input("x0", (1, 4096)), (1,)))
        assert not any(op.kind.startswith("reduce_") for op in built.ops)
        assert run(built, {"x0": np.ones((1, 4096))})["y0"].item() == want


def test_sums_up_to_the_end_of_fp16():
    built = program(ops.reduce_sum_wide(input("x0", (1, 64)), (1,)))
    assert run(built, {"x0": np.full((1, 64), 1000.0)})["y0"].item() == 64000.0
    products = [op for op in built.ops if op.kind == "matmul"]
    assert all((op.operand("y").value == 0.5).all() for op in products), (
        "halves, so that the accumulator stays below 32752 (Q04)"
    )


def test_means_of_long_axes():
    check(lambda x: ops.reduce_mean_wide(x, (2, 3)), lambda x: x.mean((2, 3), keepdims=True), (1, 8, 224, 224))
    built = check(lambda x: ops.reduce_mean_wide(x, -1), lambda x: x.mean(-1, keepdims=True), (1, 40000))
    weights = [op.operand("y").value for op in built.ops if op.kind == "matmul"]
    assert all((np.abs(w) >= 2.0**-14).all() for w in weights), "weights are not subnormal in fp16"


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_log_softmax(axis):
    def reference(x):
        t = x - x.max(axis, keepdims=True)
        return t - np.log(np.exp(t).sum(axis, keepdims=True))

    check(lambda x: ops.log_softmax(x, axis), reference, (4, 33, 5), values=normal(30.0))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sum(axis, exclusive, reverse):
    def reference(x):
        y = np.flip(x, axis) if reverse else x
        total = np.cumsum(y, axis) - (y if exclusive else 0)
        return np.flip(total, axis) if reverse else total

    check(lambda x: ops.running_sum(x, axis, exclusive, reverse), reference, (5, 6, 7))


def test_products_and_positions():
    check(lambda x: ops.product(x, (1,), True), lambda x: x.prod(1, keepdims=True), (3, 7, 2))
    check(lambda x: ops.product(x, None, False), lambda x: x.prod(), (3, 4))
    check(lambda x: ops.argmax_first(x, 1), lambda x: x.argmax(1)[:, None], (3, 70, 2), fp16=0)
    check(
        lambda x: ops.argmax_first(x, -1, False),
        lambda x: x.argmax(-1),
        (3, 70),
        values=lambda s: R.integers(0, 3, s),
        fp16=0,
    )
    check(lambda x: ops.argmax_first(x, 0, False, True), lambda x: x.argmin(0), (70, 3), fp16=0)
    check(
        lambda x: ops.hardmax(x, 1),
        lambda x: 1.0 * (np.arange(7)[:, None] == x.argmax(1)[:, None]),
        (3, 7, 2),
        values=lambda s: R.integers(0, 3, s),
    )
    with pytest.raises(Refused):
        ops.argmax_first(input("x", (1, 2049)), 1)
    with pytest.raises(Refused):
        ops.product(input("x", (1, 65)), 1)


def few(shape):
    """Many equal numbers."""
    return R.integers(-2, 3, shape)


def test_the_last_of_equal_elements():
    last = lambda x: 6 - x[:, ::-1].argmax(1)[:, None]  # noqa: E731
    check(lambda x: ops.argmax_first(x, 1, last=True), last, (4, 7, 3), values=few, fp16=0)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("shape", "axis", "k"), [((3, 9, 2), 1, 9), ((2, 20), -1, 3), ((5,), 0, 4), ((2, 1500), 1, 7)])
def test_first_k(shape, axis, k, largest):
    """Both ways to sort: all pairs, and one maximum after the other."""

    def places(x):
        order = np.argsort(-x if largest else x, axis, kind="stable")
        return np.take(order, np.arange(k), axis)

    for values in (few, normal(3)):
        check(lambda x: ops.first_k(x, k, axis, largest)[1], places, shape, values=values, fp16=0)
        check(
            lambda x: ops.first_k(x, k, axis, largest)[0],
            lambda x: np.take_along_axis(x, places(x), axis),
            shape,
            values=values,
            fp32=0,
            fp16=0,
        )


def test_what_is_too_long_to_sort_is_refused():
    for shape, k in (((1, 2049), 1), ((64, 2000), 64), ((3000, 2000), 2)):
        with pytest.raises(Refused):
            ops.first_k(input("x", shape), k)


def standard(x, axes, epsilon=1e-5):
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("scale", [1e-4, 1e-3, 0.02, 1.0, 100.0, 5000.0])
class TestNorms:
    """From values beside the epsilon to values whose squares overflow."""

    g, b = R.standard_normal(96), R.standard_normal(96)

    def test_layer_norm(self, scale):
        check(
            lambda x: ops.layer_norm_fp16(x, -1, self.g, self.b),
            lambda x: standard(x, -1) * self.g + self.b,
            (2, 5, 96),
            values=normal(scale),
            fp16=8e-3,
            fp32=1e-4,
        )

    def test_layer_norm_over_two_axes(self, scale):
        g = R.standard_normal((6, 5))
        check(
            lambda x: ops.layer_norm_fp16(x, 1, g),
            lambda x: standard(x, (1, 2)) * g,
            (4, 6, 5),
            values=normal(scale),
            fp16=8e-3,
            fp32=1e-4,
        )

    def test_rms_norm(self, scale):
        check(
            lambda x: ops.rms_norm(x, -1, self.g),
            lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * self.g,
            (2, 5, 96),
            values=normal(scale),
            fp16=8e-3,
            fp32=1e-4,
        )

    def test_group_norm(self, scale):
        g, b = self.g[:16].reshape(1, 16, 1, 1), self.b[:16].reshape(1, 16, 1, 1)
        check(
            lambda x: ops.group_norm(x, 4, self.g[:16], self.b[:16]),
            lambda x: standard(x.reshape(2, 4, -1), -1).reshape(x.shape) * g + b,
            (2, 16, 9, 6),
            values=normal(scale),
            fp16=8e-3,
            fp32=1e-4,
        )

    def test_instance_norm(self, scale):
        g, b = self.g[:6].reshape(1, 6, 1), self.b[:6].reshape(1, 6, 1)
        check(
            lambda x: ops.instance_norm_any(x, self.g[:6], self.b[:6]),
            lambda x: standard(x, 2) * g + b,
            (2, 6, 50),
            values=normal(scale),
            fp16=8e-3,
            fp32=1e-4,
        )

    def test_l2_normalize(self, scale):
        check(
            lambda x: ops.l2_normalize(x, 1),
            lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)),
            (2, 6, 50),
            values=normal(scale),
        )
        check(
            lambda x: ops.l2_normalize(x, 1, 0.5),
            lambda x: x / np.maximum(np.sqrt((x * x).sum(1, keepdims=True)), 0.5),
            (2, 6, 50),
            values=normal(scale),
        )

    def test_l1_normalize(self, scale):
        check(
            lambda x: ops.l1_normalize(x, 1),
            lambda x: x / np.abs(x).sum(1, keepdims=True),
            (2, 6, 50),
            values=normal(scale),
        )


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1e-5, 1e-2])
def test_norms_of_nothing_are_nothing(epsilon):
    zero = {"x0": np.zeros((2, 40))}
    for build in (
        lambda x: ops.layer_norm_fp16(x, -1, None, None, epsilon),
        lambda x: ops.rms_norm(x, -1, None, epsilon),
        ops.l2_normalize,
        ops.l1_normalize,
    ):
        assert (run(program(build(input("x0", (2, 40)))), zero)["y0"] == 0).all()


@pytest.mark.parametrize(
    ("size", "alpha", "beta", "bias"),
    [(5, 1e-4, 0.75, 1.0), (4, 0.3, 0.6, 2.0), (1, 0.5, 0.5, 1.0), (9, 0.1, 0.75, 1.0)],
)
def test_response_norm(size, alpha, beta, bias):
    def reference(x):
        before, after = (size - 1) // 2, size // 2
        power = np.stack([(x[:, max(0, c - before) : c + after + 1] ** 2).sum(1) for c in range(x.shape[1])], 1)
        return x / (bias + alpha / size * power) ** beta

    check(lambda x: ops.response_norm(x, size, alpha, beta, bias), reference, (2, 12, 6, 5), values=normal(300.0))


def test_batch_norm_any():
    g, b, m, v = R.standard_normal(6), R.standard_normal(6), R.standard_normal(6), R.uniform(0, 2, 6)
    shape = (1, 6, 1, 1)
    check(
        lambda x: ops.batch_norm_any(x, g, b, m, v, 1e-3),
        lambda x: (x - m.reshape(shape)) / np.sqrt(v.reshape(shape) + 1e-3) * g.reshape(shape) + b.reshape(shape),
        (2, 6, 3, 4),
    )
    check(
        lambda x: ops.batch_norm_any(x, g, b, m, v),
        lambda x: (x - m) / np.sqrt(v + 1e-5) * g + b,
        (3, 6),
        fp32=1e-4,
        fp16=2e-2,
    )


# ---------------------------------------------------------------- masks and layout


def test_masks():
    a, b = (lambda x: ops.greater(x, 0.0)), (lambda y: ops.less(y, 0.5))
    for build, reference in (
        (ops.bool_and, np.logical_and),
        (ops.bool_or, np.logical_or),
        (ops.bool_xor, np.logical_xor),
    ):
        check(
            lambda x, y, f=build: ops.as_mask(f(a(x), b(y))),
            lambda x, y, f=reference: f(x > 0, y < 0.5),
            (3, 4),
            (1, 4),
            fp16=0,
        )
    check(lambda x: ops.as_mask(ops.as_bool(x)), lambda x: x != 0, (50,), values=lambda s: R.integers(-1, 2, s), fp16=0)
    check(lambda x, y: ops.where(a(x), y, 1.5), lambda x, y: np.where(x > 0, y, 1.5), (3, 1), (2, 3, 4), fp16=1e-3)
    check(
        lambda x, y: ops.where(a(x), 0.1, y), lambda x, y: np.where(x > 0, np.float16(0.1), y), (3, 4), (4,), fp16=1e-3
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_broadcast_to(data):
    full = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    drop = data.draw(st.integers(0, len(full)))
    small = [data.draw(st.sampled_from([1, d])) for d in full[drop:]]
    if not small:
        small = [1]
    check(lambda x: ops.broadcast_to(x, full), lambda x: np.broadcast_to(x, full), tuple(small), fp32=0, fp16=0)
    check(
        lambda x: ops.as_mask(ops.broadcast_to(ops.greater(x, 0.0), full)),
        lambda x: np.broadcast_to(x > 0, full),
        tuple(small),
        fp32=0,
        fp16=0,
    )


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_gather_constant(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    n = shape[axis]
    count = data.draw(st.integers(1, 9))
    form = data.draw(st.sampled_from(["any", "run", "same", "back"]))
    if form == "any":
        index = np.array(data.draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count)))
    elif form == "same":
        index = np.full(count, data.draw(st.integers(0, n - 1)))
    else:
        index = np.arange(n)[:: 1 if form == "run" else -1]
    if data.draw(st.booleans()):
        index = index.reshape(1, -1)
    check(lambda x: ops.gather_constant(x, index, axis), lambda x: np.take(x, index, axis), shape, fp32=0, fp16=1e-7)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_slice_box(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    where = []
    for d in shape:
        step = data.draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
        a, b = data.draw(st.integers(0, d - 1)), data.draw(st.integers(0, d - 1))
        low, high = min(a, b), max(a, b)
        where.append(range(low, high + 1, step) if step > 0 else range(high, low - 1, step))
    check(
        lambda x: ops.slice_box(x, [r.start for r in where], [r.step for r in where], [len(r) for r in where]),
        lambda x: x[np.ix_(*where)],
        shape,
        fp32=0,
        fp16=1e-7,
    )


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_pad_any(data):
    mode = data.draw(st.sampled_from(["constant", "reflect", "edge", "wrap"]))
    shape = tuple(data.draw(st.lists(st.integers(2, 5), min_size=1, max_size=5)))
    most = 1 if mode == "reflect" else 3
    pads = [
        data.draw(st.tuples(st.integers(0, min(most, d - 1) if mode != "constant" else 3), st.integers(0, 1)))
        for d in shape
    ]
    check(lambda x: ops.pad_any(x, pads, mode), lambda x: np.pad(x, pads, mode=mode), shape, fp32=0, fp16=1e-7)


def test_negative_pads_cut():
    check(lambda x: ops.pad_any(x, [(-1, 2), (1, -2)]), lambda x: np.pad(x[1:, :-2], [(0, 2), (1, 0)]), (6, 5))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_matmul_any(data):
    batch = data.draw(st.lists(st.integers(1, 3), max_size=3))
    m, k, n = (data.draw(st.integers(1, 5)) for _ in range(3))

    def part(lead):
        cut = data.draw(st.integers(0, len(lead)))
        return [data.draw(st.sampled_from([1, d])) for d in lead[cut:]]

    left = (*part(batch), m, k) if data.draw(st.integers(0, 4)) else (k,)
    right = (*part(batch), k, n) if data.draw(st.integers(0, 4)) else (k,)
    constant = data.draw(st.sampled_from(["none", "left", "right"]))
    tolerance = {"fp16": 1e-2, "fp32": 1e-5}
    if constant == "none":
        check(ops.matmul_any, np.matmul, left, right, **tolerance)
    elif constant == "left":
        fixed = R.standard_normal(left)
        check(lambda y: ops.matmul_any(fixed, y), lambda y: np.matmul(fixed, y), right, **tolerance)
    else:
        fixed = R.standard_normal(right)
        check(lambda x: ops.matmul_any(x, fixed), lambda x: np.matmul(x, fixed), left, **tolerance)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [5, 1100])
def test_attention(causal, length):
    def reference(q, k, v):
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        if causal:
            scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    check(
        lambda q, k, v: ops.attention(q, k, v, causal=causal),
        reference,
        (1, 2, length, 4),
        (1, 2, length, 4),
        (1, 2, length, 3),
    )


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.37, 1.0, 900.0, 3e4])
@pytest.mark.parametrize(("zero", "low", "high"), [(0, -128, 127), (128, 0, 255), (3, -128, 127)])
def test_quantize_and_back(scale, zero, low, high):
    """Whole steps and back: every code is found again, whatever the scale; what is beyond saturates."""
    steps = np.arange(low - 40, high + 40) - zero
    x = (steps * scale).clip(-65504, 65504)
    kept = np.abs(steps * scale) < 60000
    at, far = np.asarray(zero, np.float64), np.asarray(scale, np.float64)
    built = program(ops.quantize(input("x0", x.shape), far, at, low, high))
    want = np.clip(steps + zero, low, high)[kept]
    for numerics in ("fp32", "fp16"):
        assert (
            run(built, {"x0": x.astype(np.float16 if numerics == "fp16" else np.float32)}, numerics)["y0"][kept] == want
        ).all()
    codes = np.arange(low, high + 1).astype(np.float16)
    back = program(ops.dequantize(input("x0", codes.shape), far, at))
    want = (codes.astype(np.float64) - zero) * scale
    got = run(back, {"x0": codes}, "fp16")["y0"].astype(np.float64)
    held = np.abs(want) < 65504
    assert np.abs(got - want)[held].max() <= 2.0**-10 * np.abs(want)[held].max() + 6e-8


def test_scales_that_fp16_cannot_reach_are_refused():
    for scale in (2.0**-32, 2.0**40):
        with pytest.raises(Refused):
            ops.quantize(input("x", (3,)), np.asarray(scale), np.zeros(()), 0, 255)
