"""Operators that move elements and compute nothing, and the ones about shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from ..folding import BUDGET
from ..node import MAX_RANK, Node, broadcast, reshaped, whole, wholes
from ..registry import Any_, Data, Known, Raw, onnx_op
from ..shapes import reshape_target, shape_of, slices, split_sizes, unambiguous, wrap
from ..tensors import Array, numpy_dtype

EXTENT = 1 << 20
"""More elements along one axis than any engine takes."""
NEW = (13, 19, 21, 23, 24, 25)  # versions that only widened the list of types


@onnx_op("Identity", since=(1, 14, 16, *NEW), layout=True)
def identity(node: Node, x: Raw) -> Tensor:
    return x


@onnx_op("Shape", since=(1, 15, *NEW), layout=True)
def shape(node: Node, x: Any_, *, start: int = 0, end: int | None = None) -> Array:
    return shape_of(node.shape(0), start, end)


@onnx_op("Size", since=(1, *NEW), layout=True)
def size(node: Node, x: Any_) -> Array:
    return np.asarray(math.prod(node.shape(0)), np.int64)


@onnx_op("EyeLike", since=(9, 22), layout=True)
def eye_like(node: Node, x: Any_, *, dtype: int = 0, k: int = 0) -> Array:
    rows, columns = node.shape(0)
    kind = numpy_dtype(dtype) if dtype else node.dtype(0)
    if kind is None or kind == np.dtype(object):
        raise Refused("data type", "EyeLike of an unknown type")
    if max(rows, columns) > EXTENT or rows * columns > BUDGET:
        raise Refused("limit", f"a matrix of {rows} x {columns}")
    return np.eye(rows, columns, k).astype(kind)


@onnx_op("Reshape", since=(1, 5, 14, *NEW), layout=True)
def reshape(
    node: Node, x: Any_, target: Known | None = None, *, allowzero: int = 0, shape: Sequence[int] | None = None
) -> Tensor | Array:
    """To a shape that is an attribute (1) or an input: 0 copies an extent (unless allowzero), -1 is what is left."""
    want = wholes(target) if target is not None else shape
    if want is None:
        raise Refused("attribute form", "no shape")
    return node.shaped(node.elements(0), reshape_target(node.shape(0), want, bool(allowzero)))


@onnx_op("Flatten", since=(1, 9, 11, 13, 21, 23, 24, 25), layout=True)
def flatten(node: Node, x: Any_, *, axis: int = 1) -> Tensor | Array:
    given = node.shape(0)
    if not -len(given) <= axis <= len(given):
        raise Refused("attribute form", f"axis {axis} is outside rank {len(given)}")
    at = axis + len(given) if axis < 0 else axis
    return node.shaped(node.elements(0), (math.prod(given[:at]), math.prod(given[at:])))


@onnx_op("Transpose", since=(1, 13, 21, 23, 24, 25), layout=True)
def transpose(node: Node, x: Any_, *, perm: Sequence[int] | None = None) -> Tensor | Array:
    """Beyond rank 5, axes that stay beside one another are moved as one."""
    given = node.shape(0)
    order = list(perm) if perm is not None else list(reversed(range(len(given))))
    if sorted(order) != list(range(len(given))):
        raise Refused("attribute form", f"perm {order} is no permutation of {len(given)} axes")
    if len(given) <= MAX_RANK:
        return ops.transpose_if(node.data(0), order)
    blocks: list[list[int]] = []
    for axis in (a for a in order if given[a] != 1):
        if blocks and all(given[i] == 1 for i in range(blocks[-1][-1] + 1, axis)) and axis > blocks[-1][-1]:
            blocks[-1].append(axis)
        else:
            blocks.append([axis])
    if len(blocks) > MAX_RANK:
        raise Refused("rank", f"perm {order} of {given} moves {len(blocks)} axes apart from one another")
    before = sorted(blocks)
    merged = reshaped(node.elements(0), tuple(math.prod(given[i] for i in block) for block in before) or (1,))
    moved = ops.transpose_if(merged, [before.index(block) for block in blocks] or [0])
    return node.shaped(moved, tuple(given[i] for i in order))


@onnx_op("Squeeze", since=(1, 11, 13, 21, 23, 24, 25), layout=True)
def squeeze(node: Node, x: Any_, given: Known | None = None, *, axes: Sequence[int] | None = None) -> Tensor | Array:
    """Without axes: every axis of extent 1."""
    chosen, extents = wholes(given) if given is not None else axes, node.shape(0)
    rank = len(extents)
    at = {wrap(a, rank) for a in chosen} if chosen is not None else {i for i, d in enumerate(extents) if d == 1}
    if any(extents[i] != 1 for i in at):
        raise Refused("attribute form", f"axes {sorted(at)} of {extents} are not all 1")
    if rank > MAX_RANK:
        return node.shaped(node.elements(0), tuple(d for i, d in enumerate(extents) if i not in at))
    return ops.squeeze(node.data(0), sorted(at)) if at else node.data(0)


@onnx_op("Unsqueeze", since=(1, 11, 13, 21, 23, 24, 25), layout=True)
def unsqueeze(node: Node, x: Any_, given: Known | None = None, *, axes: Sequence[int] | None = None) -> Tensor | Array:
    """The axes count in the result, in any order."""
    chosen = wholes(given) if given is not None else list(axes or ())
    rank = len(node.shape(0)) + len(chosen)
    at = sorted({wrap(a, rank) for a in chosen})
    if len(at) != len(chosen):
        raise Refused("attribute form", f"axes {chosen} name an axis twice")
    if rank > MAX_RANK:
        rest = iter(node.shape(0))
        return node.shaped(node.elements(0), tuple(1 if i in at else next(rest) for i in range(rank)))
    return ops.expand_dims(node.data(0), at) if at else node.data(0)


@onnx_op("Concat", since=(1, 4, 11, 13), layout=True)
def concat(node: Node, *xs: Any_, axis: int | None = None) -> Tensor:
    """Known parts may be empty. Version 1 has a default for the axis."""
    if axis is None:
        if node.since > 1:
            raise Refused("attribute form", "the attribute 'axis' is missing")
        axis = 1
    parts = [node.data(i) for i, x in enumerate(xs) if not (isinstance(x, np.ndarray) and x.size == 0)]
    if not parts:
        raise Refused("limit", "every part is empty")
    at = wrap(axis, parts[0].rank)
    first = parts[0].shape
    if any(p.rank != len(first) or p.shape[:at] + p.shape[at + 1 :] != first[:at] + first[at + 1 :] for p in parts):
        raise Refused(
            "attribute form", f"the shapes {', '.join(str(p.shape) for p in parts)} do not fit along axis {at}"
        )
    return ops.concat_any(parts, at)


@onnx_op("Split", since=(1, 2, 11, 13, 18), layout=True)
def split(
    node: Node,
    x: Data,
    given: Known | None = None,
    *,
    axis: int | None = None,
    split: Sequence[int] | None = None,
    num_outputs: int | None = None,
) -> list[Tensor | Array | None]:
    """Pieces of given extents, or equal ones (from 18 on the last may be smaller). Version 1 names no default axis."""
    if axis is None and node.since == 1:
        raise Refused("attribute form", "no axis")
    at = wrap(axis or 0, x.rank)
    explicit = wholes(given) if given is not None else split
    sizes = split_sizes(x.shape[at], explicit, num_outputs or node.n_outputs)
    if len(sizes) != node.n_outputs or (explicit is None and node.since < 18 and x.shape[at] % node.n_outputs):
        raise Refused("attribute form", f"{x.shape[at]} elements in {node.n_outputs} pieces")
    if explicit is None and min(sizes) == 0:
        raise Refused("attribute form", f"{x.shape[at]} elements in {len(sizes)} equal pieces")
    begins = np.cumsum([0, *sizes]).tolist()

    def piece(begin: int, n: int) -> Tensor | Array:
        return ops.slice_axis(x, at, begin, n) if n else node.nothing((*x.shape[:at], 0, *x.shape[at + 1 :]))

    return [piece(begins[j], n) if node.wanted(j) else None for j, n in enumerate(sizes)]


@onnx_op("Slice", since=(1, 10, 11, 13), layout=True)
def slice_(
    node: Node,
    x: Data,
    first: Known | None = None,
    last: Known | None = None,
    along: Known | None = None,
    step: Known | None = None,
    *,
    starts: Sequence[int] = (),
    ends: Sequence[int] = (),
    axes: Sequence[int] | None = None,
) -> Tensor | Array:
    """Bounds as attributes (1) or as inputs, clamped to the axis; any step."""
    begins = wholes(first) if first is not None else list(starts)
    stops = wholes(last) if last is not None else list(ends)
    chosen = wholes(along) if along is not None else axes
    cuts = slices(x.shape, begins, stops, chosen, wholes(step) if step is not None else None)
    if any(count == 0 for _, count, _ in cuts):
        return node.nothing(tuple(count for _, count, _ in cuts))
    return ops.slice_box(x, [b for b, _, _ in cuts], [s for _, _, s in cuts], [n for _, n, _ in cuts])


@onnx_op("Expand", since=(8, 13), layout=True)
def expand(node: Node, x: Any_, target: Known) -> Tensor | Array:
    """Both broadcast: an extent of 1 in the target keeps the input's."""
    given = node.shape(0)
    if max(len(given), target.size) > MAX_RANK:
        return _expand_blocks(node, given, wholes(target))
    x = node.data(0)
    shape = broadcast(x.shape, tuple(wholes(target)))
    if math.prod(shape) > BUDGET:
        raise Refused("limit", f"a result of {list(shape)}")
    return ops.broadcast_to(reshaped(x, (1,) * len(shape)) if x.rank == 0 else x, shape)


