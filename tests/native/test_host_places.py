"""Quirks that belong to a place in a program: 8-bit weights (Q10), and poison where the engine's values are wrong and unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from milkit import Program, Ref

INF = np.inf
R = np.random.default_rng(3)
KERNELS = ("plain", "fast")


def coded(p: Program, q: np.ndarray, scale: np.ndarray) -> Ref:
    attributes = {"axis": 0, "quantized_data": q, "scale": scale, "zero_point": np.int8(0).reshape(())}
    return p.op("constexpr_affine_dequantize", q.shape, attributes=attributes)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("form", ["matmul", "linear", "turned", "after a reshape"])
def test_q10_activations_of_8_bit_weights_end_at_4094(form: str, kernels: str) -> None:
    x = np.array([[4094.0, 1.0], [4096.0, 1.0], [-5000.0, 1.0]])
    q, scale = np.array([[0, 10], [10, 10], [-4, 100]], np.int8), np.array([0.1, 0.5, 0.01])
    w = np.float16(scale).astype(float)[:, None] * q

    def run(quirks: str, numerics: str = "engine") -> np.ndarray:
        p = Program("fp16")
        a = p.input(x if form != "turned" else x.T.copy())
        weight = coded(p, q, scale)
        if form == "linear":
            y = p.op("linear", (3, 3), x=a, weight=weight)
        elif form == "turned":
            y = p.op("matmul", (3, 3), x=weight, y=a, transpose_x=False, transpose_y=False)
        elif form == "after a reshape":
            flat = p.op(
                "reshape",
                (3, 2),
                x=p.op("relu", (1, 3, 2), x=p.op("reshape", (1, 3, 2), x=a, shape=[1, 3, 2])),
                shape=[3, 2],
            )
            y = p.op("matmul", (3, 3), x=flat, y=weight, transpose_x=False, transpose_y=True)
        else:
            y = p.op("matmul", (3, 3), x=a, y=weight, transpose_x=False, transpose_y=True)
        got = p.run([y], numerics=numerics, quirks=quirks, kernels=kernels)[0]
        return got.T if form == "turned" else got

    fed = np.maximum(x, 0) if form == "after a reshape" else x
    np.testing.assert_allclose(run("Q12"), fed @ w.T, rtol=1e-3)
    np.testing.assert_allclose(run("Q10", "fp16"), fed @ w.T, rtol=1e-3)
    got = run("Q10,Q12")
    np.testing.assert_allclose(got[0], (fed @ w.T)[0], rtol=1e-3)
    np.testing.assert_array_equal(got[1], [0, INF, -INF])  # 0 * inf is 0 there (Q12)
    if form != "after a reshape":
        np.testing.assert_array_equal(got[2], [0, -INF, INF])


def test_q10_leaves_plain_weights_alone() -> None:
    p = Program("fp16")
    y = p.op(
        "matmul",
        (1, 1),
        x=p.input(np.array([[5000.0, 1.0]])),
        y=np.array([[1.0, 1.0]]),
        transpose_x=False,
        transpose_y=True,
    )
    assert p.run([y], quirks="Q10")[0] == 5000


def slices(p: Program, x: Ref, begins: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(p.op("slice_by_size", (1, 2), x=x, begin=[0, b], size=[1, 2]) for b in begins)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize(("begins", "wrong"), [((0, 2), False), ((2, 4), True), ((4, 2, 0), True), ((0, 0), False)])
def test_q09_joined_slices_are_poison(begins: tuple[int, ...], wrong: bool, kernels: str) -> None:
    p = Program("fp16")
    x = p.input(np.arange(6.0)[None])
    joined = p.op("concat", (1, 2 * len(begins)), values=slices(p, x, begins), axis=1, interleave=False)
    outputs = [p.op("relu", (1, 2 * len(begins)), x=joined), p.op("relu", (1, 6), x=x)]
    plain = np.concatenate([np.arange(6.0)[b : b + 2] for b in begins])[None]
    one, other = p.run(outputs, poison="Q09", kernels=kernels)
    np.testing.assert_array_equal(one, np.full_like(plain, np.nan) if wrong else plain)
    np.testing.assert_array_equal(other, np.arange(6.0)[None])  # what does not depend on it stays
    np.testing.assert_array_equal(p.run(outputs, kernels=kernels)[0], plain)


def test_q09_parts_of_a_split() -> None:
    p = Program("fp16")
    a, b, c = p.op("split", (1, 2), (1, 2), (1, 2), x=p.input(np.arange(6.0)[None]), axis=1, num_splits=3)
    one = p.op("concat", (1, 4), values=(a, b), axis=1, interleave=False)
    two = p.op("concat", (1, 4), values=(b, c), axis=1, interleave=False)
    first, second = p.run([one, two], poison="Q09")
    assert np.isfinite(first).all()
    assert np.isnan(second).all()


@pytest.mark.parametrize(
    ("rows", "columns", "wrong"), [(511, 600, False), (512, 512, True), (4, 2049, True), (4, 2048, False)]
)
def test_q40_long_attention_is_poison(rows: int, columns: int, wrong: bool) -> None:
    p = Program("fp16")
    q, k = p.input(R.normal(size=(1, 1, rows, 2))), p.input(R.normal(size=(1, 1, columns, 2)))
    y = p.op("scaled_dot_product_attention", (1, 1, rows, 2), query=q, key=k, value=k)
    assert np.isnan(p.run([y], poison="Q40")[0]).all() == wrong
    assert np.isfinite(p.run([y], poison="Q09")[0]).all()


@pytest.mark.parametrize(("d", "uniform", "wrong"), [(10240, False, True), (10240, True, False), (10239, False, False)])
def test_q31_a_wide_affine_is_poison(d: int, uniform: bool, wrong: bool) -> None:
    p = Program("fp16")
    x = p.op("reshape", (1, d, 1, 1), x=p.input(np.ones((1, d))), shape=[1, d, 1, 1])
    factor = np.ones((1, d, 1, 1)) if uniform else np.arange(d).reshape(1, d, 1, 1) % 7.0
    y = p.op("reshape", (d, 1), x=p.op("mul", (1, d, 1, 1), x=x, y=factor), shape=[d, 1])
    assert np.isnan(p.run([y], poison="Q31")[0]).all() == wrong


def test_poison_is_not_washed_away() -> None:
    """Comparisons, maxima and the rule that NaN is +0 (Q12) would hide it: all that depends on it is NaN."""
    p = Program("fp16")
    x = p.input(np.arange(6.0)[None])
    joined = p.op("concat", (1, 4), values=slices(p, x, (2, 4)), axis=1, interleave=False)
    sure = p.op("greater", (1, 4), dtype="bool", x=joined, y=-1.0)
    y = p.op("select", (1, 4), cond=sure, a=np.ones((1, 4)), b=np.zeros((1, 4)))
    z = p.op("maximum", (1, 4), x=joined, y=0.0)
    for got in p.run([y, z], poison="Q09", quirks="Q11,Q12"):
        assert np.isnan(got).all()
    for numerics in ("fp16", "fp32"):
        assert np.isfinite(p.run([z], poison="Q09", numerics=numerics)[0]).all()


def test_unknown_poison_is_an_error() -> None:
    p = Program("fp16")
    y = p.op("relu", (1,), x=p.input(np.ones(1)))
    for wrong in ("Q04", "Q99"):
        with pytest.raises(ValueError, match=f"no poison of quirk '{wrong}'"):
            p.run([y], poison=wrong)
    with pytest.raises(ValueError, match="no simulation of quirk 'Q40'"):
        p.run([y], quirks="Q40")
    assert "poison (Q09,Q40)" in p.compile([y], poison="Q40,Q09").describe()
