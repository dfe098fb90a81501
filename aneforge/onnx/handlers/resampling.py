"""Resize and Upsample: exact for every sampling rule, as selections or products with known matrices, axis by axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor, const
from ..node import Node, wholes
from ..registry import Any_, Known, Number, onnx_op
from ..resample import Axis, cubic_matrix, linear_matrix, nearest_index, outside, sizes_by_policy, wide_matrix
from ..shapes import wrap
from ..tensors import Array
from .layout import EXTENT


@onnx_op("Upsample", since=(1, 7, 9))
def upsample(
    node: Node,
    x: Tensor,
    given: Known | None = None,
    *,
    mode: str = "nearest",
    scales: Sequence[float] = (),
    height_scale: float | None = None,
    width_scale: float | None = None,
) -> Tensor:
    """Scales of the last two axes (1), or of all, as an attribute (7) or as an input (9)."""
    if node.since == 1:
        if height_scale is None or width_scale is None or x.rank != 4:
            raise Refused("attribute form", "height_scale or width_scale is missing, or the rank is not 4")
        scales = (1.0, 1.0, height_scale, width_scale)
    factors = [float(s) for s in given.reshape(-1)] if given is not None else list(scales)
    return _resize(node, x, _scaled(x, factors, range(x.rank)), mode, "asymmetric", "simple")


@onnx_op("Resize", since=(10, 11, 13, 18, 19))
def resize(
    node: Node,
    x: Number,
    second: Any_ = None,
    scales: Known | None = None,
    sizes: Known | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """Inputs: scales (10), or roi, scales, sizes (from 11 on), where an empty tensor counts as absent."""
    if (given := node.dtype(0)) is not None and given.kind in "iu" and mode != "nearest":
        raise Refused("data type", f"Resize of {given} with mode {mode!r}: implementations round as they like")
    if node.since == 10:
        y = _resize(node, x, _scaled(x, _floats(node, 1), range(x.rank)), mode, "asymmetric", "simple")
        return node.prove(y, node.range(0)) if mode == "nearest" else y
    chosen = [wrap(a, x.rank) for a in axes] if axes is not None else list(range(x.rank))
    if _given(scales):
        plan = _scaled(x, _floats(node, 2), chosen)
    elif _given(sizes):
        wanted = wholes(node.known(3))
        if len(wanted) != len(chosen):
            raise Refused("attribute form", f"sizes {wanted} for {len(chosen)} axes")
        outs, factors = sizes_by_policy([x.shape[a] for a in chosen], wanted, keep_aspect_ratio_policy)
        plan = [Axis(d, d, 1.0) for d in x.shape]
        for a, out, factor in zip(chosen, outs, factors, strict=True):
            exact = out / x.shape[a] if keep_aspect_ratio_policy == "stretch" else None
            plan[a] = Axis(x.shape[a], out, factor, exact)
    else:
        raise Refused("attribute form", "neither scales nor sizes")
    if (
        coordinate_transformation_mode == "align_corners"
        and mode != "nearest"
        and any(a.extent > 1 and a.scale * a.extent != a.out and not a.same for a in plan)
        and _given(scales)
    ):
        raise Refused(
            "attribute form", "align_corners with a scale that gives no whole extent: texts and runtimes disagree"
        )
    if coordinate_transformation_mode == "tf_crop_and_resize":
        return _crop_and_resize(
            node,
            x,
            _regions(node, plan, chosen),
            mode,
            nearest_mode,
            cubic_coeff_a,
            exclude_outside,
            extrapolation_value,
        )
    y = _resize(
        node,
        x,
        plan,
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(exclude_outside),
        bool(antialias),
    )
    return node.prove(y, node.range(0)) if mode == "nearest" else y


def _regions(node: Node, plan: list[Axis], chosen: Sequence[int]) -> list[Axis]:
    """The plan with the regions of input 1: all beginnings, then all ends."""
    roi = _floats(node, 1)
    if len(roi) != 2 * len(chosen) or not np.isfinite(roi).all():
        raise Refused("attribute form", f"a roi of {len(roi)} numbers for {len(chosen)} axes")
    plan = list(plan)
    for k, axis in enumerate(chosen):
        if plan[axis].exact is None and plan[axis].scale * plan[axis].extent != plan[axis].out:
            raise Refused("attribute form", "tf_crop_and_resize with a scale that gives no whole extent")
        plan[axis] = replace(plan[axis], roi=(roi[k], roi[k + len(chosen)]))
    return plan


def _crop_and_resize(
    node: Node,
    x: Tensor,
    plan: list[Axis],
    mode: str,
    rounding: str,
    cubic: float,
    exclude_outside: int,
    extrapolation: float,
) -> Tensor:
    """Resized regions; what is read outside the input is the extrapolation value."""
    if not math.isfinite(extrapolation):
        raise Refused("attribute form", f"an extrapolation_value of {extrapolation}")
    y = _resize(node, x, plan, mode, "tf_crop_and_resize", rounding, cubic, bool(exclude_outside))
    beyond = np.zeros(y.shape, bool)
    for i, axis in enumerate(plan):
        beyond |= outside(axis).reshape([-1 if k == i else 1 for k in range(y.rank)])
    return ops.where(const(beyond), np.float32(extrapolation), y) if beyond.any() else y


def _given(value: Array | None) -> bool:
    return value is not None and value.size > 0


def _floats(node: Node, i: int) -> list[float]:
    return [float(v) for v in node.known(i).reshape(-1)]


def _scaled(x: Tensor, scales: Sequence[float], axes: Sequence[int]) -> list[Axis]:
    """floor(extent * scale) elements along each axis."""
    if len(scales) != len(axes) or any(not s > 0 or not math.isfinite(s) for s in scales):
        raise Refused("attribute form", f"scales {list(scales)} for {len(axes)} axes")
    plan = [Axis(d, d, 1.0) for d in x.shape]
    for a, s in zip(axes, scales, strict=True):
        scale = float(np.float32(s))
        plan[a] = Axis(x.shape[a], int(np.floor(np.float32(x.shape[a]) * np.float32(s))), scale)
    return plan


def _resize(
    node: Node,
    x: Tensor,
    plan: list[Axis],
    mode: str,
    coordinate: str,
    rounding: str,
    cubic: float = -0.75,
    exclude_outside: bool = False,
    antialias: bool = False,
) -> Tensor:
    if any(not 0 < a.out <= EXTENT for a in plan):
        raise Refused("limit", f"a result of {[a.out for a in plan]}")
    moved = [(i, a) for i, a in enumerate(plan) if not a.same]
    if moved and all(a.out == a.extent for a in plan):
        raise Refused("attribute form", "a scale that changes no extent, where runtimes copy and the text interpolates")
    antialias = antialias and mode != "nearest" and any(a.scale < 1 for a in plan)
    if not antialias and coordinate != "tf_crop_and_resize":
        native = _native(node, x, moved, plan, mode, coordinate, rounding)
        if native is not None:
            return native
    # Shrinking axes first: what follows has less to do.
    for i, axis in sorted(moved, key=lambda entry: entry[1].out / entry[1].extent):
        if mode == "nearest":
            x = ops.gather_constant(x, nearest_index(axis, coordinate, rounding), i)
        elif antialias and axis.scale < 1 and mode in ("linear", "bilinear", "cubic"):
            matrix = wide_matrix(axis, coordinate, cubic if mode == "cubic" else None, exclude_outside)
            x = ops.resize_matmul(x, i, matrix)
        elif mode in ("linear", "bilinear"):
            x = ops.resize_matmul(x, i, linear_matrix(axis, coordinate))
        elif mode == "cubic":
            x = ops.resize_matmul(x, i, cubic_matrix(axis, coordinate, cubic, exclude_outside))
        else:
            raise Refused("attribute form", f"mode {mode!r}")
    return x


def _native(
    node: Node, x: Tensor, moved: list[tuple[int, Axis]], plan: list[Axis], mode: str, coordinate: str, rounding: str
) -> Tensor | None:
    """The engine's own operation, where it reads at the very places that ONNX asks for and the target has it."""
    if x.rank != 4 or not moved or any(i < 2 for i, _ in moved):
        return None
    h, w = plan[2], plan[3]
    target = node.scope.target
    if mode == "nearest" and target.supports("resize_nearest_neighbor") is None:
        if all(_repeats(a, coordinate, rounding) for a in (h, w)):
            return ops.resize_nearest_neighbor(x, h.out, w.out)
    elif mode in ("linear", "bilinear") and target.supports("resize_bilinear") is None:
        if coordinate == "align_corners" and min(h.out, w.out) > 1:
            return ops.resize_bilinear(x, h.out, w.out, "STRICT_ALIGN_CORNERS")
        whole = coordinate == "asymmetric" and all(a.scale * a.extent == a.out for a in (h, w))
        if whole or node.scope.options.approx_resize:
            return ops.resize_bilinear(x, h.out, w.out, "DEFAULT")
    return None


def _repeats(axis: Axis, coordinate: str, rounding: str) -> bool:
    """Whether every element is repeated equally often, in place: the one form of nearest that is known of engines."""
    index = np.arange(axis.out) * axis.extent // axis.out
    return axis.out % axis.extent == 0 and bool((nearest_index(axis, coordinate, rounding) == index).all())