def _expand_blocks(node: Node, given: tuple[int, ...], target: Sequence[int]) -> Tensor | Array:
    """Beyond rank 5: neighbouring axes that are all repeated, or none of them, as one."""
    try:
        shape = np.broadcast_shapes(given, tuple(target))
    except ValueError:
        raise Refused("attribute form", f"{given} does not broadcast to {list(target)}") from None
    full = (1,) * (len(shape) - len(given)) + given
    blocks: list[tuple[bool, int, int]] = []  # repeated, extent before, extent after
    for old, new in zip(full, shape, strict=True):
        if new == 1:
            continue
        if blocks and blocks[-1][0] == (old != new):
            blocks[-1] = (old != new, blocks[-1][1] * old, blocks[-1][2] * new)
        else:
            blocks.append((old != new, old, new))
    if len(blocks) > MAX_RANK:
        raise Refused("rank", f"{given} expands to {list(shape)} along {len(blocks)} axes apart from one another")
    merged = reshaped(node.elements(0), tuple(old for _, old, _ in blocks) or (1,))
    return node.shaped(ops.broadcast_to(merged, tuple(new for _, _, new in blocks) or (1,)), shape)


@onnx_op("Tile", since=(1, 6, 13), layout=True)
def tile(node: Node, x: Data, repeats: Known, along: Known | None = None) -> Tensor:
    """Each axis in turn, as a broadcast along a new axis before it: the engine's tile knows few factors. Version 1: a
    number of copies, and the axis."""
    times = wholes(repeats) if node.since > 1 else []
    if node.since == 1:
        if along is None:
            raise Refused("attribute form", "no axis")
        at, count = (whole(_counted(v), name) for v, name in ((along, "axis"), (repeats, "tiles")))
        times = [count if i == wrap(at, x.rank) else 1 for i in range(x.rank)]
    if len(times) != x.rank or min(times, default=1) < 1:
        raise Refused("attribute form", f"repeats {times} for the shape {x.shape}")
    for axis, n in enumerate(times):
        if n == 1:
            continue
        before, after = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
        copies = ops.broadcast_to(ops.reshape(x, (before, 1, after)), (before, n, after))
        x = ops.reshape(copies, (*x.shape[:axis], n * x.shape[axis], *x.shape[axis + 1 :]))
    return x


