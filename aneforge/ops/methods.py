"""The graph API by hand: operators and methods of Tensor. `attach` puts them on the class; `aneforge.ops` does so on
import.

Names, defaults and meanings are those of ANEForge 0.4.0, so that a graph written for it builds here too; the forms
beneath are the safe ones. Reductions keep their dims. A rank above 5 is a ValueError; weights are float16, float32 or
float64 arrays (TypeError).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Tensor
from . import activation as a
from . import compare as c
from . import elementwise as e
from . import image
from . import normalize as n
from . import reduce as r
from . import shape as s
from .base import Operand
from .contract import matmul_any, running_sum
from .elementary import arc_tangent
from .layout import gather_constant, slice_box
from .masks import filled
from .norms import group_norm, l2_unit, layer_norm_fp16, rms_norm, standardize
from .order import argmax_first
from .rounding import round_half_even
from .smooth import clamp, power, prelu_any, softplus_safe
from .sums import log_sum, logsumexp, reduce_l1, reduce_mean_wide, reduce_sum_wide, sum_square
from .windows import add_bias, pool_any

Axes = int | Sequence[int] | None
MAX_RANK = 5


def checked(x: Tensor) -> Tensor:
    """x, whose rank is within the engine's. ValueError otherwise."""
    if x.rank > MAX_RANK:
        raise ValueError(f"{x.op.kind}: the engine takes ranks up to {MAX_RANK}, not {x.rank} {x.shape}")
    return x


def weight(op: str, name: str, given: object) -> NDArray[Any]:
    """A weight: a float16, float32 or float64 array. TypeError otherwise."""
    if not isinstance(given, np.ndarray) or given.dtype.kind != "f" or given.dtype.itemsize not in (2, 4, 8):
        what = given.dtype if isinstance(given, np.ndarray) else type(given).__name__
        raise TypeError(f"{op}: {name} is a float16, float32 or float64 array, not {what}")
    return given


def _t(x: TensorMethods) -> Tensor:
    if not isinstance(x, Tensor):
        raise TypeError(f"a Tensor is needed, not {type(x).__name__}")
    return x


