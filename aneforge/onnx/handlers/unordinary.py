"""Questions about NaN and infinities. The engine cannot answer them; of a softmax, its mask can."""

from __future__ import annotations

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from ..node import Node
from ..registry import Any_, onnx_op
from ..scope import Scope
from ..shapes import wrap
from ..tensors import Array
from ..view import NodeView

_NO_FORM = "IsNaN: a NaN enters the engine as an infinity and never leaves it (Q11, Q12)"
_MOVES = frozenset(["Identity", "Unsqueeze", "Expand", "Reshape", "Slice"])
_MASKED = -5000.0
"""Between 0 and what stands for minus infinity in a mask, which is at most -1e4 in a program (`passes.masks`)."""


@onnx_op("IsNaN", since=(9, 13, 20))
def is_nan(node: Node, x: Any_) -> Tensor | Array:
    """Of a softmax of scores and a mask of two known numbers, as attention guards its rows: where a row is wholly masked
    by minus infinity, and nowhere if the mask is finite. The scores are taken to be finite."""
    scope = node.scope
    softmax = scope.producer(node.view.inputs[0])
    if softmax is None or softmax.op != "Softmax" or softmax.domain != "" or softmax.version < 13:
        raise Refused("no engine form", _NO_FORM)
    shape, axis = node.shape(0), softmax.attributes.get("axis", -1)
    if not isinstance(axis, int):
        raise Refused("attribute form", f"Softmax along {axis!r}")
    axis = wrap(axis, len(shape))
    found = _mask(scope, softmax.inputs[0])
    if found is None:
        raise Refused("no engine form", _NO_FORM)
    name, numbers = found
    if np.isfinite(numbers).all():
        return np.zeros(shape, bool)
    mask = scope.values.get(name)
    if not isinstance(mask, Tensor) or mask.rank < len(shape) - axis or set(numbers.tolist()) != {0.0, -np.inf}:
        raise Refused("no engine form", _NO_FORM)
    open_ = ops.reduce_max(mask, (mask.rank - len(shape) + axis,), True)
    return ops.broadcast_to(ops.less(open_, _MASKED), shape)


def _mask(scope: Scope, name: str) -> tuple[str, Array] | None:
    """The addend of a product that is a mask, and the numbers in it."""
    total = scope.producer(name)
    if total is None or total.op != "Add" or total.domain != "":
        return None
    for mask, scores in (total.inputs, total.inputs[::-1]):
        numbers = _numbers(scope, mask)
        if numbers is not None and _is_product(scope, scores):
            return mask, numbers
    return None


def _numbers(scope: Scope, name: str) -> Array | None:
    """The branches of the Where that makes a mask."""
    made = _through(scope, name)
    if made is None or made.op != "Where" or made.domain != "":
        return None
    branches = [scope.known(n) for n in made.inputs[1:]]
    if any(b is None or b.size != 1 or b.dtype.kind != "f" for b in branches):
        return None
    return np.array([float(b.reshape(-1)[0]) for b in branches if b is not None])


def _through(scope: Scope, name: str) -> NodeView | None:
    made = scope.producer(name)
    while made is not None and made.op in _MOVES and made.domain == "":
        made = scope.producer(made.inputs[0])
    return made


def _is_product(scope: Scope, name: str) -> bool:
    """Scores: a matrix product, scaled by known numbers maybe."""
    made = scope.producer(name)
    while made is not None and made.op in ("Mul", "Div") and made.domain == "":
        rest = [n for n in made.inputs if scope.known(n) is None]
        if len(rest) != 1 or rest[0] != made.inputs[0]:
            return False
        made = scope.producer(rest[0])
    return made is not None and made.op in ("MatMul", "FusedMatMul")


@onnx_op("IsInf", since=(10, 20))
def is_inf(node: Node, x: Any_, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    raise Refused("no engine form", "IsInf: on the engine NaN and what leaves fp16's range are infinities, too (Q11)")
