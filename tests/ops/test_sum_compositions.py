"""Sums, running sums and products, and the order of elements, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from composed import R, check, normal
from evaluate import program, run

from aneforge import ops
from aneforge.errors import Refused
from aneforge.ir import input

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
