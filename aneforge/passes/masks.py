"""Keeps additive masks inside fp16: a constant that reaches a softmax through additions is clamped to -1e4 (Q27).

exp of -1e4 is exactly 0 already, while two masks of -65504 add up to -inf, and a row of nothing but -inf has no
softmax.
"""

from __future__ import annotations

import numpy as np

from .. import ops
from ..ir import Op, Replacement, Tensor, Uses, const, rule, substitute
from .match import FP16_MAX, scalar

MASKED = -1e4
_THROUGH = frozenset(
    {
        "add",
        "sub",
        "select",
        "minimum",
        "maximum",
        "concat",
        "split",
        "slice_by_size",
        "tile",
        "reshape",
        "expand_dims",
        "squeeze",
        "flatten2d",
        "transpose",
    }
)
_STEPS = 64


@rule(
    "mask-clamp",
    "softmax",
    "masks of -1e9, -inf or the least float become -inf in fp16, and two of them overflow",
    required=True,
    quirks="Q27",
)
def mask_clamp(op: Op, uses: Uses) -> Replacement:
    x = op.operand("x")
    found = _masks(x)
    if not found:
        return None
    (clamped,) = substitute([x], found)
    return ops.softmax(clamped, op.params["axis"])


def _masks(root: Tensor) -> dict[Tensor, Tensor]:
    """Constants below MASKED (and products of such a number with a computed mask) that are added up into `root`."""
    found: dict[Tensor, Tensor] = {}
    seen = {root}
    todo = [root]
    while todo and len(seen) < _STEPS:
        here = todo.pop()
        op = here.op
        if op.kind == "const":
            if op.params["value"].dtype.kind == "f" and (op.params["value"] < MASKED).any():
                found[here] = const(
                    np.maximum(op.params["value"], np.asarray(MASKED, op.params["value"].dtype)), here.dtype
                )
            continue
        if op.kind == "mul":
            clamped = _clamped_product(op)
            if clamped is not None:
                found[here] = clamped
                continue
            if scalar(op.operand("x")) == 1.0 or scalar(op.operand("y")) == 1.0:  # a broadcast
                below = list(op.sources)
            else:
                continue
        elif op.kind in _THROUGH:
            below = [op.operand("x")] if op.kind == "sub" else [s for s in op.sources if s.dtype == here.dtype]
        else:
            continue
        for source in below:
            if source not in seen:
                seen.add(source)
                todo.append(source)
    return found


def _clamped_product(op: Op) -> Tensor | None:
    """(1 - mask) * -3.4e38, as models write it: a factor beyond half of fp16's range stands for "minus infinity"."""
    for x, number in ((op.operand("x"), op.operand("y")), (op.operand("y"), op.operand("x"))):
        value = scalar(number)
        if value is not None and value <= -FP16_MAX / 2 and not x.is_const:
            return ops.mul(x, np.full(number.shape, MASKED))
    return None


RULES = (mask_clamp,)
