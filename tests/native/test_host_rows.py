"""Host kernels against plain NumPy in float64: reductions, normalisations, products, attention."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from milkit import MODES, In, Program, check

RNG = np.random.default_rng(13)


@pytest.mark.parametrize("mode", MODES)
def test_reductions(mode: str) -> None:
    def over(f):
        return lambda x, axes, keep_dims: f(x, tuple(axes), keep_dims)

    table = {
        "reduce_sum": over(lambda x, a, k: x.sum(a, keepdims=k)),
        "reduce_mean": over(lambda x, a, k: x.mean(a, keepdims=k)),
        "reduce_max": over(lambda x, a, k: x.max(a, keepdims=k)),
        "reduce_min": over(lambda x, a, k: x.min(a, keepdims=k)),
        "reduce_prod": over(lambda x, a, k: x.prod(a, keepdims=k)),
        "reduce_l1_norm": over(lambda x, a, k: np.abs(x).sum(a, keepdims=k)),
        "reduce_l2_norm": over(lambda x, a, k: np.sqrt((x * x).sum(a, keepdims=k))),
        "reduce_sum_square": over(lambda x, a, k: (x * x).sum(a, keepdims=k)),
        "reduce_log_sum": over(lambda x, a, k: np.log(x.sum(a, keepdims=k))),
        "reduce_log_sum_exp": over(lambda x, a, k: np.log(np.exp(x).sum(a, keepdims=k))),
    }
    cases = [((2, 3, 4, 5), axes) for r in (1, 2, 3, 4) for axes in itertools.combinations(range(4), r)]
    cases += [
        ((3, 700), (1,)),
        ((40, 600), (0,)),
        ((7,), (0,)),
        ((1, 5), (0,)),
        ((2, 3, 4), (-1,)),
        ((2, 3, 4), (-2, 0)),
    ]
    for kind, oracle in table.items():
        for shape, axes in cases:
            x = (
                RNG.uniform(0.5, 1.25, size=shape)
                if kind in ("reduce_log_sum", "reduce_prod")
                else RNG.normal(size=shape)
            )
            if kind == "reduce_prod" and np.prod(shape) > 500:
                continue
            for keep in (False, True):
                check(mode, kind, oracle, atol=3e-6, x=In(x), axes=list(axes), keep_dims=keep)


@pytest.mark.parametrize("mode", MODES)
def test_reduction_of_all_axes_and_of_infinities(mode: str) -> None:
    x = RNG.normal(size=(3, 4))
    check(mode, "reduce_sum", lambda x: np.asarray(x.sum()), atol=1e-6, x=In(x))
    check(
        mode, "reduce_max", lambda x, axes: x.max(1), ulp=0, x=In(np.array([[-np.inf, -np.inf], [np.inf, 1]])), axes=[1]
    )

    def logsumexp(x, axes):
        return np.logaddexp.reduce(x, 1)

    rows = np.array([[-np.inf, -np.inf], [np.inf, 1], [-np.inf, 2.0], [900.0, 899.0]])
    check(mode, "reduce_log_sum_exp", logsumexp, x=In(rows), axes=[1])


@pytest.mark.parametrize("mode", MODES)
def test_topk_is_in_order_and_takes_the_first_of_equals(mode: str) -> None:
    def oracle(x, k, axis, ascending, **_):
        order = np.take(np.argsort(x if ascending else -x, axis, kind="stable"), np.arange(k), axis)
        return np.take_along_axis(x, order, axis)

    many = RNG.integers(-3, 4, size=(3, 5, 7)).astype(float)
    wide = np.array([[np.inf, 1, -np.inf, np.inf, 0], [-np.inf] * 5])
    for x, axis in itertools.product((many, RNG.normal(size=(3, 5, 7)), wide), (0, 1, -1)):
        for k, ascending in itertools.product({1, x.shape[axis]}, (False, True)):
            form = {"k": k, "axis": axis, "ascending": ascending, "sort": True, "return_indices": False}
            check(mode, "topk", oracle, ulp=0, x=In(x), **form)


@pytest.mark.parametrize("mode", MODES)
def test_arg_reductions_take_the_first(mode: str) -> None:
    x = RNG.integers(-3, 4, size=(3, 5, 7)).astype(float)
    for axis, keep in itertools.product((0, 1, 2, -1), (False, True)):
        for kind, f in (("reduce_argmax", np.argmax), ("reduce_argmin", np.argmin)):
            check(
                mode,
                kind,
                lambda x, axis, keep_dims, f=f: f(x, axis, keepdims=keep_dims),
                dtype="int32",
                x=In(x),
                axis=axis,
                keep_dims=keep,
            )


@pytest.mark.parametrize("mode", MODES)
def test_cumsum(mode: str) -> None:
    def oracle(x, axis, exclusive, reverse):
        y = np.flip(x, axis) if reverse else x
        c = np.cumsum(y, axis)
        c = c - y if exclusive else c
        return np.flip(c, axis) if reverse else c

    for axis, exclusive, reverse in itertools.product((0, 1, -1), (False, True), (False, True)):
        check(
            mode,
            "cumsum",
            oracle,
            atol=2e-6,
            x=In(RNG.normal(size=(3, 5, 70))),
            axis=axis,
            exclusive=exclusive,
            reverse=reverse,
        )


@pytest.mark.parametrize("mode", MODES)
def test_softmax(mode: str) -> None:
    def oracle(x, axis):
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    for shape, axis in [
        ((4, 7), -1),
        ((4, 7), 0),
        ((2, 3, 130), 1),
        ((2, 3, 4, 5), 2),
        ((1, 1000), 1),
        ((5,), 0),
        ((3, 1), 1),
    ]:
        check(mode, "softmax", oracle, atol=1e-7, x=In(RNG.normal(size=shape) * 4), axis=axis)
    check(mode, "softmax", oracle, x=In(np.array([[1000.0, 1, 2, 3], [-1e4, 0, -1e4, -60000]])), axis=-1)


@pytest.mark.parametrize("mode", MODES)
def test_batch_and_instance_norm(mode: str) -> None:
    def batch(x, mean, variance, gamma=None, beta=None, epsilon=1e-5):
        c = [-1, *[1] * (x.ndim - 2)]
        y = (x - mean.reshape(c)) / np.sqrt(variance.reshape(c) + epsilon)
        return y * (1 if gamma is None else gamma.reshape(c)) + (0 if beta is None else beta.reshape(c))

    def instance(x, gamma=None, beta=None, epsilon=1e-5):
        axes, c = tuple(range(2, x.ndim)), [-1, *[1] * (x.ndim - 2)]
        y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)
        return y * (1 if gamma is None else gamma.reshape(c)) + (0 if beta is None else beta.reshape(c))

    for shape in [(2, 3, 7), (1, 3, 5, 6), (2, 3, 2, 3, 4)]:
        x, mean, variance = RNG.normal(size=shape) + 1, RNG.normal(size=3), RNG.uniform(0.5, 2, size=3)
        gamma, beta = RNG.normal(size=3), RNG.normal(size=3)
        check(mode, "batch_norm", batch, atol=1e-6, x=In(x), mean=mean, variance=variance, epsilon=0.001)
        check(
            mode,
            "batch_norm",
            batch,
            atol=1e-6,
            x=In(x),
            mean=mean,
            variance=variance,
            gamma=gamma,
            beta=beta,
            epsilon=0.25,
        )
        check(mode, "instance_norm", instance, atol=2e-6, x=In(x), epsilon=0.001)
        check(mode, "instance_norm", instance, atol=2e-6, x=In(x), gamma=gamma, beta=beta, epsilon=0.001)


@pytest.mark.parametrize("mode", MODES)
def test_layer_norm(mode: str) -> None:
    def oracle(x, axes, epsilon, gamma=None, beta=None):
        a = tuple(axes)
        y = (x - x.mean(a, keepdims=True)) / np.sqrt(x.var(a, keepdims=True) + epsilon)
        shape = [d if i in {v % x.ndim for v in a} else 1 for i, d in enumerate(x.shape)]
        return y * (1 if gamma is None else gamma.reshape(shape)) + (0 if beta is None else beta.reshape(shape))

    for shape, axes in [
        ((4, 96), [-1]),
        ((2, 3, 4), [1, 2]),
        ((2, 3, 4), [1]),
        ((2, 3, 4), [0, 2]),
        ((1, 5, 2, 3), [-1]),
    ]:
        inner = [shape[a] for a in sorted(v % len(shape) for v in axes)]
        x, gamma, beta = RNG.normal(size=shape) * 2 + 1, RNG.normal(size=inner), RNG.normal(size=inner)
        check(mode, "layer_norm", oracle, atol=2e-6, x=In(x), axes=axes, epsilon=0.001)
        check(mode, "layer_norm", oracle, atol=2e-6, x=In(x), axes=axes, epsilon=0.001, gamma=gamma, beta=beta)


@pytest.mark.parametrize("mode", MODES)
def test_l2_norm_and_local_response_norm(mode: str) -> None:
    def l2(x, epsilon):
        return x / np.sqrt((x * x).sum((-3, -2, -1), keepdims=True) + epsilon)

    def lrn(x, size, alpha, beta, k):
        out = np.zeros_like(x)
        for c in range(x.shape[1]):
            low, high = max(0, c - (size - 1) // 2), min(x.shape[1], c + size // 2 + 1)
            out[:, c] = x[:, c] / (k + alpha / size * (x[:, low:high] ** 2).sum(1)) ** beta
        return out

    for shape in [(3, 4, 5), (2, 3, 4, 5)]:
        check(mode, "l2_norm", l2, x=In(RNG.normal(size=shape)), epsilon=0.0625)
    for size in (1, 2, 3, 5, 9):
        check(
            mode,
            "local_response_norm",
            lrn,
            x=In(RNG.normal(size=(2, 6, 3, 4)) * 3),
            size=size,
            alpha=0.5,
            beta=0.75,
            k=1.0,
        )


@pytest.mark.parametrize("mode", MODES)
def test_matmul(mode: str) -> None:
    def oracle(x, y, transpose_x=False, transpose_y=False):
        x = x.swapaxes(-1, -2) if transpose_x and x.ndim > 1 else x
        y = y.swapaxes(-1, -2) if transpose_y and y.ndim > 1 else y
        return np.matmul(x, y)

    shapes = [((5, 7), (7, 3)), ((1, 300), (300, 270)), ((2, 3, 4, 5), (5, 6)), ((2, 1, 4, 5), (3, 5, 2)), ((7,), (7, 3)),
              ((4, 7), (7,)), ((7,), (7,)), ((3, 1), (1, 4)), ((33, 64), (64, 65)), ((2, 9, 1), (2, 1, 300))]  # fmt: skip
    for left, right in shapes:
        x, y = RNG.normal(size=left), RNG.normal(size=right)
        for tx, ty in itertools.product((False, True), (False, True)):
            a = x.swapaxes(-1, -2).copy() if tx and x.ndim > 1 else x
            b = y.swapaxes(-1, -2).copy() if ty and y.ndim > 1 else y
            check(mode, "matmul", oracle, atol=3e-6, x=In(a), y=In(b), transpose_x=tx, transpose_y=ty)
            check(mode, "matmul", oracle, atol=3e-6, x=In(a), y=b, transpose_x=tx, transpose_y=ty)
        check(mode, "matmul", oracle, atol=3e-6, x=x, y=In(y))


@pytest.mark.parametrize("mode", MODES)
def test_linear(mode: str) -> None:
    def oracle(x, weight, bias=None):
        return x @ weight.T + (0 if bias is None else bias)

    for shape in [(7,), (5, 7), (2, 3, 7), (1, 2, 3, 7)]:
        x, weight, bias = RNG.normal(size=shape), RNG.normal(size=(10, 7)), RNG.normal(size=10)
        check(mode, "linear", oracle, atol=2e-6, x=In(x), weight=weight)
        check(mode, "linear", oracle, atol=2e-6, x=In(x), weight=weight, bias=bias)


@pytest.mark.parametrize("mode", MODES)
def test_attention(mode: str) -> None:
    def oracle(query, key, value, attn_mask=None):
        s = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
        if attn_mask is not None:
            s = np.where(attn_mask, s, -np.inf) if attn_mask.dtype == bool else s + attn_mask
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ value

    q, k, v = RNG.normal(size=(2, 3, 5, 8)), RNG.normal(size=(2, 3, 6, 8)), RNG.normal(size=(2, 3, 6, 4))
    keep = RNG.integers(0, 2, size=(5, 6)).astype(bool)
    keep[:, 0] = True
    for mask in (None, keep, RNG.normal(size=(2, 1, 5, 6)), RNG.normal(size=(1, 1, 1, 6))):
        extra = {} if mask is None else {"attn_mask": In(mask)}
        check(mode, "scaled_dot_product_attention", oracle, atol=1e-6, query=In(q), key=In(k), value=In(v), **extra)


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    p = Program("fp16")
    x = p.input(RNG.normal(size=(1, 24, 40, 40)).astype(np.float32))
    c = p.op("conv", (1, 40, 40, 40), x=x, weight=RNG.normal(size=(40, 24, 3, 3)) / 15, pad_type="same")
    s = p.op("softmax", (1, 40, 40, 40), x=c, axis=1)
    r = p.op("reduce_mean", (1, 40), x=s, axes=[2, 3], keep_dims=False)
    outs = [c, s, p.op("matmul", (1, 70), x=r, y=RNG.normal(size=(40, 70)))]
    runs = [p.run(outs, numerics="fp16", threads=n) for n in (1, 2, 3, 8)]
    for other in runs[1:]:
        for a, b in zip(runs[0], other, strict=True):
            assert a.tobytes() == b.tobytes()
