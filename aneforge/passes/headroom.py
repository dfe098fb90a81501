"""What value ranges are good for: sums of products that may pass the engine's limit (Q04) are halved where that is
known to be enough; what may still go wrong is said, for reports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from .. import ir, ops
from ..ir import Op, Origin, Program, Tensor, const
from ..targets import Target
from .match import FP16_LEAST, FP16_MAX, skip_views
from .ranges import UNKNOWN, Range, ranges

PRODUCT_MAX = 32752.0
"""The largest sum of a convolution, matmul or linear on the engine; the next fp16 is infinite there (Q04)."""
_WEIGHTS = {"conv": "weight", "conv_transpose": "weight", "linear": "weight", "matmul": "y"}
_VANISHING = frozenset(["softmax", "sigmoid", "exp", "exp2"])
"""Results above 0 that fp16 may round to 0."""


@dataclass(frozen=True)
class Risk:
    """What may go wrong in a program for some inputs, and the nodes of the model behind it."""

    origins: Origin
    text: str


def leave_headroom(program: Program, target: Target) -> tuple[Program, list[Risk]]:
    """`halved`, and the `risks` of what it gives: ranges are found once where nothing is to be halved."""
    known = ranges(program)
    made = halved(program, target, known)
    return made, risks(made, target, known if made is program else ranges(made))


def halved(program: Program, target: Target, known: Mapping[Tensor, Range]) -> Program:
    """Sums of products with constant weights that may lie between 32752 and 65504, and no further, come from halved
    weights and are doubled: then all of fp16 is left to them. `known`: the program's ranges."""
    if not target.has_quirk("Q04"):
        return program
    chosen = {op for op in program.ops if _halvable(op, known)}
    if not chosen:
        return program
    moved: dict[Tensor, Tensor] = {}
    for op in program.ops:
        sources = [moved.get(s, s) for s in op.sources]
        fresh = op
        if any(new is not old for new, old in zip(sources, op.sources, strict=True)):
            fresh = op.with_sources(sources, program.origins(op))
        results = fresh.outputs
        if op in chosen:
            with ir.only_origin(program.origins(op)):
                results = (ops.mul(_half(fresh), 2.0),)
        moved |= {old: new for old, new in zip(op.outputs, results, strict=True) if new is not old}
    outputs = [(name, moved.get(tensor, tensor)) for name, tensor in program.outputs]
    return Program(program.inputs, outputs, program.origin_table)


def _half(op: Op) -> Tensor:
    roles = (_WEIGHTS[op.kind], "bias")
    sources = []
    for name, given in op.inputs.items():
        assert isinstance(given, Tensor)
        sources.append(const(given.value * given.value.dtype.type(0.5)) if name in roles else given)
    return op.with_sources(sources).outputs[0]


def _sums(op: Op) -> bool:
    """Whether Q04 is about this Op: one product alone is no sum."""
    if op.kind not in _WEIGHTS:
        return False
    weight = op.operand(_WEIGHTS[op.kind])
    return op.kind != "conv" or math.prod(weight.shape[1:]) > 1


def _halvable(op: Op, known: Mapping[Tensor, Range]) -> bool:
    if not _sums(op) or not op.operand(_WEIGHTS[op.kind]).is_const:
        return False
    return PRODUCT_MAX < known[op.outputs[0]].size <= FP16_MAX


def risks(program: Program, target: Target, known: Mapping[Tensor, Range]) -> list[Risk]:
    """In the program's order. Ranges that come through several sums of products are too loose to speak of."""
    found = []
    for op in program.ops:
        text = _overflow(op, known, target) or _vanished(op, known)
        if text:
            found.append(Risk(program.origins(op), text))
    return found


def _overflow(op: Op, known: Mapping[Tensor, Range], target: Target) -> str:
    if op.is_leaf or op.types[0].dtype != "fp16":
        return ""
    here = known[op.outputs[0]]
    if not here.closed or here.products > 1 or any(known[s].size > FP16_MAX for s in op.sources if not s.is_const):
        return ""
    limit = PRODUCT_MAX if _sums(op) and target.has_quirk("Q04") else FP16_MAX
    if here.size <= limit:
        return ""
    what = "sums" if _sums(op) else "values"
    return f"{op.kind}: its {what} may reach {here.size:.4g}, and what is beyond {limit:.0f} becomes infinite"


def _vanished(op: Op, known: Mapping[Tensor, Range]) -> str:
    """Logarithms and quotients of numbers that fp16 rounds to 0."""
    if op.kind not in ("log", "real_div", "inverse", "rsqrt"):
        return ""
    x = op.operand("y" if op.kind == "real_div" else "x")
    if op.params.get("epsilon", 0.0) >= FP16_LEAST or x.is_const:
        return ""
    made = skip_views(x).op
    least = known.get(x, UNKNOWN).low
    if made.kind in _VANISHING and least < FP16_LEAST:
        return f"{op.kind} of a {made.kind}, whose results below {FP16_LEAST:.0g} are 0 in fp16"
    if 0 < least < FP16_LEAST:
        return f"{op.kind} of numbers down to {least:.2g}, which are 0 in fp16"
    return ""