def _counted(value: Array) -> Array:
    """Whole numbers that version 1 of Tile has in the data's type."""
    exact = value.astype(np.int64) if np.isfinite(value).all() else value
    return exact if (exact == value).all() else value


@onnx_op("DepthToSpace", since=(1, 11, 13, 28), layout=True)
def depth_to_space(node: Node, x: Data, *, blocksize: int, mode: str = "DCR") -> Tensor:
    _blocks(x, blocksize, 1)
    if mode not in ("DCR", "CRD") or x.shape[1] % (blocksize * blocksize):
        raise Refused("attribute form", f"mode {mode!r}, blocks of {blocksize} for the shape {x.shape}")
    return ops.depth_to_space(x, blocksize) if mode == "DCR" else ops.pixel_shuffle(x, blocksize)


@onnx_op("SpaceToDepth", since=(1, 13, 28), layout=True)
def space_to_depth(node: Node, x: Data, *, blocksize: int, mode: str = "DCR") -> Tensor:
    _blocks(x, blocksize, blocksize)
    if mode not in ("DCR", "CRD"):
        raise Refused("attribute form", f"mode {mode!r}")
    return ops.space_to_depth(x, blocksize) if mode == "DCR" else ops.pixel_unshuffle(x, blocksize)


def _blocks(x: Tensor, blocksize: int, divides: int) -> None:
    if x.rank != 4:
        raise Refused("rank", f"blocks of an image of rank {x.rank}")
    if blocksize < 1 or x.shape[2] % divides or x.shape[3] % divides:
        raise Refused("attribute form", f"blocks of {blocksize} for the shape {x.shape}")


