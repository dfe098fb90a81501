"""Reductions and running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..shapes import wrap
from ..tensors import Array
from .table import TABLE, Call, Fold, Unfoldable, axes_from, scalar

Axes = tuple[int, ...] | None


def _reduce(compute: Callable[[Array, Axes, bool], Any], alone: bool, floats: bool = False) -> Fold:
    """A reduction.

    Args:
        alone: it is the identity for a single element, so that no axes (with noop_with_empty_axes) are no change; for
            the others texts and implementations disagree.
        floats: of integers, how the result is rounded is not said.
    """

    def run(
        call: Call,
        x: Array,
        given: Array | None = None,
        axes: Sequence[int] | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Array:
        at = axes_from(axes, given)
        if floats and x.dtype.kind in "iub":
            raise Unfoldable
        if not at and noop_with_empty_axes:
            if not alone:
                raise Unfoldable
            return x
        out = compute(x, tuple(at) if at else None, bool(keepdims))
        return np.asarray(out).astype(x.dtype, copy=False)

    return run


def _wide(x: Array) -> Array:
    return x if x.dtype.kind in "iub" else x.astype(np.float64)


def _total(x: Array, axes: Axes, keep: bool) -> Array:
    return np.asarray(np.sum(x, axes, dtype=x.dtype if x.dtype.kind in "iu" else None, keepdims=keep))


def _least(x: Array) -> Any:
    if x.dtype.kind == "b":
        return False
    return np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf


def _most(x: Array) -> Any:
    if x.dtype.kind == "b":
        return True
    return np.iinfo(x.dtype).max if x.dtype.kind in "iu" else np.inf


def _log_sum_exp(x: Array, axes: Axes, keep: bool) -> Array:
    wide = x.astype(np.float64)
    peak = np.max(wide, axes, keepdims=True, initial=-np.inf)
    peak = np.where(np.isfinite(peak), peak, 0)
    out = np.log(np.sum(np.exp(wide - peak), axes, keepdims=True)) + peak
    return np.asarray(out if keep else np.sum(out, axes))


TABLE["ReduceSum"] = _reduce(_total, alone=True)
TABLE["ReduceProd"] = _reduce(
    lambda x, a, k: np.prod(x, a, dtype=x.dtype if x.dtype.kind in "iu" else None, keepdims=k), alone=True
)
TABLE["ReduceMax"] = _reduce(lambda x, a, k: np.max(x, a, keepdims=k, initial=_least(x)), alone=True)
TABLE["ReduceMin"] = _reduce(lambda x, a, k: np.min(x, a, keepdims=k, initial=_most(x)), alone=True)
TABLE["ReduceMean"] = _reduce(lambda x, a, k: np.mean(x, a, keepdims=k), alone=True, floats=True)
TABLE["ReduceL1"] = _reduce(lambda x, a, k: _total(np.abs(x), a, k), alone=False)
TABLE["ReduceSumSquare"] = _reduce(lambda x, a, k: _total(x * x, a, k), alone=False)
TABLE["ReduceL2"] = _reduce(lambda x, a, k: np.sqrt(_total(_wide(x) ** 2, a, k)), alone=False, floats=True)
TABLE["ReduceLogSum"] = _reduce(lambda x, a, k: np.log(_total(_wide(x), a, k)), alone=False, floats=True)
TABLE["ReduceLogSumExp"] = _reduce(_log_sum_exp, alone=False, floats=True)


def _running(accumulate: Callable[..., Any], start: int) -> Fold:
    def run(call: Call, x: Array, axis: Array, exclusive: int = 0, reverse: int = 0) -> Array:
        at = wrap(int(scalar(axis)), x.ndim)
        if x.dtype.kind not in "iuf":
            raise Unfoldable
        way = np.flip(x, at) if reverse else x
        if exclusive:
            ahead = np.full_like(np.take(way, [0], at), start)
            way = np.concatenate([ahead, np.delete(way, -1, at)], at)
        out = accumulate(way, at, dtype=x.dtype if x.dtype.kind in "iu" else np.float64).astype(x.dtype)
        return np.flip(out, at) if reverse else out

    return run


TABLE["CumSum"] = _running(np.cumsum, 0)
TABLE["CumProd"] = _running(np.cumprod, 1)
