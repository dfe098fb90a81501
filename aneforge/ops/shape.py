"""Layout: nothing here computes. All shapes are static."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..ir import Op, Tensor, Type
from .base import axes_of, axis_of, declare, floating, make, number, one_of, tensor, whole, wholes


@declare
def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """The same elements in another shape; one extent may be -1. (MIL's zeros count from the right: write extents.)"""
    tensor("reshape", "x", x)
    want = wholes("reshape", "shape", shape)
    if want.count(-1) == 1:
        rest = -math.prod(want)
        if rest <= 0 or x.type.size % rest:
            raise ValueError(f"reshape: {x.shape} does not fit {want}")
        want = tuple([x.type.size // rest if d == -1 else d for d in want])
    if any(d < 0 for d in want) or math.prod(want) != x.type.size:
        raise ValueError(f"reshape: {x.shape} does not fit {want}")
    return make("reshape", {"x": x}, {"shape": want}, Type(x.dtype, want))


@declare
def transpose(x: Tensor, perm: Sequence[int]) -> Tensor:
    """Axes in another order: result axis i is x's axis perm[i]."""
    tensor("transpose", "x", x)
    order = tuple([axis_of("transpose", "perm", p, x.rank) for p in wholes("transpose", "perm", perm, x.rank)])
    if len(set(order)) != x.rank:
        raise ValueError(f"transpose: perm {order} is no permutation of {x.rank} axes")
    return make("transpose", {"x": x}, {"perm": order}, Type(x.dtype, tuple([x.shape[p] for p in order])))


@declare
def expand_dims(x: Tensor, axes: int | Sequence[int]) -> Tensor:
    """New axes of extent 1; `axes` count in the result."""
    tensor("expand_dims", "x", x)
    count = 1 if isinstance(axes, int) else len(axes)
    at = axes_of("expand_dims", "axes", axes, x.rank + count)
    rest = iter(x.shape)
    shape = tuple([1 if i in at else next(rest) for i in range(x.rank + count)])
    return make("expand_dims", {"x": x}, {"axes": at}, Type(x.dtype, shape))


@declare
def squeeze(x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
    """Without the `axes`, each of extent 1; without all such axes if None."""
    tensor("squeeze", "x", x)
    at = (
        tuple([i for i, d in enumerate(x.shape) if d == 1])
        if axes is None
        else axes_of("squeeze", "axes", axes, x.rank)
    )
    if any(x.shape[i] != 1 for i in at):
        raise ValueError(f"squeeze: axes {at} of {x.shape} are not all 1")
    return make(
        "squeeze", {"x": x}, {"axes": at}, Type(x.dtype, tuple([d for i, d in enumerate(x.shape) if i not in at]))
    )


@declare
def flatten2d(x: Tensor, axis: int = 1) -> Tensor:
    """[product of the axes before `axis`, product of the rest]; axis may equal the rank."""
    tensor("flatten2d", "x", x)
    at = whole("flatten2d", "axis", axis)
    if not -x.rank <= at <= x.rank:
        raise ValueError(f"flatten2d: axis {at} is outside rank {x.rank}")
    at = at + x.rank if at < 0 else at
    shape = (math.prod(x.shape[:at]), math.prod(x.shape[at:]))
    return make("flatten2d", {"x": x}, {"axis": at}, Type(x.dtype, shape))


@declare
def concat(values: Sequence[Tensor], axis: int, interleave: bool = False) -> Tensor:
    """The values one after another along `axis`."""
    given = tuple([tensor("concat", "values", v) for v in values])
    if not given:
        raise ValueError("concat: no values")
    first = given[0]
    at = axis_of("concat", "axis", axis, first.rank)
    if interleave:
        raise ValueError("concat: interleave is not used; its engine form is untested")
    for other in given[1:]:
        if (
            other.dtype != first.dtype
            or other.rank != first.rank
            or any(a != b for i, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)) if i != at)
        ):
            raise ValueError(f"concat: {', '.join(str(t.type) for t in given)} do not fit along axis {at}")
    shape = tuple([sum([t.shape[at] for t in given]) if i == at else d for i, d in enumerate(first.shape)])
    return make("concat", {"values": given}, {"axis": at, "interleave": False}, Type(first.dtype, shape))


@declare
def stack(values: Sequence[Tensor], axis: int) -> Tensor:
    """The values side by side along a new axis."""
    given = tuple([tensor("stack", "values", v) for v in values])
    if not given or any(t.type != given[0].type for t in given):
        raise ValueError(f"stack: {', '.join(str(t.type) for t in given) or 'no values'} are not of one type")
    at = axis_of("stack", "axis", axis, given[0].rank + 1)
    shape = list(given[0].shape)
    shape.insert(at, len(given))
    return make("stack", {"values": given}, {"axis": at}, Type(given[0].dtype, tuple(shape)))


@declare
def split(
    x: Tensor, num_splits: int | None = None, split_sizes: Sequence[int] | None = None, axis: int = 0
) -> tuple[Tensor, ...]:
    """Consecutive pieces along `axis`: `num_splits` equal ones, or of the given sizes."""
    tensor("split", "x", x)
    at = axis_of("split", "axis", axis, x.rank)
    params: dict[str, Any]
    if split_sizes is not None:
        sizes = wholes("split", "split_sizes", split_sizes)
        params = {"split_sizes": sizes, "axis": at}
        if num_splits is not None and num_splits != len(sizes):
            raise ValueError(f"split: num_splits {num_splits} differs from split_sizes {sizes}")
    elif num_splits is not None:
        count = whole("split", "num_splits", num_splits)
        if count < 1 or x.shape[at] % count:
            raise ValueError(f"split: {x.shape} does not fall into {count} equal parts along axis {at}")
        sizes = (x.shape[at] // count,) * count
        params = {"num_splits": count, "axis": at}
    else:
        raise ValueError("split: num_splits or split_sizes must be given")
    if sum(sizes) != x.shape[at] or min(sizes, default=0) < 0:
        raise ValueError(f"split: sizes {sizes} do not make up axis {at} of {x.shape}")
    types = tuple([Type(x.dtype, (*x.shape[:at], size, *x.shape[at + 1 :])) for size in sizes])
    return Op("split", {"x": x}, params, types).outputs


@declare
def reverse(x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
    """Back to front along `axes` (all if None)."""
    tensor("reverse", "x", x)
    return make("reverse", {"x": x}, {"axes": axes_of("reverse", "axes", axes, x.rank)}, x.type)


@declare
def tile(x: Tensor, reps: Sequence[int]) -> Tensor:
    """Repeated reps[i] times along axis i."""
    tensor("tile", "x", x)
    times = wholes("tile", "reps", reps, x.rank)
    if min(times, default=1) < 1:
        raise ValueError(f"tile: reps {times} are 1 and more")
    return make(
        "tile", {"x": x}, {"reps": times}, Type(x.dtype, tuple([d * r for d, r in zip(x.shape, times, strict=True)]))
    )


@declare
def slice_by_size(x: Tensor, begin: Sequence[int], size: Sequence[int]) -> Tensor:
    """size[i] elements from begin[i] along axis i; size -1 means to the end."""
    tensor("slice_by_size", "x", x)
    start = wholes("slice_by_size", "begin", begin, x.rank)
    count = wholes("slice_by_size", "size", size, x.rank)
    count = tuple([d - b if c == -1 else c for d, b, c in zip(x.shape, start, count, strict=True)])
    if any(b < 0 or c < 0 or b + c > d for d, b, c in zip(x.shape, start, count, strict=True)):
        raise ValueError(f"slice_by_size: begin {start}, size {count} is outside {x.shape}")
    return make("slice_by_size", {"x": x}, {"begin": start, "size": count}, Type(x.dtype, count))


@declare
def slice_by_index(
    x: Tensor,
    begin: Sequence[int],
    end: Sequence[int],
    stride: Sequence[int] | None = None,
    begin_mask: Sequence[bool] | None = None,
    end_mask: Sequence[bool] | None = None,
    squeeze_mask: Sequence[bool] | None = None,
) -> Tensor:
    """Python's slicing of each axis; a mask stands for an absent bound; squeezed axes keep `begin` alone and vanish."""
    kind, rank = "slice_by_index", tensor("slice_by_index", "x", x).rank
    start, stop = wholes(kind, "begin", begin, rank), wholes(kind, "end", end, rank)
    step = wholes(kind, "stride", 1 if stride is None else stride, rank)
    none = (False,) * rank
    first, last, drop = (none if m is None else tuple(map(bool, m)) for m in (begin_mask, end_mask, squeeze_mask))
    if any(len(m) != rank for m in (first, last, drop)) or 0 in step:
        raise ValueError(f"{kind}: masks have {rank} places, strides are not 0")
    shape = []
    for i, extent in enumerate(x.shape):
        if drop[i]:
            if not -extent <= start[i] < extent:
                raise ValueError(f"{kind}: begin {start[i]} is outside axis {i} of {x.shape}")
            continue
        shape.append(len(range(extent)[slice(None if first[i] else start[i], None if last[i] else stop[i], step[i])]))
    params = {"begin": start, "end": stop, "stride": step, "begin_mask": first, "end_mask": last, "squeeze_mask": drop}
    return make(kind, {"x": x}, params, Type(x.dtype, tuple(shape)))


@declare
def pad(x: Tensor, pad: Sequence[int], mode: str = "constant", constant_val: float = 0.0) -> Tensor:
    """Cells before and after each of the last len(pad) / 2 axes, in turn. The engine pads H and W only: `pad_any`
    takes the rest.
    """
    floating("pad", "x", x)
    one_of("pad", "mode", mode, ("constant", "reflect", "replicate"))
    cells = wholes("pad", "pad", pad)
    axes = len(cells) // 2
    if len(cells) % 2 or axes > x.rank or min(cells, default=0) < 0:
        raise ValueError(f"pad: {cells} are pairs of 0 and more for the last axes of {x.shape}")
    shape = list(x.shape)
    for i in range(axes):
        at = x.rank - axes + i
        before, after = cells[2 * i], cells[2 * i + 1]
        if mode == "reflect" and max(before, after) >= shape[at]:
            raise ValueError(f"pad: reflecting {before} and {after} cells needs more than {shape[at]} along axis {at}")
        shape[at] += before + after
    params = {"pad": cells, "mode": mode, "constant_val": number("pad", "constant_val", constant_val)}
    return make("pad", {"x": x}, params, Type(x.dtype, tuple(shape)))


def _blocks(kind: str, name: str, x: Tensor, factor: int, *, merge: bool) -> tuple[int, Type]:
    floating(kind, "x", x)
    f = whole(kind, name, factor)
    if x.rank != 4 or f < 1:
        raise ValueError(f"{kind}: x has rank 4, not {x.shape}; {name} is 1 and more, not {f}")
    n, c, h, w = x.shape
    if (c % (f * f)) if merge else (h % f or w % f):
        raise ValueError(f"{kind}: {name} {f} does not divide {x.shape}")
    return f, Type(x.dtype, (n, c // (f * f), h * f, w * f) if merge else (n, c * f * f, h // f, w // f))


@declare
def depth_to_space(x: Tensor, block_size: int) -> Tensor:
    """Channels to blocks, block-major: ONNX DepthToSpace DCR."""
    f, result = _blocks("depth_to_space", "block_size", x, block_size, merge=True)
    return make("depth_to_space", {"x": x}, {"block_size": f}, result)


@declare
def space_to_depth(x: Tensor, block_size: int) -> Tensor:
    """Blocks to channels, block-major: ONNX SpaceToDepth."""
    f, result = _blocks("space_to_depth", "block_size", x, block_size, merge=False)
    return make("space_to_depth", {"x": x}, {"block_size": f}, result)


@declare
def pixel_shuffle(x: Tensor, upscale_factor: int) -> Tensor:
    """Channels to blocks, channel-major: ONNX DepthToSpace CRD."""
    f, result = _blocks("pixel_shuffle", "upscale_factor", x, upscale_factor, merge=True)
    return make("pixel_shuffle", {"x": x}, {"upscale_factor": f}, result)


@declare
def pixel_unshuffle(x: Tensor, downscale_factor: int) -> Tensor:
    """Blocks to channels, channel-major."""
    f, result = _blocks("pixel_unshuffle", "downscale_factor", x, downscale_factor, merge=False)
    return make("pixel_unshuffle", {"x": x}, {"downscale_factor": f}, result)


@declare
def space_to_batch(x: Tensor, block_shape: Sequence[int], paddings: Sequence[Sequence[int]]) -> Tensor:
    """Blocks of H, W to the batch: [N * b0 * b1, C, (H + pads) / b0, (W + pads) / b1]."""
    floating("space_to_batch", "x", x)
    b = wholes("space_to_batch", "block_shape", block_shape, 2)
    p = tuple([wholes("space_to_batch", "paddings", row, 2) for row in paddings])
    if x.rank != 4 or len(p) != 2 or min(b) < 1 or min(min(row) for row in p) < 0:
        raise ValueError(f"space_to_batch: x {x.shape} has rank 4, block_shape {b} two factors, paddings {p} two pairs")
    n, c, h, w = x.shape
    h, w = h + sum(p[0]), w + sum(p[1])
    if h % b[0] or w % b[1]:
        raise ValueError(f"space_to_batch: {b} does not divide {(h, w)}")
    return make(
        "space_to_batch",
        {"x": x},
        {"block_shape": b, "paddings": p},
        Type(x.dtype, (n * b[0] * b[1], c, h // b[0], w // b[1])),
    )


@declare
def batch_to_space(x: Tensor, block_shape: Sequence[int], crops: Sequence[Sequence[int]]) -> Tensor:
    """Batch to blocks of H, W: [N / (b0 * b1), C, H * b0 - crop, W * b1 - crop]."""
    floating("batch_to_space", "x", x)
    b = wholes("batch_to_space", "block_shape", block_shape, 2)
    p = tuple([wholes("batch_to_space", "crops", row, 2) for row in crops])
    if x.rank != 4 or len(p) != 2 or min(b) < 1 or x.shape[0] % (b[0] * b[1]):
        raise ValueError(
            f"batch_to_space: x {x.shape} has rank 4 and a batch that {b} divides; crops {p} are two pairs"
        )
    n, c, h, w = x.shape
    shape = (n // (b[0] * b[1]), c, h * b[0] - sum(p[0]), w * b[1] - sum(p[1]))
    if min(shape) < 1:
        raise ValueError(f"batch_to_space: crops {p} leave nothing")
    return make("batch_to_space", {"x": x}, {"block_shape": b, "crops": p}, Type(x.dtype, shape))


@declare
def identity(x: Tensor) -> Tensor:
    """x itself. No engine has it, and alone it crashes the compiler (Q29)."""
    return make("identity", {"x": tensor("identity", "x", x)}, {}, x.type)


@declare
def band_part(x: Tensor, lower: int = -1, upper: int = -1) -> Tensor:
    """x inside a band of the last two axes, 0 outside. No engine has it: `where` with a constant mask."""
    params = {"lower": whole("band_part", "lower", lower), "upper": whole("band_part", "upper", upper)}
    return make("band_part", {"x": tensor("band_part", "x", x)}, params, x.type)


@declare
def sliding_windows(x: Tensor, axis: int, size: int, stride: int = 1) -> Tensor:
    """Windows along `axis` as a new axis after it. No engine has it."""
    kind = "sliding_windows"
    at = axis_of(kind, "axis", axis, tensor(kind, "x", x).rank)
    length, step = whole(kind, "size", size), whole(kind, "stride", stride)
    if not 1 <= length <= x.shape[at] or step < 1:
        raise ValueError(f"{kind}: size {length} and stride {step} do not fit axis {at} of {x.shape}")
    shape = (*x.shape[:at], (x.shape[at] - length) // step + 1, length, *x.shape[at + 1 :])
    return make(kind, {"x": x}, {"axis": at, "size": length, "stride": step}, Type(x.dtype, shape))
