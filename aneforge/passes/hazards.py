"""Forms that an engine takes and gets wrong, or that its compiler crashes on: what must not be left in a program.

A rule of `legalize` brings each into another form. What stands here is the other half: a program that still has one is
refused, so that a rule which does not fire is a reason in a report and not a wrong number.
"""

from __future__ import annotations

import numpy as np

from ..errors import Reason
from ..ir import Op, Tensor
from ..targets import Target
from .match import ROUNDING


def hazard(op: Op, target: Target) -> Reason | None:
    """Why `op`, as it stands, is not to be trusted on the engine of `target`; None if nothing is known against it."""
    look = _LOOKS.get(op.kind)
    return None if look is None else look(op, target)


def hazard_at_output(name: str, tensor: Tensor) -> Reason | None:
    """An output that is an input makes a body without operations (Q29)."""
    if tensor.op.kind != "input":
        return None
    return Reason("no engine form", f"output {name!r} is an input as it came: the compiler crashes (Q29)")


def _mul(op: Op, target: Target) -> Reason | None:
    x, y = op.sources[0], op.sources[-1]
    for value, factor in ((x, y), (y, x)):
        # mul(floor(x), floor(x)) of one element is a product, not a scale that could be dropped
        if value.op.kind in ROUNDING and factor.type.size == 1 and factor.is_const and target.has_quirk("Q15"):
            text = f"mul of {value.op.kind} by one number: the engine drops the factor (Q15)"
            return Reason("no engine form", text)
        if value.op.kind.startswith("reduce_") and factor.is_const and not np.any(factor.value.astype(np.float16)):
            return Reason("no engine form", f"mul of {value.op.kind} by 0 does not compile (Q28)")
    return None


def _reshape(op: Op, target: Target) -> Reason | None:
    if op.operand("x").shape != op.types[0].shape:
        return None
    return Reason("no engine form", f"{op.kind} to the shape that it had crashes the compiler (Q29)")


def _square(op: Op, target: Target) -> Reason | None:
    shape = op.types[0].shape
    if not shape or shape[-1] % 128 <= 64:
        return None
    return Reason("no engine form", f"square of width {shape[-1]} does not compile before a nonlinearity (Q30)")


def _slice(op: Op, target: Target) -> Reason | None:
    if not (target.has_quirk("Q08") or target.has_quirk("Q09")):
        return None
    rank = op.operand("x").rank
    axis = op.params.get("axis")
    offset = op.params["begin"][-1] > 0 if op.kind == "slice_by_size" else axis in (rank - 1, -1)
    if not offset:
        return None
    text = f"{op.kind} with an offset along the last axis: values beyond 4094 become infinite, joined ones wrong (Q08, Q09)"
    return Reason("no engine form", text)


def _log_sum_exp(op: Op, target: Target) -> Reason | None:
    return Reason("no engine form", f"{op.kind} subtracts no maximum: it drops to 0 for large values (Q13)")


def _round(op: Op, target: Target) -> Reason | None:
    return Reason("no engine form", "round takes ties away from zero (Q17), and is wrong from 1024 up (Q16)")


_LOOKS = {
    "mul": _mul,
    "reshape": _reshape,
    "square": _square,
    "slice_by_size": _slice,
    "split": _slice,
    "reduce_log_sum_exp": _log_sum_exp,
    "round": _round,
}
