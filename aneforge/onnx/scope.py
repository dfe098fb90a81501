"""The state of one import: what is known of every value, and the step that makes of one node MIL operations, known values, or
a refusal. Bodies and functions have scopes of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .. import ir
from ..errors import Reason, Refused
from ..ir import Tensor
from ..options import Options
from ..targets import Target
from . import expansion, faint, folding, inference, ranges, whole
from .cost import multiply_adds
from .folds import Unfoldable
from .node import FLOATS, MAX_RANK, Node
from .ranges import Range
from .registry import call, find
from .shapes import Malformed
from .tensors import Array
from .view import GraphView, NodeView, ValueView

Status = Literal["engine", "free", "cpu"]
Value = Tensor | Array | None
Shape = tuple[int, ...]
MOST = 1 << 31
"""Elements of one tensor: beyond it nothing runs, and what an import computes for it may not fit the memory here."""
UNROLLED = 4096
"""Nodes of bodies that one node may become, bodies in bodies counted."""
Check = Callable[[Sequence[Tensor], Collection[Tensor], Target], Reason | None]


@dataclass(frozen=True)
class NodeResult:
    """What became of one node. `macs`: multiply-adds for one run, whoever does them (0 where shapes are not known)."""

    index: int
    name: str
    op: str
    domain: str
    status: Status
    reason: Reason | None
    macs: int
    layout: bool


@dataclass(frozen=True, eq=False)
class Binding:
    """A value on its way from one scope into another."""

    value: Value
    dtype: np.dtype[Any] | None
    shape: Shape | None
    missing: Reason | None = None
    whole: bool = False
    """Whether its floats may be whole numbers beyond what fp16 counts: see `whole`."""
    span: Range | None = None
    """What is proved of its values: see `ranges`."""

    @classmethod
    def of(cls, array: Array) -> Binding:
        return cls(array, array.dtype, array.shape)


class Scope:
    """The state of one import."""

    def __init__(
        self,
        view: GraphView,
        options: Options,
        target: Target,
        check: Check | None,
        around: Scope | None = None,
        kept: Mapping[int, Reason] | None = None,
    ) -> None:
        self.view, self.options, self.target = view, options, target
        self._check = check
        self._kept = kept or {}
        """Nodes that are to stay on the CPU, whatever their handlers say."""
        self._producers: dict[str, NodeView] | None = None
        self._readers: dict[str, list[NodeView]] | None = None
        self.unsafe: set[int] = set()
        """Nodes that stay on the CPU because fp16 would make something else of their numbers."""
        self.whole: set[str] = set()
        """Float values that may hold whole numbers beyond what fp16 counts."""
        self.ranges: dict[str, Range] = {}
        """What is proved of computed values. Every integer among them has an interval within ±2048."""
        self.values: dict[str, Value] = {}
        self.dtypes: dict[str, np.dtype[Any] | None] = {}
        self.missing: dict[str, Reason] = {}
        """Why a value is None."""
        self.merged: dict[Tensor, Shape] = {} if around is None else around.merged
        """Tensors that stand for values of more axes than the engine has: their elements in order, and ONNX's shape.
        Only what moves whole axes takes them (`Node.elements`); they neither enter nor leave a program."""
        self.results: list[NodeResult] = []
        self.bugs: dict[int, Exception] = {}
        self._shapes: dict[str, Shape] = {}
        self._root: Scope = self if around is None else around._root
        self._unrolled = 0
        """Nodes of bodies that the present node of the outermost graph has become."""
        for name, value in view.values.items():
            if value.data is not None:
                self._store(name, value.data, value.data.dtype, value.data.shape)
        self._mark = around is None
        """Whether what is made here gets the node's index as its origin; a body's has that of the node around it."""
        for name in view.outer:
            if around is not None:
                self.bind(name, around.get(name))
        for name in [*view.inputs, *view.outer]:
            if around is None and name not in self.values:
                value = view.values[name]
                self._enter(name, value.dtype, _static(value.shape), value)

    def get(self, name: str) -> Binding:
        """All that is known about a value, to be known in another scope."""
        return Binding(
            self.values.get(name),
            self.dtypes.get(name),
            self.shape(name),
            self.missing.get(name),
            name in self.whole,
            self.ranges.get(name),
        )

    def bind(self, name: str, given: Binding) -> None:
        """Makes a value of another scope known here under `name`."""
        self.values[name], self.dtypes[name] = given.value, given.dtype
        if given.shape is not None:
            self._shapes[name] = given.shape
        if given.missing is not None:
            self.missing[name] = given.missing
        if given.whole:
            self.whole.add(name)
        if given.span is not None:
            self.ranges[name] = given.span

    def body(self, view: GraphView, arguments: Sequence[Binding] = ()) -> Scope:
        """The scope of a body, imported in place: every node of it must have an engine form.

        Raises:
            Refused: a node has none."""
        self._root._unrolled += len(view.nodes)
        if self._root._unrolled > UNROLLED:
            raise Refused("limit", f"more than {UNROLLED} nodes of its body, unrolled; that many are the limit")
        inner = Scope(view, self.options, self.target, self._check, self)
        for name, given in zip(view.inputs, arguments, strict=True):
            inner.bind(name, given)
        for node in view.nodes:
            inner.run(node)
            result = inner.results[-1]
            if result.reason is not None:
                raise Refused(result.reason.kind, f"in its body, {node.op} (node {node.name!r}): {result.reason.text}")
        for reason in faint.faint(inner).values():
            raise Refused(reason.kind, f"in its body, {reason.text}")
        for name in view.outputs:
            if inner.spread(inner.values.get(name)):
                raise Refused("rank", f"{name!r}, which its body gives, has more axes than the engine")
        return inner

    def walk(self) -> Scope:
        """Imports all nodes."""
        for node in self.view.nodes:
            self.run(node)
        return self

    def producer(self, name: str) -> NodeView | None:
        """The node of this graph that makes a value."""
        if self._producers is None:
            self._producers = {out: node for node in self.view.nodes for out in node.outputs if out}
        return self._producers.get(name)

    def readers(self, name: str) -> list[NodeView]:
        """The nodes of this graph that read a value; those whose bodies read it count."""
        if self._readers is None:
            self._readers = {}
            for node in self.view.nodes:
                for given in dict.fromkeys((*node.inputs, *node.implicit)):
                    self._readers.setdefault(given, []).append(node)
        return self._readers.get(name, [])

    def known(self, name: str) -> Array | None:
        """A value known at import, though its node may not have had its turn."""
        value = self.values.get(name)
        if value is None and (made := self.producer(name)) is not None and made.op == "Constant":
            value = next((v for v in made.attributes.values() if isinstance(v, np.ndarray)), None)
        return value if isinstance(value, np.ndarray) else None

    def spread(self, value: Value) -> bool:
        """Whether a value has more axes than the Tensor that stands for it."""
        return isinstance(value, Tensor) and value in self.merged

    def shape(self, name: str) -> Shape | None:
        """The static shape of a value, if it has one."""
        if name in self._shapes:
            return self._shapes[name]
        value = self.view.values.get(name)
        return None if value is None else _static(value.shape)

    # ------------------------------------------------------------ one node

    def run(self, view: NodeView) -> None:
        """Imports one node and notes what became of it."""
        status: Status = "engine"
        reason: Reason | None = None
        layout = False
        if self._mark:
            self._unrolled = 0
        try:
            folded = self._fold(view)
            if folded is not None:
                for name, array in zip(view.outputs, folded, strict=False):
                    self._store(name, array, array.dtype, array.shape)
            else:
                self._keep(view)
                with ir.origin(*([view.index] if self._mark else [])):
                    try:
                        handler, since = find(view.op, view.domain, view.version)
                    except Refused as missing:
                        self._expand(view, missing)
                    else:
                        layout = handler.layout
                        node = Node(self, view, handler, since)
                        self._adopt(view, call(handler, node), node)
            if all(isinstance(self.values.get(name), np.ndarray) for name in view.outputs if name):
                status = "free"
        except Refused as e:
            status, reason = "cpu", e.reason
        except Malformed as e:
            status, reason = "cpu", Reason("attribute form", str(e))
        except MemoryError:
            status, reason = "cpu", Reason("limit", "it is too large to be computed at import")
        except Exception as e:
            status = "cpu"
            if self._invalid(view):
                reason = Reason("attribute form", f"the node is not valid ONNX: {e}")
            else:
                reason = Reason("bug", f"{type(e).__name__}: {e}")
                self.bugs[view.index] = e
        if status == "cpu":
            self._leave(view)
            if whole.makes_whole(self, view):
                self.whole |= {n for n in view.outputs if (d := self.dtypes.get(n)) is not None and d.name in FLOATS}
        macs = multiply_adds(view, self.shape)
        self.results.append(NodeResult(view.index, view.name, view.op, view.domain, status, reason, macs, layout))

    def _expand(self, view: NodeView, refusal: Refused) -> None:
        """Imports the function that defines an operator without a handler.

        Raises:
            Refused: there is none, or a node of it has no engine form."""
        made = expansion.expanded(self, view)
        if made is None:
            raise refusal
        self._adopt(view, made)

    def _keep(self, view: NodeView) -> None:
        """Raises Refused for a node that must not see, or give, fp16."""
        if (reason := self._kept.get(view.index)) is not None:
            self.unsafe.add(view.index)
            raise Refused(reason.kind, reason.text)
        for name in view.inputs:
            if name in self.whole and not whole.harmless(self, view):
                self.unsafe.add(view.index)
                text = f"{name!r} holds integers as floats, beyond {ranges.COUNTED} maybe, and fp16 counts no further"
                raise Refused("data type", text)

    def _fold(self, view: NodeView) -> list[Array] | None:
        given: list[Array | None] = []
        for name in view.inputs:
            value = self.values.get(name) if name else None
            if name and not isinstance(value, np.ndarray):
                return None
            given.append(value if isinstance(value, np.ndarray) else None)
        since = inference.since(view.op, view.domain, view.version)
        try:
            return folding.fold(view.op, view.domain, view.version, since, view.attributes, given, len(view.outputs))
        except Unfoldable:
            return None

    def _adopt(self, view: NodeView, result: Any, node: Node | None = None) -> None:
        """Takes what became of a node, checked against what ONNX infers. A Binding tells its dtype and its range.

        Raises:
            Refused: a result that somebody reads is missing, or has no engine form.
            AssertionError: a result has another shape than ONNX infers, or no dtype: a bug."""
        results = (result,) if isinstance(result, (Tensor, np.ndarray, Binding)) else tuple(result)
        given: list[Value] = [r.value if isinstance(r, Binding) else r for r in results]
        spans = [r.span if isinstance(r, Binding) else None for r in results]
        hints = [r.dtype if isinstance(r, Binding) else self._said(node, r) for r in results]
        types = self._output_types(view, given, hints, node is not None and node.handler.own_shape)
        self._judge(view, given)
        made = [_plain(v, types[j] if j < len(types) else None) for j, v in enumerate(given)]
        for j, name in enumerate(view.outputs):
            if not name:
                continue
            value = made[j] if j < len(made) else None
            if value is None:
                if name in self.view.read:
                    raise Refused(
                        "no engine form", f"its output {j} ({name!r}) is read, and the engine does not compute it"
                    )
                self.missing[name] = Reason("no engine form", f"{name!r} is not computed on the engine")
                self.values[name], self.dtypes[name] = None, types[j]
                continue
            if isinstance(value, Tensor):
                _fits(value, name)
            dtype = value.dtype if isinstance(value, np.ndarray) else types[j]
            span = None
            if isinstance(value, Tensor):
                span = spans[j] if spans[j] is not None or node is None else node.proof(value)
                span = _proved(name, dtype, span)
            self._store(name, value, dtype, self._shape_of(value), span)

    def _shape_of(self, value: Tensor | Array) -> Shape:
        return self.merged.get(value, value.shape) if isinstance(value, Tensor) else value.shape

    def _judge(self, view: NodeView, made: Sequence[Value]) -> None:
        """Asks whether the target takes what the node became."""
        if self._check is None:
            return
        outputs = [v for v in made if isinstance(v, Tensor)]
        given = (*view.inputs, *view.implicit)
        inputs = [v for name in given if isinstance(v := self.values.get(name), Tensor)]
        reason = self._check(outputs, inputs, self.target) if outputs else None
        if reason is not None:
            raise Refused(reason.kind, reason.text)

    def _output_types(
        self, view: NodeView, made: Sequence[Value], hints: Sequence[np.dtype[Any] | None], own_shape: bool
    ) -> list[np.dtype[Any] | None]:
        """`hints`: what the handler knows of them, where neither the graph nor onnx tells."""
        declared = [self.view.values.get(name) for name in view.outputs]
        types = [None if v is None else v.dtype for v in declared]
        exact: list[tuple[np.dtype[Any] | None, tuple[int | None, ...] | None]] | None = None
        for j, value in enumerate(made[: len(view.outputs)]):
            if value is None or not view.outputs[j]:
                continue
            shape = declared[j].shape if declared[j] is not None else None  # type: ignore[union-attr]
            actual = self._shape_of(value)
            if types[j] is not None and (shape is None or _agree(shape, actual)):
                continue
            exact = exact if exact is not None else self._infer(view) or [(None, None)] * len(view.outputs)
            dtype, shape_ = exact[j]
            types[j] = dtype if dtype is not None else types[j]
            if shape_ is not None and not _agree(shape_, actual) and not own_shape:
                raise AssertionError(f"output {j} has the shape {actual}; ONNX infers {list(shape_)}")
            if types[j] is None:
                types[j] = hints[j] if hints[j] is not None else self._guess(view, value)
        return types

    @staticmethod
    def _said(node: Node | None, value: Value) -> np.dtype[Any] | None:
        return node.made.get(value) if node is not None and isinstance(value, Tensor) else None

    def _guess(self, view: NodeView, value: Tensor | Array) -> np.dtype[Any] | None:
        """The dtype of a result of an operator that onnx does not know: that of its first float input."""
        if isinstance(value, np.ndarray):
            return value.dtype
        if value.dtype == "bool":
            return np.dtype(bool)
        given = (self.dtypes.get(name) for name in view.inputs)
        return next((d for d in given if d is not None and d.name in FLOATS), None)

    def _infer(self, view: NodeView) -> list[tuple[np.dtype[Any] | None, tuple[int | None, ...] | None]] | None:
        """ONNX's inference for one node, from what is really known about its inputs."""
        given: list[tuple[np.dtype[Any] | None, tuple[int | str | None, ...] | None, Array | None] | None] = []
        for name in view.inputs:
            value = self.values.get(name)
            shape: tuple[int | str | None, ...] | None = self.shape(name)
            if shape is None and name in self.view.values:
                shape = self.view.values[name].shape
            dtype = self.dtypes.get(name)
            given.append((dtype, shape, value if isinstance(value, np.ndarray) else None) if name else None)
        return inference.infer_node(
            view.op, view.domain, view.version, view.attributes, given, len(view.outputs), self.view.ir_version
        )

    def _invalid(self, view: NodeView) -> bool:
        """Whether onnx itself finds the node's inputs contradictory."""
        if any(self.shape(name) is None for name in view.inputs if name):
            return False
        return inference.since(view.op, view.domain, view.version) is not None and self._infer(view) is None

    def _leave(self, view: NodeView) -> None:
        """The outputs of a node that stays on the CPU enter as inputs."""
        exact: list[tuple[np.dtype[Any] | None, tuple[int | None, ...] | None]] | None = None
        for j, name in enumerate(view.outputs):
            if not name:
                continue
            value = self.view.values.get(name, ValueView(name, kind="unknown"))
            dtype, shape = value.dtype, _static(value.shape)
            if value.kind in ("tensor", "unknown") and (dtype is None or shape is None):
                exact = exact if exact is not None else self._infer(view) or [(None, None)] * len(view.outputs)
                dtype = dtype if dtype is not None else exact[j][0]
                shape = shape if shape is not None else _static(exact[j][1])
            self._enter(name, dtype, shape, value)
            if (
                dtype == np.float64
            ):  # a model of doubles is computed as one of floats; one that goes to doubles means them
                self.values[name] = None
                self.missing[name] = Reason("data type", f"{name!r} is float64, made on the CPU; it stays there")

    # ------------------------------------------------------------ values

    def _store(
        self, name: str, value: Value, dtype: np.dtype[Any] | None, shape: Shape, span: Range | None = None
    ) -> None:
        if name:
            self.values[name], self.dtypes[name], self._shapes[name] = value, dtype, tuple(shape)
            self._prove(name, span)

    def _prove(self, name: str, span: Range | None) -> None:
        self.ranges.pop(name, None)
        if span is not None:
            self.ranges[name] = span

    def _enter(self, name: str, dtype: np.dtype[Any] | None, shape: Shape | None, view: ValueView) -> None:
        """A value from outside: a port if its type allows one, else None and the reason."""
        reason = _no_port(name, dtype, shape, view)
        self.dtypes[name] = dtype
        if shape is not None:
            self._shapes[name] = shape
        if reason is not None or shape is None:
            self.values[name] = None
            self.missing[name] = reason or Reason("dynamic shape", f"the shape of {name!r} is not known at import")
            return
        self.missing.pop(name, None)
        self.values[name] = ir.input(name, shape, "uint8" if dtype == np.uint8 else "fp16")
        self._prove(name, None if dtype is None else ranges.PORTS.get(dtype.name))


