"""What a target does not take, said of one Op: vocabulary, ranks, extents, forms. Nothing is rewritten here."""

from __future__ import annotations

from ..errors import Reason
from ..ir import Op, Tensor
from ..targets import Target
from .attention import distrust, engine_form

_BOOL = frozenset({"equal", "greater", "greater_equal", "less", "less_equal", "not_equal", "logical_not"})
_WINDOWED = frozenset({"conv", "conv_transpose", "max_pool", "avg_pool", "l2_pool"})


def refusal(op: Op, target: Target) -> Reason | None:
    """Why the engine does not take `op` as it stands; None if it does."""
    if op.kind == "const":
        return None
    if op.kind != "input":
        missing = target.supports(op.kind)
        if missing is not None:
            return Reason("no engine form", missing)
    for tensor in op.outputs:
        reason = _extent(op.kind, tensor, target) or _dtype(op, tensor)
        if reason is not None:
            return reason
    if op.kind in _WINDOWED:
        return _window(op, target)
    form = _FORMS.get(op.kind)
    return None if form is None else form(op, target)


def _extent(kind: str, tensor: Tensor, target: Target) -> Reason | None:
    shape, limits = tensor.shape, target.limits
    if len(shape) > limits.max_rank:
        return Reason(
            "rank", f"{kind} of rank {len(shape)} {list(shape)}: the engine takes ranks up to {limits.max_rank}"
        )
    for axis, (extent, most) in enumerate(zip(shape, limits.extents(len(shape)), strict=True)):
        if extent > most:
            text = f"{kind} {list(shape)}: axis {axis} has {extent} elements, the engine takes {most} on {target.chips}"
            return Reason("limit", text)
        if extent < 1:
            return Reason("limit", f"{kind} {list(shape)}: axis {axis} is empty")
    return None


def _dtype(op: Op, tensor: Tensor) -> Reason | None:
    dtype = tensor.dtype
    if dtype == "fp16" or (dtype == "bool" and (op.kind in _BOOL or op.kind == "input")):
        return None
    if dtype == "uint8" and op.kind == "input":
        return None
    return Reason("data type", f"{op.kind} gives {dtype}, which the engine does not compute in")


def _window(op: Op, target: Target) -> Reason | None:
    x, limits = op.operand("x"), target.limits
    what = op.kind
    if x.rank != 4:
        return Reason("rank", f"{what} of rank {x.rank}: the engine has one and two spatial axes")
    if what in ("conv", "conv_transpose"):
        weight = op.operand("weight")
        spans = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], op.params["dilations"], strict=True)]
        if not (weight.is_const or weight.op.kind.startswith("constexpr_")):
            if what == "conv_transpose":
                return Reason(
                    "computed parameter", "conv_transpose with a weight computed at run time has no engine form"
                )
            if x.shape[0] > 1 or max(op.params["dilations"]) > 1:
                text = "conv with a weight computed at run time takes a batch of 1 and no dilation (Q33)"
                return Reason("computed parameter", text)
        if (
            spans[0] > limits.kernel_height
            or spans[1] > limits.kernel_width
            or max(op.params["dilations"]) > limits.dilation
        ):
            most = f"{limits.kernel_height} x {limits.kernel_width}, dilation {limits.dilation}"
            return Reason(
                "limit", f"{what} with a kernel of {spans[0]} x {spans[1]} (dilated): the engine takes {most}"
            )
        if what == "conv":
            top, bottom, left, right = op.params["pad"]
            if spans[0] > x.shape[2] + top + bottom or spans[1] > x.shape[3] + left + right:
                return Reason("limit", f"conv with a kernel {spans} larger than its input {list(x.shape)}")
        return None
    kernel = op.params["kernel_sizes"]
    if max(kernel) > limits.pool_window:
        return Reason("limit", f"{what} with a window of {kernel}: the engine takes up to {limits.pool_window}")
    top, bottom, left, right = op.params["pad"]
    if (top, left) != (bottom, right):
        return Reason(
            "attribute form", f"{what} with unequal pads {op.params['pad']}: the engine is only sure of symmetric ones"
        )
    if top >= kernel[0] or left >= kernel[1]:
        return Reason("attribute form", f"{what} with pads {op.params['pad']} not smaller than its window {kernel}")
    return None


