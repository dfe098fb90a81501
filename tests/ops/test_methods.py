"""The graph API by hand, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from evaluate import run

from aneforge.ir import verify
from aneforge.ops import builders as af

R = np.random.default_rng(11)


def check(build, reference, *shapes, tolerance=1e-4):
    tensors = [af.input(s) for s in shapes]
    built = af.program(build(*tensors))
    verify(built)
    arrays = [R.standard_normal(s).astype(np.float32) for s in shapes]
    by_tensor = dict(zip(tensors, arrays, strict=True))
    got = run(built, {name: by_tensor[t] for name, t in built.inputs}, "fp32")["y0"]
    want = np.asarray(reference(*[a.astype(np.float64) for a in arrays]))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def f32(*shape):
    return R.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "expression",
    [
        lambda x: x + 2,
        lambda x: 2 + x,
        lambda x: x - 2,
        lambda x: 2 - x,
        lambda x: x * 3,
        lambda x: 3 * x,
        lambda x: x / 4,
        lambda x: 4 / (x * x + 1),
        lambda x: x**2,
        lambda x: x**3,
        lambda x: -x,
        abs,
        lambda x: np.ones(4) + x,
        lambda x: np.arange(4.0) * x,
        lambda x: np.float32(2) - x,
        lambda x: x[1],
        lambda x: x[:, 1:3],
        lambda x: x[..., ::2],
        lambda x: x[::-1, 0],
        lambda x: x[[2, 0, 0]],
        lambda x: x @ np.ones((4, 2)),
        lambda x: np.ones((2, 3)) @ x,
    ],
)
def test_operators(expression):
    check(expression, expression, (3, 4))


@pytest.mark.parametrize("expression", [lambda x, y: x + y, lambda x, y: x * y - y, lambda x, y: x / (y * y + 1.0)])
def test_operators_between_tensors(expression):
    check(expression, expression, (3, 4), (4,))


def test_batched_products():
    check(lambda x, y: x @ y, np.matmul, (2, 3, 4), (2, 4, 5))
    w, b = f32(5, 4), f32(5)
    check(lambda x: x.linear(w, b), lambda x: x @ w.T + b, (2, 3, 4))
    v = f32(2, 4, 5)
    check(lambda x: x.bmm_weight(v), lambda x: x @ v, (2, 3, 4))


@pytest.mark.parametrize(
    ("build", "reference"),
    [
        (lambda x: x.mean(), lambda x: x.mean(keepdims=True)),
        (lambda x: x.sum((0, 1)), lambda x: x.sum((0, 1), keepdims=True)),
        (lambda x: x.amax(1), lambda x: x.max(1, keepdims=True)),
        (lambda x: x.amin(-1), lambda x: x.min(-1, keepdims=True)),
        (lambda x: x.l1_norm(1), lambda x: np.abs(x).sum(1, keepdims=True)),
        (lambda x: x.sum_square(1), lambda x: (x * x).sum(1, keepdims=True)),
        (lambda x: x.reduce_log_sum_exp(1), lambda x: np.log(np.exp(x).sum(1, keepdims=True))),
        (lambda x: x.cumsum(), lambda x: np.cumsum(x, -1)),
        (lambda x: x.softmax(0), lambda x: np.exp(x) / np.exp(x).sum(0)),
        (lambda x: x.l2_norm(), lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)),
        (lambda x: x.argmax(), lambda x: x.argmax(-1)[:, None]),
        (lambda x: x.reshape(2, 9), lambda x: x.reshape(2, 9)),
        (lambda x: x.reshape((9, -1)), lambda x: x.reshape(9, 2)),
        (lambda x: x.transpose(1, 0), lambda x: x.T),
        (lambda x: x.expand_dims(0).squeeze(0), lambda x: x),
        (lambda x: x.flatten2d(0), lambda x: x.reshape(1, 18)),
        (lambda x: x.slice_by_size((1, 2), (2, 3)), lambda x: x[1:3, 2:5]),
        (lambda x: x.reverse(1), lambda x: x[:, ::-1]),
        (lambda x: x.tile((2, 3)), lambda x: np.tile(x, (2, 3))),
        (lambda x: x.clip(-0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5)),
        (lambda x: x.leaky_relu(), lambda x: np.where(x > 0, x, 0.01 * x)),
        (lambda x: x.threshold(0.5), lambda x: np.maximum(x, 0.5)),
        (lambda x: x.clamped_relu(0.5, 1.0), lambda x: np.minimum(1.0, np.where(x >= 0, x, 0.5 * x))),
        (lambda x: x.sigmoid_hard(), lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
        (lambda x: x.round(), np.rint),
        (lambda x: (x * x).log(1.0), lambda x: np.log(x * x + 1)),
        (lambda x: (x * x).rsqrt(1.0), lambda x: 1 / np.sqrt(x * x + 1)),
        (lambda x: (x * x).inverse(1.0), lambda x: 1 / (x * x + 1)),
        (lambda x: af.select(x.greater(0.0), x, 0.0), lambda x: np.maximum(x, 0)),
        (lambda x: af.where(x.less(0.0).logical_not(), x, -1.0), lambda x: np.where(x >= 0, x, -1)),
        (lambda x: af.concat([x, x], axis=0), lambda x: np.concatenate([x, x])),
        (lambda x: af.stack([x, x]), lambda x: np.stack([x, x])),
        (lambda x: af.split(x, 2, axis=1)[1], lambda x: np.split(x, 2, 1)[1]),
        (lambda x: af.gather(x, [2, 0], axis=0), lambda x: x[[2, 0]]),
        (lambda x: af.crop(x, 1, 0, 2, 1), lambda x: x[1:, 2:-1]),
        (lambda x: af.maximum(x, 0.2), lambda x: np.maximum(x, 0.2)),
        (lambda x: x.rms_norm(np.ones(6, np.float32)), lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)),
    ],
)
def test_methods_and_builders(build, reference):
    check(build, reference, (3, 6))


def test_convolutions():
    w = f32(4, 2, 3, 3)
    x = af.input((1, 2, 8, 8))
    y = af.conv(x, w, stride=2, pad=(1, 1, 0, 2), bias=f32(4))
    assert y.shape == (1, 4, 4, 4)
    assert af.conv_transpose(x, f32(2, 3, 2, 2), stride=2).shape == (1, 3, 16, 16)
    assert x.max_pool(2).shape == (1, 2, 4, 4)
    assert x.avg_pool(3, 2, pad=1, exclude_pad=True).shape == (1, 2, 4, 4)
    assert x.upsample(2).shape == (1, 2, 16, 16)
    assert af.dynamic_conv(x, af.input((3, 2, 3, 3)), pad=1).shape == (1, 3, 8, 8)
    with pytest.raises(ValueError, match="batch of 1"):
        af.dynamic_conv(af.input((2, 2, 8, 8)), af.input((3, 2, 3, 3)))


def test_attention_layers():
    d, h = 8, 2
    weights = [f32(d, d) * 0.3 for _ in range(4)]

    def reference(x):
        q, k, v = (x @ w.T for w in weights[:3])

        def heads(t):
            return t.reshape(5, h, d // h).swapaxes(0, 1)

        scores = heads(q) @ heads(k).swapaxes(1, 2) / np.sqrt(d // h)
        p = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        return (p @ heads(v)).swapaxes(0, 1).reshape(5, d) @ weights[3].T

    wq, wk, wv, wo = weights
    check(lambda x: af.mha(x, wq, None, wk, None, wv, None, wo, None, h), reference, (5, d))
    check(lambda x: af.einsum("bij,bjk->bik", x, x), lambda x: x @ x, (2, 3, 3))


def test_inputs_come_in_the_order_in_which_they_were_made():
    a, b = af.input((2,)), af.input((2,))
    program = af.program(b - a)
    assert [t for _, t in program.inputs] == [a, b]
    image = af.image_input((1, 3, 4, 4))
    assert af.program(image).inputs[0][1].dtype == "uint8"
    assert af.program(af.input((2,), name="tokens").relu()).inputs[0][0] == "tokens"


def test_wrong_use():
    x = af.input((2, 3))
    with pytest.raises(ValueError, match="rank"):
        af.input((1, 2, 3, 4, 5, 6))
    with pytest.raises(ValueError, match="extents of 1"):
        af.input((0, 2))
    with pytest.raises(ValueError, match="uint8"):
        af.input((2,), "int32")
    with pytest.raises(ValueError, match="ranks up to 5"):
        x.reshape(1, 1, 1, 1, 2, 3)
    with pytest.raises(TypeError, match="float16, float32 or float64"):
        x.linear(np.ones((4, 3), int))
    with pytest.raises(TypeError, match="float16, float32 or float64"):
        _ = x @ [[1.0], [2.0], [3.0]]
    with pytest.raises(TypeError, match="conv: weight"):
        af.conv(af.input((1, 1, 4, 4)), np.ones((1, 1, 3, 3), np.int8))
    with pytest.raises(IndexError):
        _ = x[3]