@onnx_op("Pad", since=(1, 2, 11, 18, *NEW), layout=True)
def pad(
    node: Node,
    x: Data,
    cells: Known | None = None,
    constant: Known | None = None,
    along: Known | None = None,
    *,
    mode: str = "constant",
    paddings: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    value: float = 0.0,
) -> Tensor:
    """Pads as attributes (1 and 2) or as inputs; negative ones cut."""
    if paddings is not None:
        pads = unambiguous(paddings)
    flat = wholes(cells) if cells is not None else list(pads or ())
    chosen = [wrap(a, x.rank) for a in wholes(along)] if along is not None else list(range(x.rank))
    if len(flat) != 2 * len(chosen) or len(set(chosen)) != len(chosen):
        raise Refused("attribute form", f"pads {flat} for {len(chosen)} axes")
    counts = [(0, 0)] * x.rank
    for i, axis in enumerate(chosen):
        counts[axis] = (flat[i], flat[i + len(chosen)])
    number = float(constant.reshape(-1)[0]) if constant is not None and constant.size else value
    if mode == "constant":
        if not math.isfinite(number):
            raise Refused("no engine form", f"a pad of {number}; a constant parameter of the engine is finite")
    elif mode not in ("reflect", "edge", "wrap"):
        raise Refused("attribute form", f"mode {mode!r}")
    node.moved.append((number, number))
    for extent, pair in zip(x.shape, counts, strict=True):
        most = extent - 1 if mode == "reflect" else extent
        if (mode != "constant" and min(pair) < 0) or (mode in ("reflect", "wrap") and max(pair) > most):
            raise Refused("attribute form", f"{mode} pads {pair} of {extent} elements")
        if max(pair) > EXTENT:
            raise Refused("limit", f"pads {pair}; an axis has at most {EXTENT} elements")
        if extent + min(pair[0], 0) + min(pair[1], 0) < 1:
            raise Refused("limit", f"pads {pair} leave nothing of {extent} elements")
    return ops.pad_any(x, counts, mode, number)


@onnx_op("CenterCropPad", since=(18,), layout=True)
def center_crop_pad(node: Node, x: Data, target: Known, *, axes: Sequence[int] | None = None) -> Tensor:
    """Each axis cut or padded with zeros on both sides; the odd cell is at the end."""
    chosen = [wrap(a, x.rank) for a in axes] if axes is not None else list(range(x.rank))
    wanted = wholes(target)
    if len(wanted) != len(chosen) or len(set(chosen)) != len(chosen) or not all(0 < n <= EXTENT for n in wanted):
        raise Refused("attribute form", f"extents {wanted} for the axes {chosen} of {x.shape}")
    counts = [(0, 0)] * x.rank
    for axis, n in zip(chosen, wanted, strict=True):
        more = n - x.shape[axis]
        before = abs(more) // 2
        counts[axis] = (before, more - before) if more > 0 else (-before, more + before)
    return ops.pad_any(x, counts)