def _no_port(name: str, dtype: np.dtype[Any] | None, shape: Shape | None, view: ValueView) -> Reason | None:
    """Why a value cannot enter a program."""
    if view.kind not in ("tensor", "unknown"):
        return Reason("data type", f"{name!r} is a {view.kind}, not a tensor")
    if dtype is None:
        return Reason("data type", f"the type of {name!r} is not known")
    if dtype.name not in (*FLOATS, "bool", *ranges.PORTS):
        kind = "string" if dtype == np.dtype(object) else dtype.name
        return Reason("data type", f"{name!r} is {kind}; the engine computes in fp16")
    if shape is None:
        known = "?" if view.shape is None else ", ".join(str(d) if d is not None else "?" for d in view.shape)
        return Reason("dynamic shape", f"{name!r} has the shape [{known}], which is not fixed at import")
    if len(shape) > MAX_RANK:
        return Reason("rank", f"{name!r} has rank {len(shape)}; the engine has 1 to {MAX_RANK}")
    if 0 in shape:
        return Reason("limit", f"{name!r} of shape {list(shape)} is empty; the engine has no empty tensors")
    if math.prod(shape) > MOST:
        return Reason("limit", f"{name!r} of shape {list(shape)} is larger than any engine's memory")
    return None


def _plain(value: Value, dtype: np.dtype[Any] | None) -> Value:
    """A constant Tensor as the known value that it is: no program may have it for an output."""
    if isinstance(value, Tensor) and value.is_const and dtype is not None:
        return value.value.astype(dtype, copy=False)
    return value


