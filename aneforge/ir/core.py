"""Type, Tensor and Op: an immutable graph of MIL operations.

An `Op` is one MIL operation with its operands and parameters; a `Tensor` is one of its results. Both are compared and
hashed by identity: what makes two operations *the same* is decided in one place, `Program`, which merges equal ones.

Floats are typed "fp16" everywhere, whatever the numerics mode; constants keep the precision that they came with, and
the writer narrows them once, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:  # the graph API by hand is attached by `aneforge.ops.methods`; here only its types are named
    from ..ops.methods import TensorMethods as _Methods
else:
    _Methods = object

Origin = frozenset[str | int]
DTYPES = ("fp16", "fp32", "bool", "uint8", "int8", "uint16", "int16", "int32")

_FROM_NUMPY = {"b": "bool", "f": "fp16"}
_INTEGERS = {"uint8": "uint8", "int8": "int8", "uint16": "uint16", "int16": "int16"}
_NOWHERE: Origin = frozenset()
_origin: ContextVar[Origin] = ContextVar("aneforge_origin", default=_NOWHERE)


@contextmanager
def origin(*sources: str | int) -> Iterator[None]:
    """Every Op made inside is marked as coming from `sources` (node ids of the model), beside those of an enclosing
    `origin`.
    """
    token = _origin.set(_origin.get() | frozenset(sources))
    try:
        yield
    finally:
        _origin.reset(token)


@contextmanager
def only_origin(sources: Origin) -> Iterator[None]:
    """As `origin`, but enclosing ones do not count: for rewrites, which know exactly what a new Op stands for."""
    token = _origin.set(sources)
    try:
        yield
    finally:
        _origin.reset(token)


@dataclass(frozen=True, slots=True)
class Type:
    """What a tensor holds: a MIL dtype and static extents."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


class Tensor(_Methods):
    """One result of an Op. Equal only to itself."""

    __slots__ = ("__weakref__", "index", "op", "type")

    op: Op
    index: int
    type: Type
    __array_ufunc__ = None  # so that `array + tensor` reaches the tensor's reflected operator
    __array_priority__ = 1000

    def __init__(self, op: Op, index: int, type: Type) -> None:
        put = object.__setattr__
        put(self, "op", op)
        put(self, "index", index)
        put(self, "type", type)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Tensor does not change; {name!r} cannot be set")

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def rank(self) -> int:
        return len(self.type.shape)

    @property
    def is_const(self) -> bool:
        return self.op.kind == "const"

    @property
    def value(self) -> NDArray[Any]:
        """The array of a constant, read-only, in the precision that it came with. ValueError for anything else."""
        if self.op.kind != "const":
            raise ValueError(f"{self.op.kind} {self.type} is computed at run time: it has no value here")
        return self.op.params["value"]  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<Tensor {self.type} of {self.op.kind}>"


class Op:
    """One operation. `inputs` maps MIL argument names to a Tensor, or to a tuple of them for variadic arguments;
    `params` maps names to int, float, bool, str, or a tuple of one of them (and `value`, the array, of a const).

    The leaves are the kinds "input" (params: name) and "const" (params: value); every other kind is the name of a MIL
    operation. `origin` says which nodes of the model the Op stands for, and is no part of what it *is*.
    """

    __slots__ = ("__weakref__", "inputs", "kind", "origin", "outputs", "params", "sources", "types")

    kind: str
    inputs: Mapping[str, Tensor | tuple[Tensor, ...]]
    params: Mapping[str, Any]
    types: tuple[Type, ...]
    outputs: tuple[Tensor, ...]
    sources: tuple[Tensor, ...]
    """Every operand, in order, variadic ones unrolled."""
    origin: Origin

    def __init__(
        self,
        kind: str,
        inputs: Mapping[str, Tensor | tuple[Tensor, ...]],
        params: Mapping[str, Any],
        types: tuple[Type, ...],
        origin: Origin | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "kind", kind)
        put(self, "inputs", MappingProxyType(dict(inputs)))
        put(self, "params", MappingProxyType(dict(params)))
        put(self, "types", types)
        put(self, "origin", _origin.get() if origin is None else origin)
        flat: list[Tensor] = []
        for given in inputs.values():
            if type(given) is tuple:
                flat.extend(given)
            else:
                flat.append(given)  # type: ignore[arg-type]
        put(self, "sources", tuple(flat))
        put(self, "outputs", tuple([Tensor(self, i, t) for i, t in enumerate(types)]))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an Op does not change; {name!r} cannot be set")

    def operand(self, name: str) -> Tensor:
        """The single Tensor given for argument `name`. KeyError if absent, TypeError if variadic."""
        given = self.inputs[name]
        if isinstance(given, tuple):
            raise TypeError(f"argument {name!r} of {self.kind} is variadic")
        return given

    def with_sources(self, sources: Sequence[Tensor], origin: Origin | None = None) -> Op:
        """The same operation on other operands of the same types (given in the order of `sources`)."""
        rest = iter(sources)
        inputs = {
            name: tuple([next(rest) for _ in given]) if isinstance(given, tuple) else next(rest)
            for name, given in self.inputs.items()
        }
        return Op(self.kind, inputs, self.params, self.types, self.origin if origin is None else origin)

    @property
    def is_leaf(self) -> bool:
        return self.kind in ("const", "input")

    def __repr__(self) -> str:
        return f"<Op {self.kind} -> {', '.join(map(str, self.types))}>"


def input(name: str, shape: Sequence[int], dtype: str = "fp16") -> Tensor:
    """A value that a program is given at run time."""
    if dtype not in DTYPES:
        raise ValueError(f"input {name!r}: no dtype {dtype!r}; there are {', '.join(DTYPES)}")
    return Op("input", {}, {"name": str(name)}, (Type(dtype, tuple([int(d) for d in shape])),)).outputs[0]


def const(array: ArrayLike, dtype: str | None = None) -> Tensor:
    """A constant. `dtype` defaults to "fp16" for any float array, to "bool" for bools, to int32 or the small width for
    integers.

    The array is neither copied nor narrowed; it must not change afterwards.
    """
    value = np.asarray(array)
    if dtype is None:
        kind = value.dtype.kind
        if kind in "iu":
            dtype = _INTEGERS.get(value.dtype.name, "int32")
        elif kind in _FROM_NUMPY:
            dtype = _FROM_NUMPY[kind]
        else:
            raise TypeError(f"a constant holds floats, integers or bools, not {value.dtype}")
    value = value.view()
    value.flags.writeable = False
    return Op("const", {}, {"value": value}, (Type(dtype, value.shape),)).outputs[0]
