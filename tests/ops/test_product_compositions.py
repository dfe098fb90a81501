"""Matrix products, attention, and quantization, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from composed import R, check
from evaluate import program, run
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge import ops
from aneforge.errors import Refused
from aneforge.ir import input


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
