"""Pools. `ceil_mode` follows MIL's rule, which differs from ONNX's when nothing is padded; `pool_any` in `windows` is
safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import Tensor, Type
from .base import declare, floating, make, one_of, wholes
from .convolution import PAD_TYPES, window_extent


def ceil_extent(extent: int, kernel: int, stride: int, before: int, after: int, any_pad: bool) -> int:
    """MIL's ceil mode: floor((d + p - k + s - 1) / s) + 1, one less if there is padding and the last window starts
    beyond it.
    """
    out = (extent + before + after - kernel + stride - 1) // stride + 1
    return out - 1 if any_pad and (out - 1) * stride >= extent + before else out


def _pool(
    kind: str,
    x: Tensor,
    kernel_sizes: int | Sequence[int],
    strides: int | Sequence[int] | None,
    pad_type: str,
    pad: int | Sequence[int],
    ceil_mode: bool,
    extra: dict[str, Any],
) -> Tensor:
    floating(kind, "x", x)
    spatial = x.rank - 2
    if not 1 <= spatial <= 3:
        raise ValueError(f"{kind}: x has rank 3 to 5, not {x.rank} {x.shape}")
    kernel = wholes(kind, "kernel_sizes", kernel_sizes, spatial)
    stride = wholes(kind, "strides", 1 if strides is None else strides, spatial)
    pads = wholes(kind, "pad", pad, 2 * spatial)
    one_of(kind, "pad_type", pad_type, PAD_TYPES)
    if min(kernel) < 1 or min(stride) < 1 or min(pads) < 0:
        raise ValueError(f"{kind}: kernel_sizes {kernel} and strides {stride} are 1 and more, pad {pads} 0 and more")
    ceil = bool(ceil_mode)
    if ceil and (pad_type.startswith("same") or pads[::2] != pads[1::2]):
        raise ValueError(f"{kind}: ceil_mode needs pad_type valid or custom and symmetric pads, not {pad_type} {pads}")
    out = []
    for i, extent in enumerate(x.shape[2:]):
        if pad_type.startswith("same"):
            out.append(-(-extent // stride[i]))
            continue
        before, after = (pads[2 * i], pads[2 * i + 1]) if pad_type == "custom" else (0, 0)
        if ceil:
            out.append(ceil_extent(extent, kernel[i], stride[i], before, after, pad_type == "custom" and any(pads)))
        else:
            out.append(window_extent(extent, kernel[i], stride[i], 1, before, after))
        if out[-1] < 1:
            raise ValueError(f"{kind}: a window of {kernel[i]} does not fit into {extent} + {before} + {after}")
    params = {"kernel_sizes": kernel, "strides": stride, "pad_type": pad_type, "pad": pads, "ceil_mode": ceil, **extra}
    return make(kind, {"x": x}, params, Type(x.dtype, (*x.shape[:2], *out)))


@declare
def max_pool(
    x: Tensor,
    kernel_sizes: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pad_type: str = "custom",
    pad: int | Sequence[int] = 0,
    ceil_mode: bool = False,
) -> Tensor:
    """Greatest element of each window; padding never wins. `strides` default to 1."""
    return _pool("max_pool", x, kernel_sizes, strides, pad_type, pad, ceil_mode, {})


@declare
def avg_pool(
    x: Tensor,
    kernel_sizes: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pad_type: str = "custom",
    pad: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    exclude_padding_from_average: bool = False,
) -> Tensor:
    """Mean of each window; padding counts as zeros unless excluded (ONNX excludes it by default)."""
    extra = {"exclude_padding_from_average": bool(exclude_padding_from_average)}
    return _pool("avg_pool", x, kernel_sizes, strides, pad_type, pad, ceil_mode, extra)


@declare
def l2_pool(
    x: Tensor,
    kernel_sizes: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
    pad_type: str = "custom",
    pad: int | Sequence[int] = 0,
    ceil_mode: bool = False,
) -> Tensor:
    """Square root of the sum of squares of each window."""
    return _pool("l2_pool", x, kernel_sizes, strides, pad_type, pad, ceil_mode, {})
