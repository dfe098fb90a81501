"""What every declaration is made of: operands from Python values, checks that name op and argument, and the table of
declarations.

A declaration is a function named exactly as its MIL operation, with MIL's argument names and defaults (coremltools 9.0
op registry, iOS18). It checks the call, computes the result types and makes the Op. `verify` uses the same function as
the type rule.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..ir import Op, Tensor, Type, const, register_type_rule

Operand = Tensor | float | NDArray[Any] | np.generic
"""A Tensor, or a Python or numpy number or array, which becomes a constant."""

Declared = TypeVar("Declared", bound=Callable[..., Any])
DECLARATIONS: dict[str, Callable[..., Any]] = {}
"""MIL name -> the function that makes that Op."""

FLOATS = ("fp16", "fp32")


def declare(function: Declared, kind: str | None = None) -> Declared:
    """Enters a declaration into the table, under its own name or `kind`."""
    name = kind or function.__name__
    if name in DECLARATIONS:
        raise ValueError(f"{name} is declared twice")
    DECLARATIONS[name] = function

    def types(op: Op) -> tuple[Type, ...]:
        made = function(**op.inputs, **op.params)
        return tuple(t.type for t in made) if isinstance(made, tuple) else (made.type,)

    register_type_rule(name, types)
    return function


def operand(kind: str, name: str, given: Operand, dtype: str = "fp16") -> Tensor:
    """`given` as a Tensor. A number or an array becomes a constant of `dtype`, in the precision that it has.

    Raises:
        TypeError: neither a Tensor nor a number nor an array of numbers.
    """
    if isinstance(given, Tensor):
        return given
    if given is None or isinstance(given, (str, bytes)):
        raise TypeError(f"{kind}: {name} takes a Tensor, a number or an array, not {type(given).__name__}")
    value = np.asarray(given)
    if value.dtype.kind not in "biuf":
        raise TypeError(f"{kind}: {name} takes a Tensor, a number or an array of numbers, not {value.dtype}")
    if value.dtype.kind in "iu" and dtype in FLOATS:
        value = value.astype(np.float64)
    if (value.dtype.kind == "b") != (dtype == "bool"):
        raise TypeError(f"{kind}: {name} is {value.dtype}, where {dtype} is needed")
    return const(value, dtype)


def tensor(kind: str, name: str, given: Tensor) -> Tensor:
    """`given`, which must be a Tensor."""
    if not isinstance(given, Tensor):
        raise TypeError(f"{kind}: {name} takes a Tensor, not {type(given).__name__}")
    return given


def floating(kind: str, name: str, given: Tensor) -> Tensor:
    """`given`, which must be a Tensor of floats."""
    if not isinstance(given, Tensor):
        raise TypeError(f"{kind}: {name} takes a Tensor, not {type(given).__name__}")
    if given.type.dtype not in FLOATS:
        raise TypeError(f"{kind}: {name} is {given.type}; it computes in floats")
    return given


def make(
    kind: str, inputs: Mapping[str, Tensor | tuple[Tensor, ...]], params: Mapping[str, Any], result: Type
) -> Tensor:
    """An Op with one result."""
    return Op(kind, inputs, params, (result,)).outputs[0]


def whole(kind: str, name: str, value: object) -> int:
    """An int. TypeError for anything that is not exactly one."""
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{kind}: {name} takes an int, not {value!r}") from None


def wholes(
    kind: str, name: str, values: int | Sequence[int] | NDArray[Any], count: int | None = None
) -> tuple[int, ...]:
    """A tuple of ints; a single one counts for all `count` places.

    Raises:
        TypeError: not ints.
        ValueError: another count.
    """
    if isinstance(values, (int, np.integer)) and count is not None:
        return (int(values),) * count
    try:
        out = tuple([operator.index(v) for v in values])  # type: ignore[union-attr]
    except TypeError:
        raise TypeError(f"{kind}: {name} takes ints, not {values!r}") from None
    if count is not None and len(out) != count:
        raise ValueError(f"{kind}: {name} takes {count} ints, not {out}")
    return out


def number(kind: str, name: str, value: object) -> float:
    """A float. TypeError for anything that is not a number, ValueError for NaN."""
    try:
        out = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"{kind}: {name} takes a number, not {value!r}") from None
    if math.isnan(out):
        raise ValueError(f"{kind}: {name} is NaN")
    return out


def one_of(kind: str, name: str, value: str, words: Sequence[str]) -> str:
    if value not in words:
        raise ValueError(f"{kind}: {name} takes one of {', '.join(words)}; not {value!r}")
    return value


def axis_of(kind: str, name: str, axis: int, rank: int) -> int:
    """A non-negative axis below `rank`."""
    axis = whole(kind, name, axis)
    if not -rank <= axis < rank:
        raise ValueError(f"{kind}: {name} {axis} is outside rank {rank}")
    return axis % rank if rank else axis


def axes_of(kind: str, name: str, axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Sorted, non-negative, distinct axes; all of them for None."""
    if axes is None:
        return tuple(range(rank))
    given = (axes,) if isinstance(axes, (int, np.integer)) else axes
    out = tuple(sorted([axis_of(kind, name, a, rank) for a in given]))
    if len(set(out)) != len(out):
        raise ValueError(f"{kind}: {name} {tuple(given)} names an axis twice")
    return out


def broadcast(kind: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """numpy's rule. ValueError naming the shapes if they do not fit."""
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    rank = max([len(s) for s in shapes])
    out = [1] * rank
    for shape in shapes:
        for i, extent in enumerate(shape, rank - len(shape)):
            if out[i] == 1:
                out[i] = extent
            elif extent not in (1, out[i]):
                raise ValueError(f"{kind}: shapes {', '.join(map(str, shapes))} do not broadcast")
    return tuple(out)


def rank_of(kind: str, name: str, given: Tensor, *ranks: int) -> None:
    if given.rank not in ranks:
        words = " or ".join(map(str, ranks))
        raise ValueError(f"{kind}: {name} has rank {words}, not {given.rank} {given.shape}")
