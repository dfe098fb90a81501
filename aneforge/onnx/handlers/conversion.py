"""Casts, and what inference leaves of operators for training."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from .. import ranges
from ..folds import Unfoldable
from ..folds.constants import cast as cast_known
from ..node import FLOATS, Node
from ..registry import Any_, Data, Known, onnx_op
from ..tensors import Array, numpy_dtype
from .layout import NEW


@onnx_op("Cast", since=(1, 6, 9, *NEW, 28), layout=True, ignores=("saturate", "round_mode"))
def cast(node: Node, x: Any_, *, to: int | str) -> Tensor:
    """Between floats, bools and integers that are proved small. Version 1 names the type."""
    if isinstance(to, str):
        kinds: dict[str, np.dtype[Any]] = {
            "FLOAT": np.dtype(np.float32),
            "FLOAT16": np.dtype(np.float16),
            "BOOL": np.dtype(bool),
        }
        return _cast(node, kinds.get(to.upper()) if node.since < 6 else None)
    return _cast(node, numpy_dtype(to))


@onnx_op("CastLike", since=(15, 19, 21, 23, 24, 25), layout=True, ignores=("saturate", "round_mode"))
def cast_like(node: Node, x: Any_, like: Any_) -> Tensor | Array:
    """Of `like` only the type counts: a known x stays known."""
    to = node.dtype(1)
    if not isinstance(x, np.ndarray):
        return _cast(node, to)
    try:
        return cast_known(x, to)
    except Unfoldable:
        raise Refused("data type", f"a cast from {x.dtype} to {to} of values that it does not keep") from None


def _cast(node: Node, to: np.dtype[Any] | None) -> Tensor:
    source, span = node.dtype(0), node.range(0)
    if to is None or source is None:
        raise Refused("data type", "a cast of or to an unknown type")
    if to.name not in FLOATS and to.kind not in "biu":
        raise Refused("data type", f"a cast of computed values to {to.name}")
    if to == np.float64 and source != np.float64:
        raise Refused(
            "data type", "a cast of computed values to float64: who asks for more digits gets them on the CPU"
        )
    if source.kind == "b":
        x = node.mask(0)
    else:
        x = node.number(0)
    if to.name in FLOATS or (to.kind == "b" and source.kind == "b"):
        return node.prove(x, span)
    if source.name in FLOATS:
        if to.kind == "b":
            raise Refused("data type", "a cast of computed values to a bool (what fp16 rounds to 0 would be false)")
        if span is None:
            raise Refused("data type", f"a cast of computed values to {to.name}; nothing bounds them")
        x, span = ops.trunc(x), ranges.trunc(span)
    elif to.kind == "b":
        return ops.as_bool(x)
    return _wrapped(node, x, ranges.demand_exact(span, "what it casts"), to, source)


def _wrapped(node: Node, x: Tensor, span: ranges.Range, to: np.dtype[Any], source: np.dtype[Any]) -> Tensor:
    """Whole numbers in the range of an integer type. Integers beyond it wrap around, once; of floats that is undefined."""
    if ranges.fits(span, to):
        return node.prove(x, span)
    low, high = ranges.of_dtype(to) or (0, 0)
    period = high - low + 1
    if source.name in FLOATS or period > 256 or span[0] < low - period or span[1] > high + period:
        raise Refused("data type", f"a cast of {span[0]:g} to {span[1]:g} to {to.name}")
    return node.prove(ops.wrapped(x, span, (low, high)), (low, high))


@onnx_op("Dropout", since=(1, 6, 7, 10, 12, 13, 22), layout=True, ignores=("seed", "ratio"))
def dropout(
    node: Node, x: Data, ratio: Any_ = None, training: Known | None = None, *, is_test: int | None = None
) -> Any:
    """The input itself. The mask, from version 12 on, is all true."""
    if (node.since < 7 and not is_test) or (node.since >= 7 and is_test is not None):
        raise Refused(
            "attribute form", "Dropout without is_test=1, which is training; before opset 7 it is the default"
        )
    if training is not None and bool(training.reshape(-1)[0]) and not _zero(ratio):
        raise Refused("attribute form", "Dropout with training_mode")
    if node.wanted(1) and node.since < 12:
        raise Refused("attribute form", f"the mask of Dropout version {node.since}")
    return [x, np.ones(x.shape, bool)] if node.wanted(1) else x


def _zero(ratio: Any) -> bool:
    return isinstance(ratio, np.ndarray) and not ratio.any()
