"""ONNX's arithmetic of shapes, on plain integers. Folding and the handlers share it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .tensors import Array


class Malformed(ValueError):
    """What an attribute or a parameter says does not fit the shapes: the model's fault."""


def shape_of(shape: Sequence[int], start: int = 0, end: int | None = None) -> Array:
    """What ONNX Shape gives."""
    rank = len(shape)
    first = max(0, min(rank, start + rank if start < 0 else start))
    last = rank if end is None else max(0, min(rank, end + rank if end < 0 else end))
    return np.asarray(shape[first:last], np.int64)


def wrap(axis: int, rank: int) -> int:
    """A non-negative axis. Malformed outside the rank."""
    if not -rank <= axis < rank:
        raise Malformed(f"axis {axis} is outside rank {rank}")
    return axis + rank if axis < 0 else axis


def reshape_target(shape: Sequence[int], target: Sequence[int], allowzero: bool = False) -> tuple[int, ...]:
    """The extents that ONNX Reshape gives: 0 copies (unless allowzero), -1 is what is left.

    Raises:
        Malformed: the element counts differ."""
    if not allowzero and any(d == 0 and i >= len(shape) for i, d in enumerate(target)):
        raise Malformed(f"target {list(target)} copies an extent that {list(shape)} does not have")
    out = [shape[i] if d == 0 and not allowzero else int(d) for i, d in enumerate(target)]
    if out.count(-1) > 1 or any(d < -1 for d in out):
        raise Malformed(f"target {list(target)} has more than one unknown extent")
    if -1 in out:
        rest = -math.prod(out)
        if rest == 0 or math.prod(shape) % rest:
            raise Malformed(f"{list(shape)} does not fit {list(target)}")
        out[out.index(-1)] = math.prod(shape) // rest
    if math.prod(out) != math.prod(shape):
        raise Malformed(f"{list(shape)} does not fit {list(target)}")
    return tuple(out)


def split_sizes(extent: int, sizes: Sequence[int] | None, parts: int) -> list[int]:
    """Extents of the pieces: as given, or `parts` equal ones, the last smaller if it must be."""
    if sizes is not None:
        if sum(sizes) != extent or min(sizes, default=-1) < 0:
            raise Malformed(f"sizes {list(sizes)} do not make up {extent}")
        return list(sizes)
    each = -(-extent // parts)
    return [max(0, min(each, extent - i * each)) for i in range(parts)]


def aligned(x: Sequence[int], y: Sequence[int], broadcast: bool, axis: int | None) -> tuple[int, ...]:
    """Before opset 7: the shape in which a second operand stands to the first, for numpy to broadcast. It is a part of
    the first's shape, from `axis` on or at its end, or a single element.

    Raises:
        Malformed: it is neither, or nobody asked for it."""
    if tuple(x) == tuple(y):
        return tuple(y)
    at = len(x) - len(y) if axis is None else wrap(axis, len(x))
    single = math.prod(y) == 1 and len(y) <= len(x)
    if not broadcast or not (single or (at >= 0 and list(x[at : at + len(y)]) == list(y))):
        raise Malformed(f"{list(y)} is no part of {list(x)}, broadcast={int(broadcast)}, axis={axis}")
    return (1,) * len(y) if single else (*y, *(1,) * (len(x) - at - len(y)))


def unambiguous(paddings: Sequence[int]) -> list[int]:
    """The pads of Pad 1, beginnings first. Its text has two orders: the attribute's has all beginnings first, the
    example's has pairs.

    Raises:
        Malformed: where they differ."""
    begins, ends = list(paddings[::2]), list(paddings[1::2])
    if [*begins, *ends] != list(paddings):
        raise Malformed(f"paddings {list(paddings)}, for whose order the text of Pad 1 has two readings")
    return [*begins, *ends]


def slices(
    shape: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> list[tuple[int, int, int]]:
    """(first index, count, step) of every axis for ONNX Slice.

    Raises:
        Malformed: a step of 0, an axis outside the rank."""
    given = (ends, axes, steps)
    if any(len(values) != len(starts) for values in given if values is not None) or len(starts) > len(shape):
        raise Malformed(f"{len(starts)} starts, with other numbers of ends, axes or steps")
    cuts = [(0, d, 1) for d in shape]
    seen: set[int] = set()
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = wrap(axes[i] if axes is not None else i, len(shape))
        if axis in seen:
            raise Malformed(f"axis {axis} is cut twice")
        seen.add(axis)
        step = steps[i] if steps is not None else 1
        if step == 0:
            raise Malformed("a step of 0")
        chosen = range(shape[axis])[slice(start, end, step)]
        cuts[axis] = (chosen.start, len(chosen), step)
    return cuts
