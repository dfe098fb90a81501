"""Resizing of the last two axes, as MIL has it. Sample positions: coremltools 9.0 (iOS15 image_resizing), see each
mode.

`resize_matmul` in `contract` is exact for every ONNX mode and runs on every engine.
"""

from __future__ import annotations

from ..ir import Tensor, Type
from .base import declare, floating, make, number, one_of, whole

SAMPLING = ("DEFAULT", "ALIGN_CORNERS", "STRICT_ALIGN_CORNERS", "UNALIGN_CORNERS", "OFFSET_CORNERS")


def _sizes(kind: str, x: Tensor, height: int, width: int) -> tuple[int, int]:
    floating(kind, "x", x)
    if not 3 <= x.rank <= 5:
        raise ValueError(f"{kind}: x has rank 3 to 5, not {x.shape}")
    h, w = whole(kind, "height", height), whole(kind, "width", width)
    if h < 1 or w < 1:
        raise ValueError(f"{kind}: {h} x {w} is empty")
    return h, w


@declare
def resize_bilinear(
    x: Tensor, target_size_height: int = 1, target_size_width: int = 1, sampling_mode: str = "DEFAULT"
) -> Tensor:
    """Linear interpolation. DEFAULT reads at i * in / out, (STRICT_)ALIGN_CORNERS at i * (in - 1) / (out - 1),
    UNALIGN_CORNERS at (i + 0.5) * in / out - 0.5."""
    h, w = _sizes("resize_bilinear", x, target_size_height, target_size_width)
    mode = one_of("resize_bilinear", "sampling_mode", sampling_mode, SAMPLING)
    params = {"target_size_height": h, "target_size_width": w, "sampling_mode": mode}
    return make("resize_bilinear", {"x": x}, params, Type(x.dtype, (*x.shape[:-2], h, w)))


@declare
def resize_nearest_neighbor(x: Tensor, target_size_height: int, target_size_width: int) -> Tensor:
    """Reads at floor(i * in / out)."""
    h, w = _sizes("resize_nearest_neighbor", x, target_size_height, target_size_width)
    params = {"target_size_height": h, "target_size_width": w}
    return make("resize_nearest_neighbor", {"x": x}, params, Type(x.dtype, (*x.shape[:-2], h, w)))


def _scaled(kind: str, x: Tensor, height: float, width: float) -> tuple[float | int, float | int, Type]:
    floating(kind, "x", x)
    if not 3 <= x.rank <= 5:
        raise ValueError(f"{kind}: x has rank 3 to 5, not {x.shape}")
    sh, sw = number(kind, "scale_factor_height", height), number(kind, "scale_factor_width", width)
    h, w = int(x.shape[-2] * sh), int(x.shape[-1] * sw)
    if h < 1 or w < 1:
        raise ValueError(f"{kind}: {h} x {w} is empty")
    whole_or_not = [int(s) if s == int(s) else s for s in (sh, sw)]
    return whole_or_not[0], whole_or_not[1], Type(x.dtype, (*x.shape[:-2], h, w))


@declare
def upsample_nearest_neighbor(x: Tensor, scale_factor_height: float = 1, scale_factor_width: float = 1) -> Tensor:
    """Nearest, out = floor(in * scale)."""
    h, w, result = _scaled("upsample_nearest_neighbor", x, scale_factor_height, scale_factor_width)
    return make("upsample_nearest_neighbor", {"x": x}, {"scale_factor_height": h, "scale_factor_width": w}, result)


@declare
def upsample_bilinear(
    x: Tensor,
    scale_factor_height: float = 1,
    scale_factor_width: float = 1,
    align_corners: bool = True,
    half_pixel_centers: bool | None = None,
) -> Tensor:
    """Linear, out = floor(in * scale); align_corners as STRICT_ALIGN_CORNERS, else as UNALIGN_CORNERS."""
    h, w, result = _scaled("upsample_bilinear", x, scale_factor_height, scale_factor_width)
    params = {"scale_factor_height": h, "scale_factor_width": w, "align_corners": bool(align_corners)}
    if half_pixel_centers is not None and half_pixel_centers == bool(align_corners):
        raise ValueError(
            "upsample_bilinear: half_pixel_centers is the opposite of align_corners; other pairs have no meaning here"
        )
    return make("upsample_bilinear", {"x": x}, params, result)


@declare
def crop(x: Tensor, crop_height: tuple[int, int], crop_width: tuple[int, int]) -> Tensor:
    """Without the given rows (top, bottom) and columns (left, right)."""
    floating("crop", "x", x)
    rows, columns = tuple(map(int, crop_height)), tuple(map(int, crop_width))
    h, w = x.shape[-2] - sum(rows), x.shape[-1] - sum(columns)
    if min(*rows, *columns) < 0 or h < 1 or w < 1:
        raise ValueError(f"crop: {rows}, {columns} leave nothing of {x.shape}")
    return make("crop", {"x": x}, {"crop_height": rows, "crop_width": columns}, Type(x.dtype, (*x.shape[:-2], h, w)))