def _matmul(op: Op, target: Target) -> Reason | None:
    x, y, limits = op.operand("x"), op.operand("y"), target.limits
    if max(x.rank, y.rank) > limits.matmul_rank:
        return Reason(
            "rank", f"matmul of rank {max(x.rank, y.rank)}: the engine takes ranks up to {limits.matmul_rank}"
        )
    for operand in (x, y):
        reason = _extent("matmul", operand, target)
        if reason is not None:
            return reason
    return None


def _linear(op: Op, target: Target) -> Reason | None:
    x = op.operand("x")
    if x.rank > target.limits.linear_rank:
        return Reason("rank", f"linear of rank {x.rank}: the engine takes ranks up to {target.limits.linear_rank}")
    return _extent("linear", op.operand("weight"), target)


def _transpose(op: Op, target: Target) -> Reason | None:
    x, most = op.operand("x"), target.limits.max_transpose
    moved = [x.shape[p] for i, p in enumerate(op.params["perm"]) if p != i]
    if max(moved, default=0) > most:
        return Reason(
            "limit", f"transpose of {list(x.shape)}: an axis of {max(moved)} elements, the engine moves up to {most}"
        )
    return None


def _topk(op: Op, target: Target) -> Reason | None:
    if op.params["k"] in target.limits.topk_refused_k:
        return Reason("limit", f"topk with k = {op.params['k']} does not compile")
    return None


def _cast(op: Op, target: Target) -> Reason | None:
    x = op.operand("x")
    if x.op.kind == "input" and x.dtype == "uint8" and op.types[0].dtype == "fp16":
        return None
    return Reason(
        "data type", f"cast from {x.dtype} to {op.types[0].dtype}: the engine casts only uint8 inputs to fp16"
    )


def _pad(op: Op, target: Target) -> Reason | None:
    x = op.operand("x")
    cells = (0,) * (2 * x.rank - len(op.params["pad"])) + op.params["pad"]
    if x.rank != 4 or any(cells[:4]):
        return Reason("attribute form", "pad of other axes than H and W")
    if op.params["mode"] == "replicate":
        return Reason("attribute form", "pad that repeats the edge has no verified form")
    return None


def _image(op: Op, target: Target) -> Reason | None:
    x = op.operand("x")
    if x.rank != 4:
        return Reason("rank", f"{op.kind} of rank {x.rank}: the engine takes rank 4")
    if (
        op.params.get("sampling_mode") in ("UNALIGN_CORNERS", "OFFSET_CORNERS")
        or op.params.get("align_corners") is False
    ):
        return Reason("attribute form", f"{op.kind} with half-pixel sampling was never checked on an engine")
    return None


def _blocks(op: Op, target: Target) -> Reason | None:
    factor = next(iter(op.params.values()))
    if op.kind.startswith("pixel") and factor not in (1, 2, 3, 4, 8):
        return Reason("limit", f"{op.kind} by {factor}: the engine takes factors 1, 2, 3, 4 and 8")
    return None


def _concat(op: Op, target: Target) -> Reason | None:
    if sum(s.is_const for s in op.sources) > 1 and len(op.sources) > 2:
        return Reason("attribute form", "concat of a value between two constants does not always compile (Q32)")
    if all(s.is_const for s in op.sources):
        return Reason("no engine form", "concat of constants alone")
    return None


def _select(op: Op, target: Target) -> Reason | None:
    if op.operand("a").dtype != "fp16":
        return Reason("data type", f"select of {op.operand('a').dtype}: the engine selects fp16 values")
    return None


def _attention(op: Op, target: Target) -> Reason | None:
    why = distrust(op, bool(engine_form(target)))
    return None if why is None else Reason("attribute form", f"{op.kind}: {why}")


_FORMS = {
    "scaled_dot_product_attention": _attention,
    "matmul": _matmul,
    "linear": _linear,
    "transpose": _transpose,
    "topk": _topk,
    "cast": _cast,
    "pad": _pad,
    "concat": _concat,
    "select": _select,
    "pixel_shuffle": _blocks,
    "pixel_unshuffle": _blocks,
    "resize_bilinear": _image,
    "resize_nearest_neighbor": _image,
    "upsample_bilinear": _image,
    "upsample_nearest_neighbor": _image,
}
