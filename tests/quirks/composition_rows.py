"""What the engine has no operation for, or a wrong one: the form that one would write first, and the one that is sent instead.

`plain` as it stands is refused on every engine of `who`, or (`wrong`) computed otherwise than it should be by the host
backend there. `composed` is right on the host backend for every engine, and nothing of it is refused anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from aneforge import ops
from aneforge.ir import Tensor, const

ALL = ("m1", "m2", "m3", "m4", "m5")
R = np.random.default_rng(17)


@dataclass(frozen=True)
class Row:
    need: str
    plain: Callable[..., Tensor] | None
    composed: Callable[..., Tensor]
    arrays: tuple[np.ndarray, ...]
    want: Callable[..., np.ndarray]
    who: tuple[str, ...] = ALL
    wrong: bool = False
    tolerance: float = 4e-3

    def __str__(self) -> str:
        return self.need


def normal(*shape: int) -> np.ndarray:
    return R.standard_normal(shape)


def whole(*shape: int, most: int = 200) -> np.ndarray:
    return R.integers(-most, most + 1, shape).astype(np.float64)


def positive(t: Tensor) -> Tensor:
    return ops.greater(t, 0.0)


def number(cond: Tensor) -> Tensor:
    return ops.as_mask(cond)


def soft(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def pooled(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 1)), constant_values=-np.inf)
    return np.maximum.reduce([padded[:, :, i : i + 6, j : j + 8] for i in (0, 1) for j in (0, 1)])


def correlated(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    n = x.shape[2] - w.shape[2] + 1
    return sum(np.einsum("ncl,oc->nol", x[:, :, k : k + n], w[:, :, k]) for k in range(w.shape[2]))


FILTER = R.standard_normal((3, 4, 5)) / 4
WIDE = R.standard_normal((1, 1, 1, 40)) / 8
TWO = (normal(2, 6), normal(2, 6))
SWAPPED = np.array([3, 0, -1])
TRIANGLE = np.tril(np.ones((5, 5), bool))
GRID = [0, 0, 0, 1, 1, 2, 2, 2]
NEAREST = np.eye(3)[GRID]

ROWS = (
    Row("and", lambda a, b: number(ops.logical_and(positive(a), positive(b))),
        lambda a, b: number(ops.bool_and(positive(a), positive(b))), TWO, lambda a, b: ((a > 0) & (b > 0)) * 1.0),
    Row("or", lambda a, b: number(ops.logical_or(positive(a), positive(b))),
        lambda a, b: number(ops.bool_or(positive(a), positive(b))), TWO, lambda a, b: ((a > 0) | (b > 0)) * 1.0),
    Row("xor", lambda a, b: number(ops.logical_xor(positive(a), positive(b))),
        lambda a, b: number(ops.bool_xor(positive(a), positive(b))), TWO, lambda a, b: ((a > 0) ^ (b > 0)) * 1.0),
    Row("bool to float", lambda a: ops.cast(positive(a), "fp16"), lambda a: number(positive(a)), TWO[:1], lambda a: (a > 0) * 1.0),
    Row("round half to even", ops.round, ops.round_half_even, (np.array([[0.5, 1.5, 2.5, -0.5, 1024, 2047, 3.2]]),), np.rint),
    Row("towards zero", None, ops.trunc, (np.array([[0.5, 1.5, -2.5, -0.5, 2047, -3.9]]),), np.trunc),
    Row("remainder", lambda a: ops.mod(a, 7.0), lambda a: ops.mod_floor(a, 7.0), (whole(2, 50),), lambda a: np.mod(a, 7)),
    Row("remainder, sign of the dividend", None, lambda a: ops.mod_trunc(a, 7.0), (whole(2, 50),), lambda a: np.fmod(a, 7)),
    Row("integer division", None, lambda a: ops.div_trunc(a, np.float64(7.0)), (whole(2, 50),), lambda a: np.trunc(a / 7)),
    Row("sine", ops.sin, ops.sine, (np.linspace(-20, 20, 24)[None],), np.sin, ("m1", "m2")),
    Row("cosine", ops.cos, ops.cosine, (np.linspace(-20, 20, 24)[None],), np.cos, ("m1", "m2"), tolerance=1e-2),
    Row("tangent", ops.tan, ops.tangent, (np.linspace(-1.2, 1.2, 24)[None],), np.tan, tolerance=2e-2),
    Row("hyperbolic sine", ops.sinh, ops.hyperbolic_sine, (np.linspace(-6, 6, 24)[None],), np.sinh),
    Row("hyperbolic cosine", ops.cosh, ops.hyperbolic_cosine, (np.linspace(-6, 6, 24)[None],), np.cosh),
    Row("arc sine", ops.asin, ops.arc_sine, (np.linspace(-0.9, 0.9, 24)[None],), np.arcsin, tolerance=2e-2),
    Row("arc cosine", ops.acos, ops.arc_cosine, (np.linspace(-0.9, 0.9, 24)[None],), np.arccos, tolerance=2e-2),
    Row("area tangent", ops.atanh, ops.area_tangent, (np.linspace(-0.9, 0.9, 24)[None],), np.arctanh, tolerance=2e-2),
    Row("softplus", ops.softplus, ops.softplus_safe, (np.array([[-5.0, 0.0, 12.0, 60.0]]),), lambda a: np.logaddexp(a, 0), wrong=True),
    Row("log-sum-exp", lambda a: ops.reduce_log_sum_exp(a, 1, True), lambda a: ops.logsumexp(a, 1, True),
        (np.full((1, 32), 30.0),), lambda a: a[:, :1] + math.log(32)),
    Row("log-softmax", lambda a: ops.log(ops.softmax(a, 1), 0.0), lambda a: ops.log_softmax(a, 1),
        (np.array([[0.0, 60.0, 5.0]]),), lambda a: a - 60, wrong=True),
    Row("gelu by tanh", None, ops.gelu_tanh, (np.array([[-60.0, -1.0, 0.0, 2.0, 60.0]]),),
        lambda a: 0.5 * a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))),
    Row("mish", None, ops.mish, (np.array([[-5.0, 0.0, 12.0, 60.0]]),), lambda a: a * np.tanh(np.logaddexp(a, 0))),
    Row("layer norm of large values", None, lambda a: ops.layer_norm_fp16(a, 1, None, None, 1e-5), (3000 * normal(3, 16),),
        lambda a: (a - a.mean(1, keepdims=True)) / a.std(1, keepdims=True), tolerance=1e-2),
    Row("root mean square norm", None, lambda a: ops.rms_norm(a, 1), (0.003 * normal(3, 16),),
        lambda a: a / np.sqrt((a * a).mean(1, keepdims=True) + 1e-5), tolerance=2e-2),
    Row("long sum", lambda a: ops.reduce_sum(a, 1, True), lambda a: ops.reduce_sum_wide(a, 1), (np.ones((1, 4096)),),
        lambda a: a.sum(1, keepdims=True), wrong=True),
    Row("running sum", lambda a: ops.cumsum(a, 1), lambda a: ops.running_sum(a, 1), (normal(2, 9),), lambda a: a.cumsum(1)),
    Row("product", lambda a: ops.reduce_prod(a, 1, True), lambda a: ops.product(a, 1), (normal(2, 5),), lambda a: a.prod(1, keepdims=True)),
    Row("known places", lambda a: ops.gather(a, np.int32([3, 0, 4]), 1), lambda a: ops.gather_constant(a, SWAPPED, 1),
        (normal(2, 5),), lambda a: a[:, SWAPPED]),
    Row("place of the greatest", lambda a: ops.reduce_argmax(a, 1, True), lambda a: ops.argmax_first(a, 1),
        (normal(3, 9),), lambda a: a.argmax(1)[:, None] * 1.0),
    Row("the greatest few", lambda a: ops.topk(a, 2, 1, return_indices=False)[0], lambda a: ops.first_k(a, 2, 1)[0], (normal(3, 9),),
        lambda a: -np.sort(-a, 1)[:, :2], ("m1", "m2", "m3")),
    Row("every third", lambda a: ops.slice_by_index(a, (0, 1), (2, 10), (1, 3)), lambda a: ops.strided_slice(a, 1, 1, 3, 3),
        (normal(2, 10),), lambda a: a[:, 1::3], ("m1", "m2", "m3")),
    Row("pad of channels", lambda a: ops.pad(a, (0, 0, 1, 2, 0, 0, 0, 0), "constant", 0.5),
        lambda a: ops.pad_any(a, [(0, 0), (1, 2), (0, 0), (0, 0)], "constant", 0.5), (normal(1, 3, 4, 5),),
        lambda a: np.pad(a, ((0, 0), (1, 2), (0, 0), (0, 0)), constant_values=0.5)),
    Row("pad by the edge", lambda a: ops.pad(a, (0, 0, 0, 0, 1, 1, 2, 0), "replicate", 0.0),
        lambda a: ops.pad_any(a, [(0, 0), (0, 0), (1, 1), (2, 0)], "edge"), (normal(1, 3, 4, 5),),
        lambda a: np.pad(a, ((0, 0), (0, 0), (1, 1), (2, 0)), "edge")),
    Row("pool with unequal pads", lambda a: ops.max_pool(a, (2, 2), (1, 1), pad=(1, 0, 0, 1)),
        lambda a: ops.pool_any(a, "max", (2, 2), 1, [(1, 0), (0, 1)]), (normal(1, 2, 6, 8),), pooled),
    Row("convolution along one axis", lambda a: ops.conv(a, FILTER), lambda a: ops.conv_any(a, FILTER), (normal(1, 4, 12),),
        lambda a: correlated(a, FILTER)),
    Row("kernel wider than any engine's", lambda a: ops.conv(a, WIDE, pad=(0, 0, 0, 0)), lambda a: ops.conv_any(a, WIDE),
        (normal(1, 1, 2, 60),), lambda a: correlated(a[:, 0].transpose(1, 0, 2), WIDE[:, 0])[:, 0][None, None]),
    Row("nearest neighbours", lambda a: ops.resize_nearest_neighbor(a, 3, 8), lambda a: ops.resize_matmul(a, 3, NEAREST),
        (normal(1, 2, 3, 3),), lambda a: a[..., GRID], ("m1",)),
    Row("attention", None, lambda q: ops.attention(q, q, q), (normal(1, 2, 5, 4),),
        lambda q: soft(q @ np.swapaxes(q, -1, -2) / 2) @ q),
    Row("triangle", lambda a: ops.band_part(a, -1, 0), lambda a: ops.where(const(TRIANGLE), a, 0.0), (normal(5, 5),), np.tril),
    Row("einsum", None, lambda a, b: ops.einsum_any("ij,kj->ik", a, b), TWO, lambda a, b: a @ b.T),
    Row("norm of large values", None, lambda a: ops.reduce_l2(a, 1), (900 * np.ones((2, 8)),),
        lambda a: np.sqrt((a * a).sum(1, keepdims=True))),
    Row("threshold itself", lambda a: ops.thresholded_relu(a, 1.0), lambda a: ops.relu_above(a, 1.0),
        (np.array([[1.0, 0.5, 2.0]]),), lambda a: np.where(a > 1, a, 0), wrong=True),
)  # fmt: skip
