"""Whole numbers that wear a float's clothes: a cast from int64 may hold 65537, and fp16 counts to 2048 only (Q38).

Such a value stays on the CPU, with whatever only moves it or counts with it, until a scale makes an ordinary number of
it. Casts from bool and from 8 bits are no matter, nor is what is known to be small.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from .node import FLOATS
from .ranges import COUNTED, exact
from .tensors import Array
from .view import NodeView

if TYPE_CHECKING:
    from .scope import Scope

_MASK = -1e4
"""A factor from here down makes an additive mask: whether its argument was exact does not matter."""
_NARROW = ("bool", "uint8", "int8", "uint4", "int4", "uint2", "int2")
_CASTS = frozenset({"Cast", "CastLike"})
_MOVES = frozenset(
    [
        "Identity",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Expand",
        "Tile",
        "Slice",
        "Split",
        "Concat",
        "Gather",
        "GatherElements",
        "GatherND",
        "Pad",
        "Where",
        "DepthToSpace",
        "SpaceToDepth",
        "Compress",
        "ReverseSequence",
        "Dropout",
    ]
)
_COUNTS = frozenset(
    [
        "Add",
        "Sub",
        "Mul",
        "Neg",
        "Abs",
        "Floor",
        "Ceil",
        "Round",
        "Max",
        "Min",
        "Sum",
        "Pow",
        "Clip",
        "Relu",
        "ReduceSum",
        "ReduceMax",
        "ReduceMin",
        "ReduceL1",
        "ReduceSumSquare",
        "ReduceProd",
        "CumSum",
        "MatMul",
        "GlobalMaxPool",
        "MaxPool",
        "Mod",
        "PRelu",
        "TopK",
        "Trunc",
    ]
)
_COMPARISONS = frozenset(["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
_INFINITE = -1e30
"""A factor from here down asks of its argument only the sign, and whether it is 0."""
_INDICES = {"ArgMax": 0, "ArgMin": 0}


def makes_whole(scope: Scope, view: NodeView) -> bool:
    """Whether the float results of `view`, which stays on the CPU, may be whole numbers beyond fp16's count."""
    if view.op in _CASTS and view.inputs:
        source = scope.dtypes.get(view.inputs[0])
        if source is not None and source.kind in "iu":
            return not _small(scope, view.inputs[0])
    given = [name for name in view.inputs if name]
    if not any(name in scope.whole for name in given):
        return False
    if view.op in _CASTS or view.op in _MOVES:
        return True
    return view.op in _COUNTS and not _bounded(scope, view) and all(_is_whole(scope, view, name) for name in given)


def harmless(scope: Scope, view: NodeView, depth: int = 8) -> bool:
    """Whether `view` may be given whole numbers of any size in fp16: comparisons with what fp16 counts, and 1 - x where
    all that is asked of it is whether it is 0 (the masks of attention: (1 - x) * -3.4e38)."""
    if view.op in _COMPARISONS:
        known = [v for n in view.inputs if isinstance(v := scope.values.get(n), np.ndarray)]
        return len(known) == 1 and bool((np.abs(known[0]) < COUNTED).all() and (known[0] == np.rint(known[0])).all())
    if view.op == "Sub":
        one = scope.values.get(view.inputs[0])
        return isinstance(one, np.ndarray) and bool((one == 1).all()) and _only_masks(scope, view, depth)
    if view.op in _MOVES and view.op not in ("Pad", "Where", "Concat") and depth:
        return _leads(scope, view, lambda reader: harmless(scope, reader, depth - 1))
    return False


def _only_masks(scope: Scope, view: NodeView, depth: int) -> bool:
    def masks(reader: NodeView) -> bool:
        if reader.op == "Mul":
            factor = next((v for n in reader.inputs if isinstance(v := scope.known(n), np.ndarray)), None)
            return factor is not None and factor.size > 0 and bool((factor <= _INFINITE).all())
        return (
            reader.op in _MOVES
            and reader.op not in ("Pad", "Where", "Concat")
            and _only_masks(scope, reader, depth - 1)
        )

    return depth > 0 and _leads(scope, view, masks)


def _leads(scope: Scope, view: NodeView, good: Callable[[NodeView], bool]) -> bool:
    """Whether all that read the result of `view` are good, and some do."""
    readers = scope.readers(view.outputs[0])
    return bool(readers) and view.outputs[0] not in scope.view.outputs and all(map(good, readers))


def _is_whole(scope: Scope, view: NodeView, name: str) -> bool:
    """Whether an input keeps a result whole: it is so itself, or a constant of small whole numbers, or no float."""
    if name in scope.whole:
        return True
    value, dtype = scope.values.get(name), scope.dtypes.get(name)
    if not isinstance(value, np.ndarray):
        return dtype is not None and dtype.name not in FLOATS
    if value.dtype.kind != "f":
        return True
    if view.op == "Mul" and value.size and value.max() <= _MASK:
        return False
    return bool(np.isfinite(value).all() and (value == np.rint(value)).all())


def _bounded(scope: Scope, view: NodeView) -> bool:
    """Clip to what fp16 counts."""
    if view.op != "Clip":
        return False
    low = scope.values.get(view.inputs[1]) if len(view.inputs) > 1 else view.attributes.get("min")
    high = scope.values.get(view.inputs[2]) if len(view.inputs) > 2 else view.attributes.get("max")
    ends = [np.asarray(v) for v in (low, high) if isinstance(v, (np.ndarray, float))]
    return len(ends) == 2 and all(v.size == 1 and abs(float(v.reshape(-1)[0])) <= COUNTED for v in ends)


def _small(scope: Scope, name: str, depth: int = 16) -> bool:
    """Whether integers are known to lie within ±2048."""
    value = scope.values.get(name)
    if isinstance(value, np.ndarray):
        return _counts(value)
    dtype = scope.dtypes.get(name)
    if dtype is not None and dtype.name in _NARROW:
        return True
    if (span := scope.ranges.get(name)) is not None and exact(span):
        return True
    made = scope.producer(name)
    if made is None or depth == 0:
        return False
    if made.op in _INDICES:
        shape = scope.shape(made.inputs[0])
        axis = int(made.attributes.get("axis", 0))
        return shape is not None and -len(shape) <= axis < len(shape) and shape[axis] <= COUNTED
    if made.op == "Where":
        return all(_small(scope, n, depth - 1) for n in made.inputs[1:])
    if made.op in ("Max", "Min", "Concat"):
        return all(_small(scope, n, depth - 1) for n in made.inputs)
    if made.op in _CASTS or (made.op in _MOVES and made.op != "Pad"):
        source = scope.dtypes.get(made.inputs[0])
        return source is not None and source.kind in "biu" and _small(scope, made.inputs[0], depth - 1)
    return False


def _counts(value: Array) -> bool:
    return value.dtype.kind in "biu" and (value.size == 0 or bool(np.abs(value.astype(np.float64)).max() <= COUNTED))
