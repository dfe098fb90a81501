"""What a handler is given beside its inputs: the node's context."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ir, ops
from ..errors import Reason, Refused
from ..ir import Tensor
from . import ranges
from .inference import input_name
from .ranges import Range
from .tensors import Array
from .view import NodeView

if TYPE_CHECKING:
    from .registry import Handler, Parameter
    from .scope import Scope

FLOATS = ("float32", "float16", "float64")
"""Dtypes that are computed in fp16: a double loses as a float does, and the numerics say so."""
MAX_RANK = 5


class Node:
    """One node being imported. Positions count the ONNX inputs and outputs, absent ones included."""

    def __init__(self, scope: Scope, view: NodeView, handler: Handler, since: int) -> None:
        self.scope = scope
        self.view = view
        self.handler = handler
        self.since = since
        """The version of the operator's text that holds for this node."""
        self.proved: dict[Tensor, Range] = {}
        """Results of which the handler proves something. An integer result needs it, see `ranges`."""
        self.made: dict[Tensor, np.dtype[Any]] = {}
        """dtypes of results, where neither the model nor onnx knows them and they are not that of the first float input."""
        self._numbers: list[np.dtype[Any] | None] = []
        self.moved: list[Range | None] = []
        """What is known of the inputs taken as `Data` or `Raw`: all that a result of theirs can hold, beside 0."""

    @property
    def opset(self) -> int:
        return self.view.version

    def before(self, version: int) -> bool:
        """Whether the text that holds is older than this version of ai.onnx; other domains have none that old."""
        return self.view.domain == "" and self.since < version

    @property
    def n_inputs(self) -> int:
        return len(self.view.inputs)

    @property
    def n_outputs(self) -> int:
        return len(self.view.outputs)

    def has(self, i: int) -> bool:
        """Whether input `i` is given. An empty float tensor does not count as absent here: see `Resize`."""
        return i < len(self.view.inputs) and self.view.inputs[i] != ""

    def wanted(self, j: int) -> bool:
        """Whether anybody reads output `j`."""
        return j < len(self.view.outputs) and self.view.outputs[j] in self.scope.view.read

    # ------------------------------------------------------------ what is known about an input

    def value(self, i: int) -> Tensor | Array | None:
        return self.scope.values.get(self.view.inputs[i]) if self.has(i) else None

    def dtype(self, i: int) -> np.dtype[Any] | None:
        """The ONNX dtype of input `i`; None when absent, not a tensor, or not known."""
        return self.scope.dtypes.get(self.view.inputs[i]) if self.has(i) else None

    def shape(self, i: int) -> tuple[int, ...]:
        """The shape of input `i`, whatever its dtype.

        Raises:
            Refused: it is not static."""
        shape = self.scope.shape(self.view.inputs[i])
        if shape is None:
            raise Refused("dynamic shape", f"the shape of {self.view.inputs[i]!r} is not known at import")
        return shape

    # ------------------------------------------------------------ what is proved of values

    def range(self, i: int) -> Range | None:
        """What is proved of the values of input `i`."""
        value, dtype = self.value(i), self.dtype(i)
        if isinstance(value, np.ndarray):
            return ranges.of_array(value)
        if dtype is not None and dtype.kind == "b":
            return 0, 1
        return self.scope.ranges.get(self.view.inputs[i]) if self.has(i) else None

    def prove(self, y: Tensor, span: Range | None) -> Tensor:
        """Notes what a result holds (nothing, if None), and returns it."""
        if span is not None:
            self.proved[y] = span
        return y

    def follow(self, y: Tensor, rule: Callable[..., Range], rounds: bool = False) -> Tensor:
        """Notes what a result holds if that is known of all inputs: `rule` of their intervals.

        Args:
            rounds: what it computes of floats is rounded, as its constants are: that may pass the bounds."""
        spans = ranges.known([self.range(i) for i in range(self.n_inputs) if self.has(i)])
        if spans is None:
            return y
        made = rule(*spans)
        dtype = self.dtype(0)
        if rounds and (dtype is None or dtype.kind not in "iu"):
            made = ranges.blurred(made, max(map(ranges.size, (made, *spans))))
        return self.prove(y, made)

    def proof(self, y: Tensor) -> Range | None:
        """What is known of a result: what its handler says, else what an operator that only moves elements was given."""
        span = self.proved.get(y)
        if span is None and self.handler.layout and self.moved and (moved := ranges.known(self.moved)) is not None:
            span = ranges.union((0, 0), *moved)
        return span

    # ------------------------------------------------------------ inputs in the forms that handlers declare

    def take(self, i: int, parameter: Parameter) -> Any:
        """Input `i` in the declared form."""
        match parameter.form:
            case "Tensor":
                return self.tensor(i)
            case "Known":
                return self.known(i)
            case "Mask":
                return self.mask(i)
            case "Bool":
                return self.bool(i)
            case "Data":
                return self.data(i)
            case "Raw":
                return self.raw(i)
            case "Number":
                return self.number(i)
            case "Value":
                value = self.value(i)
                return value if isinstance(value, np.ndarray) else self.tensor(i)
            case _:
                return self.value(i)

    def known(self, i: int) -> Array:
        """The value of an input that must be known at import."""
        value = self.value(i)
        if not isinstance(value, np.ndarray):
            word = input_name(self.view.op, self.view.domain, self.view.version, i) or f"input {i}"
            name = self.view.inputs[i] if self.has(i) else ""
            raise Refused(
                "computed parameter", f"its {word!r} ({name!r}) must be known at import, and is computed at run time"
            )
        return value

    def tensor(self, i: int) -> Tensor:
        """Input `i` as a Tensor of floats. Constants keep their precision."""
        value = self._present(i)
        if isinstance(value, np.ndarray):
            return self.const(value, self.view.inputs[i])
        self._demand_float(i)
        return value

    def const(self, value: Array, what: str = "") -> Tensor:
        """A known array of floats as a Tensor."""
        if value.dtype.name not in FLOATS:
            raise Refused("data type", f"the constant {what!r} is {value.dtype.name}; the engine computes in fp16")
        if value.ndim > MAX_RANK:
            raise Refused("rank", f"the constant {what!r} has rank {value.ndim}; the engine has 1 to {MAX_RANK}")
        if value.size == 0:
            raise Refused("limit", f"the constant {what!r} of shape {list(value.shape)} is empty")
        if np.isnan(value).any():
            raise Refused("data type", f"the constant {what!r} holds NaN, which the engine does not have")
        return ir.const(value)

    def mask(self, i: int) -> Tensor:
        """A bool input as fp16 0 or 1."""
        value = self._present(i)
        self._demand_bool(i)
        if isinstance(value, np.ndarray):
            return self.const(value.astype(np.float32), self.view.inputs[i])
        return ops.as_mask(value) if value.dtype == "bool" else value

    def bool(self, i: int) -> Tensor:
        """A bool input as a bool of the program."""
        value = self._present(i)
        self._demand_bool(i)
        if isinstance(value, np.ndarray):
            self.const(value.astype(np.float32), self.view.inputs[i])  # the same limits
            return ir.const(value)
        return value if value.dtype == "bool" else ops.as_bool(value)

    def data(self, i: int) -> Tensor:
        """An input that is only moved: floats, bools as fp16 0 or 1, or integers that are proved small."""
        dtype = self.dtype(i)
        x = self.mask(i) if dtype is not None and dtype.kind == "b" else self.number(i)
        self.moved.append(self.range(i))
        return x

    def raw(self, i: int) -> Tensor:
        """As `data`, but unsigned bytes as they come in through a port."""
        value = self._present(i)
        if isinstance(value, Tensor) and value.dtype == "uint8":
            self.moved.append(self.range(i))
            return value
        return self.data(i)

    def number(self, i: int) -> Tensor:
        """Floats, or integers that are proved small."""
        dtype = self.dtype(i)
        if dtype is None or dtype.kind not in "iu":
            y = self.tensor(i)
        else:
            y = self.count(i)
        self._numbers.append(dtype)
        if len(set(self._numbers)) > 1 and any(d is None or d.kind in "iu" for d in self._numbers):
            raise Refused("data type", f"{' and '.join(map(str, self._numbers))} do not mix")
        return y

    def count(self, i: int) -> Tensor:
        """An input of integers as whole fp16 numbers.

        Raises:
            Refused: they are not proved to lie within ±2048."""
        value = self._present(i)
        name = self.view.inputs[i]
        ranges.demand_exact(self.range(i), f"the values of {name!r}")
        if isinstance(value, np.ndarray):
            return self.const(value.astype(np.float32), name)
        return ops.cast(value, "fp16") if value.dtype == "uint8" else value

    def nothing(self, shape: tuple[int, ...]) -> Array:
        """A result without elements, of the type of input 0: there is one only, so it is known."""
        dtype = self.dtype(0)
        if dtype is None:
            raise Refused("data type", "an empty result of unknown type")
        return np.zeros(shape, dtype)

    def elements(self, i: int) -> Tensor:
        """As `data`, but of any rank: the elements in order, in a shape that may merge axes. See `shaped`."""
        value = self.value(i)
        return value if isinstance(value, Tensor) and self.scope.spread(value) else self.data(i)

    def shaped(self, x: Tensor, shape: tuple[int, ...]) -> Tensor | Array:
        """The elements x, in order, as a result of ONNX's `shape`. Beyond rank 5 the leading axes are merged, and only
        what moves whole axes can follow."""
        if len(shape) <= MAX_RANK:
            y = reshaped(x, shape)
            return ops.reshape(x, shape) if self.scope.spread(y) else y  # a Tensor of its own: x has more axes
        if x.is_const:
            return x.value.reshape(shape)
        lead = len(shape) - MAX_RANK + 1
        merged = ops.reshape(x, (math.prod(shape[:lead]), *shape[lead:]))
        self.scope.merged[merged] = shape
        return merged

    def _present(self, i: int) -> Tensor | Array:
        value = self.value(i)
        if self.scope.spread(value):
            raise Refused(
                "rank", f"{self.view.inputs[i]!r} has rank {len(self.shape(i))}; the engine has 1 to {MAX_RANK}"
            )
        if value is None:
            name = self.view.inputs[i] if self.has(i) else ""
            reason = self.scope.missing.get(name, Reason("data type", f"nothing is known about {name!r}"))
            raise Refused(reason.kind, reason.text)
        return value

    def _demand_float(self, i: int) -> None:
        dtype = self.dtype(i)
        if dtype is None or dtype.name not in FLOATS:
            name = "of unknown type" if dtype is None else dtype.name
            raise Refused("data type", f"{self.view.inputs[i]!r} is {name}; the engine computes in fp16")

    def _demand_bool(self, i: int) -> None:
        dtype = self.dtype(i)
        if dtype is None or dtype.kind != "b":
            name = "of unknown type" if dtype is None else dtype.name
            raise Refused("data type", f"{self.view.inputs[i]!r} is {name}, where a bool is needed")


