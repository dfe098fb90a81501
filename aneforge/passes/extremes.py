"""Numbers at the ends of fp16's range: constants that it does not hold, and the logarithm of zero.

The writer narrows constants: finite ones beyond ±65504 become ±65504, those below 2^-25 become 0. That keeps the meaning
of bounds (select, clip, maximum, minimum, comparisons) and of additive masks on their way to a softmax (`masks`). A
factor, a divisor, a weight, an exponent or an addend would be another one: such an Op is rewritten where the same can be
said in fp16, and refused where it cannot.
"""

from __future__ import annotations

import math
from weakref import WeakKeyDictionary

import numpy as np

from .. import ops
from ..errors import Reason
from ..ir import Op, Replacement, Rule, Tensor, Uses, const, rule
from ..targets import Target
from .match import FP16_TINY, VIEWS, made_by, scalar

_OVER = 65520.0
"""From here on rounding to fp16 would give an infinity; below, 65504 is the nearest number."""
_NOTHING = 2.0**-25
"""Up to here rounding to fp16 gives 0."""
_BLURRED = 2.0**-17
"""Below this the numbers of fp16 lie more than 2^-8 of their size apart."""

_WEIGHTS = {"conv": "weight", "conv_transpose": "weight", "linear": "weight", "prelu": "alpha"}
_BOUNDS = frozenset(
    [
        "select",
        "clip",
        "maximum",
        "minimum",
        "pad",
        "equal",
        "not_equal",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "log",
        "sqrt",
        "rsqrt",
        "inverse",
    ]
)
_MASKED = frozenset(["add", "sub", "concat"])

_ends: WeakKeyDictionary[Op, tuple[float, float, bool]] = WeakKeyDictionary()


def ends(x: Tensor) -> tuple[float, float] | None:
    """The least and the greatest finite element of a constant of floats; None for anything else."""
    return None if x.op.kind != "const" or x.dtype != "fp16" else _seen(x)[:2]


def all_finite(x: Tensor) -> bool:
    """Whether a constant of floats holds neither infinities nor NaN."""
    return _seen(x)[2]


def _seen(x: Tensor) -> tuple[float, float, bool]:
    found = _ends.get(x.op)
    if found is None:
        found = _ends[x.op] = _span(x.op.params["value"])
    return found


def _span(value: np.ndarray) -> tuple[float, float, bool]:
    """The least and the greatest finite element, and whether all are finite."""
    if value.size == 0:
        return 0.0, 0.0, True
    if not any(value.strides):
        value = value.reshape(-1)[:1]
    low, high = float(value.min()), float(value.max())
    if math.isfinite(low) and math.isfinite(high):
        return low, high, True
    value = value[np.isfinite(value)]
    return (float(value.min()), float(value.max()), False) if value.size else (0.0, 0.0, False)


def _peak(span: tuple[float, float]) -> float:
    """The element of the greatest size, signed."""
    return span[0] if -span[0] > span[1] else span[1]


def lost(op: Op, maybe_mask: bool = False) -> Reason | None:
    """Why `op` has another meaning once its constants are narrowed to fp16; None if it has not.

    Args:
        maybe_mask: leave open what may be an additive mask, as far as one Op alone shows. In the program of a whole
            region `mask_clamp` has mended those that are masks, and what is left is none.
    """
    for name, value in op.params.items():
        if isinstance(value, float) and op.kind not in _BOUNDS and _OVER < abs(value) < math.inf:
            return _too_large(op.kind, name, value)
    if op.kind in _BOUNDS or not any(s.is_const for s in op.sources):
        return None
    if op.kind in ("mul", "real_div", "pow", "matmul", "floor_div", "mod"):
        roles: tuple[str, ...] = ("x", "y")
    elif op.kind in _WEIGHTS:
        roles = (_WEIGHTS[op.kind],)
    else:
        return _addend(op, maybe_mask)
    for name in roles:
        given = op.inputs.get(name)
        span = ends(given) if isinstance(given, Tensor) else None
        if span is None:
            continue
        value = _peak(span)
        if abs(value) >= _OVER:
            if maybe_mask and op.kind == "mul" and value < 0 and span[0] == span[1]:
                continue
            return _too_large(op.kind, name, value)
        if 0 < abs(value) <= _NOTHING:
            return Reason("limit", f"{op.kind}: its {name}, {value:g}, is 0 in fp16, in which the engine computes")
        if 0 < abs(value) < _BLURRED and op.kind != "mul":
            return Reason("limit", f"{op.kind}: its {name} is at most {value:g}, which fp16 holds in a few bits only")
    return None