def _proved(name: str, dtype: np.dtype[Any] | None, span: Range | None) -> Range | None:
    """What is noted of a result, given what is proved.

    Raises:
        Refused: an integer that is not proved small, or that its type does not hold."""
    if dtype is None or dtype.kind not in "iu":
        return None if span is None or dtype is None or dtype.kind == "b" else ranges.widened(span)
    span = ranges.demand_exact(span, f"the values of {name!r}")
    if not ranges.fits(span, dtype):
        raise Refused("data type", f"{name!r} is {dtype}, and {span[0]:g} to {span[1]:g} would wrap around")
    return span


def _fits(value: Tensor, name: str) -> None:
    if value.rank > MAX_RANK:
        raise Refused("rank", f"{name!r} has rank {value.rank}; the engine has 1 to {MAX_RANK}")
    if 0 in value.shape:
        raise Refused("limit", f"{name!r} of shape {list(value.shape)} is empty; the engine has no empty tensors")
    if value.type.size > MOST:
        raise Refused("limit", f"{name!r} of shape {list(value.shape)} is larger than any engine's memory")


def _static(shape: Iterable[int | str | None] | None) -> Shape | None:
    if shape is None:
        return None
    extents = tuple(shape)
    return tuple(d for d in extents if isinstance(d, int)) if all(isinstance(d, int) for d in extents) else None


def _agree(shape: Sequence[int | str | None], actual: Shape) -> bool:
    return len(shape) == len(actual) and all(
        not isinstance(d, int) or d == a for d, a in zip(shape, actual, strict=True)
    )