def finite(value: Array, what: str) -> Array:
    """`value`, a weight, which must hold finite numbers only.

    Raises:
        Refused: it holds NaN or an infinity."""
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        bad = "NaN" if np.isnan(value).any() else "an infinity"
        raise Refused("data type", f"the constant {what} holds {bad}")
    return value


def whole(value: Array, what: str) -> int:
    """The single integer of a constant (rank 0 or one element)."""
    if value.size != 1 or value.dtype.kind not in "iu":
        raise Refused("attribute form", f"{what} is {value.dtype.name} of shape {list(value.shape)}, not one integer")
    return int(value.reshape(-1)[0])


def flag(value: int, what: str) -> bool:
    """An attribute that is 0 or 1; what other numbers mean, runtimes do not agree on."""
    if value not in (0, 1):
        raise Refused("attribute form", f"{what} = {value}; 0 and 1 are allowed")
    return value == 1


def wholes(value: Array) -> list[int]:
    """The integers of a constant, flat."""
    return [int(v) for v in value.reshape(-1)]


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """numpy's rule.

    Raises:
        Refused: they do not fit, or the rank is above 5."""
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise Refused("attribute form", f"the shapes {', '.join(map(str, shapes))} do not broadcast") from None
    if len(shape) > MAX_RANK:
        raise Refused("rank", f"rank {len(shape)} is above {MAX_RANK}")
    return tuple(shape)


def reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """x in another shape; scalars come and go by single axes, since MIL has no reshape to none."""
    if x.shape == shape:
        return x
    if not shape:
        return ops.squeeze(x, tuple(range(x.rank)))
    return ops.reshape(ops.expand_dims(x, (0,)) if x.rank == 0 else x, shape)


def size(shape: tuple[int, ...]) -> int:
    return math.prod(shape)
