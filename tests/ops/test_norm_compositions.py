"""Normalizations against numpy, at every scale that fp16 has."""

from __future__ import annotations

import numpy as np
import pytest
from composed import R, check, normal
from evaluate import program, run

from aneforge import ops
from aneforge.ir import input


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
