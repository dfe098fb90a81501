"""What is proved about the values of a tensor: the least and the greatest it can hold.

An ONNX integer may be a whole fp16 number where it is proved to lie within ±2048, up to which fp16 counts (Q38). Every
rule here takes intervals and returns one that holds whatever the values are; what it says of integers is exact, what it
says of floats is widened by fp16's rounding where the importer notes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Refused
from .tensors import Array

Range = tuple[float, float]
COUNTED = 2048
"""Whole numbers up to here are exact in fp16."""
PORTS: dict[str, Range] = {"uint8": (0, 255), "int8": (-128, 127)}
"""Integer types that may enter: all their values are small. Others hold what nobody knows."""


def exact(span: Range) -> bool:
    """Whether fp16 counts all whole numbers of an interval."""
    return span[0] >= -COUNTED and span[1] <= COUNTED


def of_array(value: Array) -> Range | None:
    """That of a known value; None where it is empty, no number, or not finite."""
    if value.size == 0 or value.dtype.kind not in "biuf":
        return None
    low, high = float(value.min()), float(value.max())
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def of_dtype(dtype: np.dtype[Any]) -> Range | None:
    """All values of an integer type."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind not in "iu":
        return None
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def fits(span: Range, dtype: np.dtype[Any]) -> bool:
    """Whether an integer type holds a whole interval."""
    limits = of_dtype(dtype)
    return limits is not None and limits[0] <= span[0] and span[1] <= limits[1]


def widened(span: Range) -> Range | None:
    """An interval of floats after rounding to fp16, which may pass a bound; None where that is an infinity."""
    with np.errstate(over="ignore"):
        low, high = float(np.float16(span[0])), float(np.float16(span[1]))
    return (min(low, span[0]), max(high, span[1])) if math.isfinite(low) and math.isfinite(high) else None


def blurred(span: Range, greatest: float) -> Range:
    """An interval of floats computed from numbers of at most `greatest`, each rounded to fp16 once or twice."""
    return span[0] - greatest * 2.0**-9, span[1] + greatest * 2.0**-9


def demand_exact(span: Range | None, what: str) -> Range:
    """
    Raises:
        Refused: the whole numbers of an interval are not exact in fp16."""
    if span is None or not exact(span):
        known = "are not known" if span is None else f"may lie between {span[0]:g} and {span[1]:g}"
        raise Refused("data type", f"{what} are integers that {known}; fp16 counts to {COUNTED}")
    return span


# ---------------------------------------------------------------- arithmetic


def union(*spans: Range) -> Range:
    return min(s[0] for s in spans), max(s[1] for s in spans)


def add(a: Range, b: Range) -> Range:
    return a[0] + b[0], a[1] + b[1]


def sub(a: Range, b: Range) -> Range:
    return a[0] - b[1], a[1] - b[0]


def mul(a: Range, b: Range) -> Range:
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def neg(a: Range) -> Range:
    return -a[1], -a[0]


def absolute(a: Range) -> Range:
    return (0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))), size(a)


def size(a: Range) -> float:
    """The greatest magnitude."""
    return max(abs(a[0]), abs(a[1]))


def maximum(*spans: Range) -> Range:
    return max(s[0] for s in spans), max(s[1] for s in spans)


def minimum(*spans: Range) -> Range:
    return min(s[0] for s in spans), min(s[1] for s in spans)


def total(*spans: Range) -> Range:
    """A sum in any order: its partial sums, too, stay within what is said here."""
    most = sum(size(s) for s in spans)
    return (-most if min(s[0] for s in spans) < 0 else 0), most


def times(a: Range, count: int) -> Range:
    """A sum of `count` values of one interval, its partial sums included."""
    return total(*[(min(a[0] * count, 0), max(a[1] * count, 0))])


def trunc(a: Range) -> Range:
    return math.trunc(a[0]), math.trunc(a[1])


def clamp(a: Range | None, low: float | None, high: float | None) -> Range | None:
    """min(max(a, low), high); a is None where nothing is known."""
    least, most = a if a is not None else (-math.inf, math.inf)
    if low is not None:
        least, most = max(least, low), max(most, low)
    if high is not None:
        least, most = min(least, high), min(most, high)
    return (least, most) if math.isfinite(least) and math.isfinite(most) else None


def wrapped(span: Range, limits: Range) -> Range:
    """What is left within `limits` of an interval that may pass them by one period."""
    return span if limits[0] <= span[0] and span[1] <= limits[1] else limits


def known(spans: Sequence[Range | None]) -> list[Range] | None:
    """All of them, if all are known."""
    found = [s for s in spans if s is not None]
    return found if len(found) == len(spans) else None