class TensorMethods:
    """What Tensor can do in a graph written by hand."""

    __slots__ = ()

    # operators: numpy's broadcast; numbers and arrays become constants
    def __add__(self, other: Operand) -> Tensor:
        return e.add(_t(self), other)

    def __radd__(self, other: Operand) -> Tensor:
        return e.add(other, _t(self))

    def __sub__(self, other: Operand) -> Tensor:
        return e.sub(_t(self), other)

    def __rsub__(self, other: Operand) -> Tensor:
        return e.sub(other, _t(self))

    def __mul__(self, other: Operand) -> Tensor:
        return e.mul(_t(self), other)

    def __rmul__(self, other: Operand) -> Tensor:
        return e.mul(other, _t(self))

    def __truediv__(self, other: Operand) -> Tensor:
        return e.real_div(_t(self), other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return e.real_div(other, _t(self))

    def __pow__(self, other: Operand) -> Tensor:
        if isinstance(other, Tensor) or np.size(other) != 1:
            return e.pow(_t(self), other)
        return power(_t(self), float(np.asarray(other).reshape(())))

    def __rpow__(self, other: Operand) -> Tensor:
        return e.pow(other, _t(self))

    def __neg__(self) -> Tensor:
        return e.mul(_t(self), -1.0)

    def __abs__(self) -> Tensor:
        return e.abs(_t(self))

    def __matmul__(self, other: Operand) -> Tensor:
        """numpy's matmul; a 2-D array on the right is a weight."""
        return matmul_any(_t(self), other if isinstance(other, Tensor) else weight("@", "the right side", other))

    def __rmatmul__(self, other: Operand) -> Tensor:
        return matmul_any(weight("@", "the left side", other), _t(self))

    # products
    def linear(self, W: NDArray[Any], bias: NDArray[Any] | None = None) -> Tensor:
        """x @ W.T + bias; W [out, in]."""
        y = matmul_any(_t(self), weight("linear", "W", W).T)
        return y if bias is None else e.add(y, weight("linear", "bias", bias))

    def bmm_weight(self, W: NDArray[Any]) -> Tensor:
        """x @ W for a batched weight."""
        return matmul_any(_t(self), weight("bmm_weight", "W", W))

    # pointwise
    def relu(self) -> Tensor:
        return a.relu(_t(self))

    def relu6(self) -> Tensor:
        return a.relu6(_t(self))

    def gelu(self) -> Tensor:
        return a.gelu(_t(self))

    def silu(self) -> Tensor:
        return a.silu(_t(self))

    def sigmoid(self) -> Tensor:
        return a.sigmoid(_t(self))

    def tanh(self) -> Tensor:
        return a.tanh(_t(self))

    def exp(self) -> Tensor:
        return e.exp(_t(self))

    def exp2(self) -> Tensor:
        return e.exp2(_t(self))

    def sqrt(self) -> Tensor:
        return e.sqrt(_t(self))

    def abs(self) -> Tensor:
        return e.abs(_t(self))

    def square(self) -> Tensor:
        return e.mul(_t(self), _t(self))

    def sin(self) -> Tensor:
        return e.sin(_t(self))

    def cos(self) -> Tensor:
        return e.cos(_t(self))

    def erf(self) -> Tensor:
        return e.erf(_t(self))

    def softplus(self) -> Tensor:
        return softplus_safe(_t(self))

    def softsign(self) -> Tensor:
        return a.softsign(_t(self))

    def atan(self) -> Tensor:
        return arc_tangent(_t(self))

    def floor(self) -> Tensor:
        return e.floor(_t(self))

    def ceil(self) -> Tensor:
        return e.ceil(_t(self))

    def round(self) -> Tensor:
        """Ties to even."""
        return round_half_even(_t(self))

    def sign(self) -> Tensor:
        return e.sign(_t(self))

    def log(self, eps: float = 0.0) -> Tensor:
        return e.log(_t(self), eps)

    def rsqrt(self, eps: float = 0.0) -> Tensor:
        return e.rsqrt(_t(self), eps)

    def inverse(self, eps: float = 0.0) -> Tensor:
        return e.inverse(_t(self), eps)

    def elu(self, alpha: float = 1.0) -> Tensor:
        return a.elu(_t(self), alpha)

    def leaky_relu(self, alpha: float = 0.01) -> Tensor:
        return a.leaky_relu(_t(self), alpha)

    def clip(self, lo: float, hi: float) -> Tensor:
        return clamp(_t(self), lo, hi)

    def clamp(self, lo: float | None = None, hi: float | None = None) -> Tensor:
        return clamp(_t(self), lo, hi)

    def scaled_tanh(self, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
        """alpha * tanh(beta * x)."""
        return a.scaled_tanh(_t(self), alpha, beta)

    def threshold(self, alpha: float = 0.0) -> Tensor:
        """max(x, alpha)."""
        return e.threshold(_t(self), alpha)

    def thresholded_relu(self, alpha: float = 1.0) -> Tensor:
        """x where x >= alpha, else 0 (MIL's meaning; ONNX's is x > alpha)."""
        x = _t(self)
        return c.select(c.greater_equal(x, alpha), x, filled(x.shape, 0.0))

    def clamped_relu(self, alpha: float = 0.0, beta: float = 6.0) -> Tensor:
        """min(beta, x) for x >= 0, min(beta, alpha * x) elsewhere."""
        return a.clamped_relu(_t(self), alpha, beta)

    def sigmoid_hard(self, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
        return a.sigmoid_hard(_t(self), alpha, beta)

    def linear_activation(self, alpha: float = 1.0, beta: float = 0.0) -> Tensor:
        """alpha * x + beta."""
        return a.linear_activation(_t(self), alpha, beta)

    def prelu(self, alpha: NDArray[Any]) -> Tensor:
        """alpha [C], along axis 1."""
        slope = weight("prelu", "alpha", alpha)
        return prelu_any(_t(self), slope.reshape(-1, *(1,) * (_t(self).rank - 2)) if slope.size > 1 else slope)

    def pow(self, o: Operand) -> Tensor:
        """x ** o."""
        return _t(self) ** o

    def adds(self, k: float) -> Tensor:
        """x + k."""
        return e.add(_t(self), float(k))

    # comparisons: bool, only inside a graph
    def greater(self, other: Operand) -> Tensor:
        return c.greater(_t(self), other)

    def less(self, other: Operand) -> Tensor:
        return c.less(_t(self), other)

    def equal(self, other: Operand) -> Tensor:
        return c.equal(_t(self), other)

    def not_equal(self, other: Operand) -> Tensor:
        return c.not_equal(_t(self), other)

    def less_equal(self, other: Operand) -> Tensor:
        return c.less_equal(_t(self), other)

    def greater_equal(self, other: Operand) -> Tensor:
        return c.greater_equal(_t(self), other)

    def logical_not(self) -> Tensor:
        return c.logical_not(_t(self))

    # reductions, dims kept
    def mean(self, axes: Axes = None) -> Tensor:
        return reduce_mean_wide(_t(self), axes)

    def sum(self, axes: Axes = None) -> Tensor:
        return reduce_sum_wide(_t(self), axes)

    def amax(self, axes: Axes = None) -> Tensor:
        return r.reduce_max(_t(self), axes, True)

    def amin(self, axes: Axes = None) -> Tensor:
        return r.reduce_min(_t(self), axes, True)

    def l1_norm(self, axes: Axes = None) -> Tensor:
        return reduce_l1(_t(self), axes)

    def log_sum(self, axes: Axes = None) -> Tensor:
        return log_sum(_t(self), axes)

    def sum_square(self, axes: Axes = None) -> Tensor:
        return sum_square(_t(self), axes)

    def reduce_log_sum_exp(self, axes: Axes = None) -> Tensor:
        return logsumexp(_t(self), axes)

    def cumsum(self, axis: int = -1) -> Tensor:
        return running_sum(_t(self), axis)

    def softmax(self, axis: int = -1) -> Tensor:
        return a.softmax(_t(self), axis)

    def l2_norm(self, axis: int = -1, eps: float = 1e-12) -> Tensor:
        """x / sqrt(sum(x²) + eps)."""
        return l2_unit(_t(self), axis, eps)

    def argmax(self, axis: int = -1) -> Tensor:
        """Index of the first greatest element as a whole number in fp16; up to 2048 elements. The axis stays as 1."""
        return argmax_first(_t(self), axis)

    # layout
    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        return checked(s.reshape(_t(self), _spread(shape)))

    def transpose(self, *perm: int | Sequence[int]) -> Tensor:
        return s.transpose(_t(self), _spread(perm) or tuple(reversed(range(_t(self).rank))))

    def squeeze(self, axes: Axes = None) -> Tensor:
        return s.squeeze(_t(self), axes)

    def expand_dims(self, axes: int | Sequence[int]) -> Tensor:
        return checked(s.expand_dims(_t(self), axes))

    def flatten2d(self, axis: int = 1) -> Tensor:
        return s.flatten2d(_t(self), axis)

    def slice_by_size(self, begin: Sequence[int], size: Sequence[int]) -> Tensor:
        return s.slice_by_size(_t(self), begin, size)

    def reverse(self, axes: Axes = None) -> Tensor:
        return s.reverse(_t(self), axes)

    def tile(self, reps: Sequence[int]) -> Tensor:
        return s.tile(_t(self), reps)

    def __getitem__(self, index: Any) -> Tensor:
        """Ints, slices and an ellipsis, as in numpy; an array of known indices for one axis."""
        return _index(_t(self), index)

    # normalizations
    def rms_norm(self, gamma: NDArray[Any], eps: float = 1e-5) -> Tensor:
        return rms_norm(_t(self), -1, weight("rms_norm", "gamma", gamma), eps)

    def layer_norm(self, gamma: NDArray[Any], beta: NDArray[Any], eps: float = 1e-5) -> Tensor:
        """Over the last axis."""
        return layer_norm_fp16(
            _t(self), -1, weight("layer_norm", "gamma", gamma), weight("layer_norm", "beta", beta), eps
        )

    def channel_layer_norm(self, gamma: NDArray[Any], beta: NDArray[Any], eps: float = 1e-5) -> Tensor:
        """Over axis 1 of [N, C, ..]."""
        x = _t(self)
        shape = (1, -1, *(1,) * (x.rank - 2))
        scale, shift = weight("channel_layer_norm", "gamma", gamma), weight("channel_layer_norm", "beta", beta)
        return e.add(e.mul(standardize(x, 1, eps), scale.reshape(shape)), shift.reshape(shape))

    def group_norm(self, gamma: NDArray[Any], beta: NDArray[Any], num_groups: int, eps: float = 1e-5) -> Tensor:
        return group_norm(
            _t(self), num_groups, weight("group_norm", "gamma", gamma), weight("group_norm", "beta", beta), eps
        )

    # pools and resampling
    def max_pool(
        self,
        k: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        pad: int | Sequence[int] = 0,
        ceil_mode: bool = False,
    ) -> Tensor:
        """Windows of k, `stride` defaults to k; pad one number or (top, bottom, left, right)."""
        return pool_any(_t(self), "max", k, k if stride is None else stride, pairs(pad, 2), ceil_mode)

    def avg_pool(
        self,
        k: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        pad: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        exclude_pad: bool = False,
    ) -> Tensor:
        return pool_any(_t(self), "avg", k, k if stride is None else stride, pairs(pad, 2), ceil_mode, not exclude_pad)

    def upsample(self, scale: int = 2) -> Tensor:
        """Nearest, by a whole factor, along H and W."""
        x = _t(self)
        return image.resize_nearest_neighbor(x, x.shape[-2] * scale, x.shape[-1] * scale)

    def local_response_norm(self, size: int = 5, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
        return n.local_response_norm(_t(self), size, alpha, beta, k)

    def add_bias(self, bias: NDArray[Any]) -> Tensor:
        """x + bias along axis 1."""
        return add_bias(_t(self), weight("add_bias", "bias", bias))


def pairs(pad: int | Sequence[int], spatial: int) -> list[tuple[int, int]]:
    """One number, one for each axis, or (before, after) for each axis in turn, as pairs."""
    if isinstance(pad, int):
        return [(pad, pad)] * spatial
    if len(pad) == spatial:
        return [(p, p) for p in pad]
    if len(pad) != 2 * spatial:
        raise ValueError(f"pad: 1, {spatial} or {2 * spatial} numbers, not {tuple(pad)}")
    return [(pad[2 * i], pad[2 * i + 1]) for i in range(spatial)]


def _spread(given: tuple[int | Sequence[int], ...]) -> tuple[int, ...]:
    if len(given) == 1 and not isinstance(given[0], (int, np.integer)):
        return tuple(given[0])
    return tuple(given)  # type: ignore[arg-type]


def _index(x: Tensor, index: Any) -> Tensor:
    items = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [i for i in items if not isinstance(i, np.ndarray)]:
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = [slice(None)] * (x.rank - len(items) + 1)
    if len(items) > x.rank:
        raise IndexError(f"{len(items)} indices for {x.shape}")
    items += [slice(None)] * (x.rank - len(items))
    starts, steps, counts, drop = [], [], [], []
    chosen: list[tuple[int, NDArray[np.int64]]] = []
    for axis, (item, extent) in enumerate(zip(items, x.shape, strict=True)):
        if isinstance(item, (int, np.integer)):
            if not -extent <= item < extent:
                raise IndexError(f"index {item} is outside axis {axis} of {x.shape}")
            starts.append(int(item) % extent)
            steps.append(1)
            counts.append(1)
            drop.append(axis)
            continue
        if not isinstance(item, slice):
            chosen.append((axis, np.asarray(item)))
            item = slice(None)  # noqa: PLW2901
        span = range(extent)[item]
        if not len(span):
            raise IndexError(f"slice {item} of axis {axis} of {x.shape} is empty")
        starts.append(span.start)
        steps.append(span.step)
        counts.append(len(span))
    if len(chosen) > 1 or any(ids.dtype.kind not in "iu" or ids.ndim != 1 for _, ids in chosen):
        raise TypeError("one axis takes a list of known indices, the others ints and slices")
    out = slice_box(x, starts, steps, counts)
    for axis, ids in chosen:
        out = gather_constant(out, ids, axis)
    return s.squeeze(out, drop) if drop else out


def attach() -> None:
    """Gives Tensor the methods above."""
    for name, value in vars(TensorMethods).items():
        if name not in ("__module__", "__doc__", "__slots__", "__qualname__") and callable(value):
            setattr(Tensor, name, value)
