"""Comparisons, logic, and select. Booleans live only inside a program."""

from __future__ import annotations

from ..ir import Tensor, Type
from .base import Operand, broadcast, declare, make, operand, tensor
from .elementwise import Binary, operands


def _comparison(kind: str, doc: str) -> Binary:
    def call(x: Operand, y: Operand) -> Tensor:
        left, right = operands(kind, x, y)
        return make(kind, {"x": left, "y": right}, {}, Type("bool", broadcast(kind, left.shape, right.shape)))

    call.__name__ = call.__qualname__ = kind
    call.__doc__ = doc
    return declare(call, kind)


equal = _comparison("equal", "x == y")
greater = _comparison("greater", "x > y")
greater_equal = _comparison("greater_equal", "x >= y")
less = _comparison("less", "x < y")
less_equal = _comparison("less_equal", "x <= y")
not_equal = _comparison("not_equal", "x != y")


def _logic(kind: str, doc: str) -> Binary:
    def call(x: Operand, y: Operand) -> Tensor:
        left, right = operand(kind, "x", x, "bool"), operand(kind, "y", y, "bool")
        if left.dtype != "bool" or right.dtype != "bool":
            raise TypeError(f"{kind}: x is {left.type} and y {right.type}; both are bool")
        return make(kind, {"x": left, "y": right}, {}, Type("bool", broadcast(kind, left.shape, right.shape)))

    call.__name__ = call.__qualname__ = kind
    call.__doc__ = doc
    return declare(call, kind)


logical_and = _logic("logical_and", "x and y. No engine has it: use `mask_and`")
logical_or = _logic("logical_or", "x or y. No engine has it: use `mask_or`")
logical_xor = _logic("logical_xor", "x != y. No engine has it: use `mask_xor`")


@declare
def logical_not(x: Tensor) -> Tensor:
    """not x."""
    if tensor("logical_not", "x", x).dtype != "bool":
        raise TypeError(f"logical_not: x is {x.type}, not bool")
    return make("logical_not", {"x": x}, {}, x.type)


@declare
def select(cond: Operand, a: Operand, b: Operand) -> Tensor:
    """a where cond, else b. The engine has only been seen to take three operands of one shape: `where` broadcasts
    first.
    """
    mask = operand("select", "cond", cond, "bool")
    if mask.dtype != "bool":
        raise TypeError(f"select: cond is {mask.type}, not bool")
    dtype = next((t.dtype for t in (a, b) if isinstance(t, Tensor)), "fp16")
    yes, no = operand("select", "a", a, dtype), operand("select", "b", b, dtype)
    if yes.dtype != no.dtype:
        raise TypeError(f"select: a is {yes.type} and b {no.type}; both have one dtype")
    return make(
        "select",
        {"cond": mask, "a": yes, "b": no},
        {},
        Type(yes.dtype, broadcast("select", mask.shape, yes.shape, no.shape)),
    )