def _too_large(kind: str, name: str, value: float) -> Reason:
    return Reason("limit", f"{kind}: its {name} holds {value:g}, and fp16, in which the engine computes, ends at 65504")


def _addend(op: Op, maybe_mask: bool) -> Reason | None:
    for source in op.sources:
        span = ends(source)
        if span is None:
            continue
        if maybe_mask and op.kind in _MASKED and span[1] < _OVER:
            continue
        value = _peak(span)
        if abs(value) >= _OVER:
            text = f"{op.kind} with the constant {value:g}, and fp16, in which the engine computes, ends at 65504"
            return Reason("limit", text)
    return None


# ---------------------------------------------------------------- rewrites


@rule(
    "divisor", "real_div", "a divisor that fp16 does not hold well: its inverse, in float64, as a factor", required=True
)
def divisor(op: Op, uses: Uses) -> Replacement:
    x, y = op.operand("x"), op.operand("y")
    span = ends(y)
    if span is None or x.is_const or not np.isfinite(y.value).all() or not y.value.all():
        return None
    sizes = np.abs(y.value.astype(np.float64))
    if sizes.max() < _OVER and sizes.min() >= FP16_TINY:
        return None
    inverse = 1.0 / y.value.astype(np.float64)
    return ops.mul(x, const(inverse)) if np.abs(inverse).max() < _OVER else None


@rule("small-factor", "mul", "a factor below 2^-14 has few bits in fp16: 2^12 times it, and 2^-12", required=True)
def small_factor(op: Op, uses: Uses) -> Replacement:
    for x, factor in ((op.operand("x"), op.operand("y")), (op.operand("y"), op.operand("x"))):
        span = ends(factor)
        if span is None or x.is_const or not _NOTHING < abs(_peak(span)) < FP16_TINY:
            continue
        value = factor.value.astype(np.float64)
        if span[0] == span[1] and math.frexp(span[0])[0] in (0.5, -0.5) and abs(span[0]) >= 2.0**-24:
            continue  # a power of two is exact
        return ops.mul(ops.mul(x, const(value * 2.0**12)), 2.0**-12)
    return None


def _never_zero(x: Tensor, depth: int = 8) -> bool:
    """Whether x is above 0, or was kept from 0, for all that one can see."""
    op = x.op
    if depth == 0:
        return False
    if op.kind in VIEWS or op.kind in ("transpose", "slice_by_size", "sqrt"):
        return _never_zero(op.operand("x"), depth - 1)
    if op.kind == "const":
        return bool((op.params["value"] > 0).all())
    if op.kind in ("add", "maximum", "mul"):
        a, b = op.operand("x"), op.operand("y")
        if op.kind == "mul":
            return _never_zero(a, depth - 1) and _never_zero(b, depth - 1)
        return any(s.is_const and _never_zero(s) for s in (a, b)) or (
            op.kind == "maximum" and (_never_zero(a, depth - 1) or _never_zero(b, depth - 1))
        )
    if op.kind == "clip":
        return bool(op.params["alpha"] > 0)
    if op.kind == "matmul":  # sums of positive numbers
        return op.operand("y").is_const and _never_zero(op.operand("y")) and _never_zero(op.operand("x"), depth - 1)
    if op.kind == "conv":
        weight = op.operand("weight")
        return weight.is_const and _never_zero(weight) and _never_zero(op.operand("x"), depth - 1)
    if op.kind in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min"):
        return _never_zero(op.operand("x"), depth - 1)
    if op.kind in ("exp", "softmax", "sigmoid"):
        return True
    if op.kind == "select":
        zero = _is_zero(op.operand("cond"))
        return zero is not None and zero is op.operand("b")
    return False


def _is_zero(cond: Tensor) -> Tensor | None:
    """x of x == 0."""
    below = made_by(cond, "equal")
    return below.operand("x") if below is not None and scalar(below.operand("y")) == 0.0 else None


def target_rules(target: Target) -> tuple[Rule, ...]:
    """Rules for what some families get wrong."""
    if not target.has_quirk("Q21"):
        return ()

    @rule("log-zero", "log", "log(0) is -45440 there, and -inf everywhere else", required=True, quirks="Q21")
    def log_zero(op: Op, uses: Uses) -> Replacement:
        """-inf where x = 0, else log(x): with 1 in the place of 0 the logarithm never sees one."""
        x = op.operand("x")
        if op.params["epsilon"] != 0.0 or _never_zero(x):
            return None
        zero = ops.equal(x, 0.0)
        safe = ops.log(ops.select(zero, const(ops.filled(x.shape, 1.0)), x), 0.0)
        return ops.select(zero, const(ops.filled(x.shape, -math.inf)), safe)

    return (log_zero,)


RULES = (divisor, small_factor)
