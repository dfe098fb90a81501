"""Reductions. `axes` None means all; `keep_dims` is False by default, as in MIL (ONNX keeps them)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..ir import Op, Tensor, Type
from .base import axes_of, axis_of, declare, floating, make, whole


class Reduction(Protocol):
    def __call__(self, x: Tensor, axes: int | Sequence[int] | None = None, keep_dims: bool = False) -> Tensor: ...


def reduced(shape: tuple[int, ...], axes: Sequence[int], keep_dims: bool) -> tuple[int, ...]:
    """`shape` with `axes` (non-negative) gone, or 1."""
    if keep_dims:
        return tuple([1 if i in axes else d for i, d in enumerate(shape)])
    return tuple([d for i, d in enumerate(shape) if i not in axes])


def _reduction(kind: str, doc: str) -> Reduction:
    def call(x: Tensor, axes: int | Sequence[int] | None = None, keep_dims: bool = False) -> Tensor:
        floating(kind, "x", x)
        over = axes_of(kind, "axes", axes, x.rank)
        if not over:
            raise ValueError(f"{kind}: no axes to reduce")
        keep = bool(keep_dims)
        return make(kind, {"x": x}, {"axes": over, "keep_dims": keep}, Type(x.dtype, reduced(x.shape, over, keep)))

    call.__name__ = call.__qualname__ = kind
    call.__doc__ = doc
    return declare(call, kind)


reduce_l1_norm = _reduction("reduce_l1_norm", "Sum of |x|; accumulates in fp16 (Q06)")
reduce_l2_norm = _reduction("reduce_l2_norm", "sqrt of the sum of x * x; may overflow above 255 (Q36): use `reduce_l2`")
reduce_log_sum = _reduction("reduce_log_sum", "log of the sum of x")
reduce_log_sum_exp = _reduction(
    "reduce_log_sum_exp", "Does not subtract the maximum on the engine (Q13): use `logsumexp`"
)
reduce_max = _reduction("reduce_max", "Greatest element")
reduce_mean = _reduction("reduce_mean", "Mean; accumulates in fp16 (Q06): use `reduce_mean_wide`")
reduce_min = _reduction("reduce_min", "Smallest element")
reduce_prod = _reduction("reduce_prod", "Product. No engine has it: use `product`")
reduce_sum = _reduction("reduce_sum", "Sum; accumulates in fp16 (Q06): use `reduce_sum_wide`")
reduce_sum_square = _reduction("reduce_sum_square", "Sum of x * x; accumulates in fp16 (Q06)")


def _arg(kind: str, x: Tensor, axis: int, keep_dims: bool, output_dtype: str) -> Tensor:
    floating(kind, "x", x)
    along = axis_of(kind, "axis", axis, x.rank)
    params = {"axis": along, "keep_dims": bool(keep_dims), "output_dtype": output_dtype}
    return make(kind, {"x": x}, params, Type(output_dtype, reduced(x.shape, (along,), keep_dims)))


@declare
def reduce_argmax(x: Tensor, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32") -> Tensor:
    """Index of the greatest element. No engine has it: use `argmax_first`."""
    return _arg("reduce_argmax", x, axis, keep_dims, output_dtype)


@declare
def reduce_argmin(x: Tensor, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32") -> Tensor:
    """Index of the smallest element. No engine has it: use `argmax_first` of -x."""
    return _arg("reduce_argmin", x, axis, keep_dims, output_dtype)


@declare
def cumsum(x: Tensor, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """Running sum. No engine has it: use `running_sum`."""
    floating("cumsum", "x", x)
    params = {"axis": axis_of("cumsum", "axis", axis, x.rank), "exclusive": bool(exclusive), "reverse": bool(reverse)}
    return make("cumsum", {"x": x}, params, x.type)


@declare
def topk(
    x: Tensor,
    k: int = 1,
    axis: int = -1,
    ascending: bool = False,
    sort: bool = True,
    return_indices: bool = True,
    output_indices_dtype: str = "int32",
) -> tuple[Tensor, ...]:
    """The k greatest (smallest if ascending) along `axis`, and their indices. Returns (values, indices), or
    (values,).
    """
    floating("topk", "x", x)
    along, count = axis_of("topk", "axis", axis, x.rank), whole("topk", "k", k)
    if not 1 <= count <= x.shape[along]:
        raise ValueError(f"topk: k {count} is outside 1 … {x.shape[along]}")
    shape = tuple([count if i == along else d for i, d in enumerate(x.shape)])
    params: dict[str, int | str] = {
        "k": count,
        "axis": along,
        "ascending": bool(ascending),
        "sort": bool(sort),
        "return_indices": bool(return_indices),
    }
    if return_indices:
        params["output_indices_dtype"] = output_indices_dtype
    types = (Type(x.dtype, shape), Type(output_indices_dtype, shape))
    return Op("topk", {"x": x}, params, types if return_indices else types[:1]).outputs
