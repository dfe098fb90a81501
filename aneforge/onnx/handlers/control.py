"""Control flow, where what happens is known at import."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ... import ops
from ...errors import Reason, Refused
from ...ir import Tensor
from ..node import MAX_RANK, Node, reshaped, whole, wholes
from ..registry import Any_, Known, onnx_op
from ..scope import UNROLLED, Binding, Scope
from ..shapes import wrap
from ..tensors import Array
from ..view import GraphView, ValueView
from .layout import NEW


def _truth(value: Tensor | Array | None, what: str) -> bool:
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise Refused("computed parameter", f"its {what} is computed at run time")
    return bool(value.reshape(()))


@onnx_op("If", since=(1, 11, 16, *NEW))
def if_(node: Node, condition: Known, *, then_branch: GraphView, else_branch: GraphView) -> list[Binding]:
    """A known condition: the branch that is taken, in place of the node."""
    branch = then_branch if _truth(condition, "condition") else else_branch
    inner = node.scope.body(branch)
    return [inner.get(name) for name in branch.outputs]


@onnx_op("Loop", since=(1, 11, 16, *NEW))
def loop(
    node: Node, trips: Any_ = None, condition: Any_ = None, *states: Any_, body: GraphView
) -> list[Binding | None]:
    """A known number of rounds, or a condition that is known in each, unrolled.

    Inputs of the body: round, condition, states; outputs: condition, states, and what is collected.
    """
    rounds = None
    if node.has(0):
        if not isinstance(trips, np.ndarray):
            raise Refused("computed parameter", "its number of rounds is computed at run time")
        rounds = whole(trips, "the number of rounds")
    given = node.view.inputs[2:]
    if len(body.inputs) != 2 + len(given) or len(body.outputs) < 1 + len(given):
        raise Refused("attribute form", f"a body of {len(body.inputs)} inputs for {len(given)} states")
    going = not node.has(1) or _truth(condition, "condition")
    held = [node.scope.get(name) for name in given]
    collected: list[list[Binding]] = [[] for _ in body.outputs[1 + len(held) :]]
    k = 0
    if rounds is not None and not _open_ended(body):
        _afford(rounds if going else 0, body)
    while going and (rounds is None or k < rounds):
        _afford(k + 1, body, "at least ")
        inner: Scope = node.scope.body(body, [Binding.of(np.asarray(k, np.int64)), Binding.of(np.asarray(True)), *held])
        going = _truth(inner.values.get(body.outputs[0]), "condition after a round")
        held = [inner.get(name) for name in body.outputs[1 : 1 + len(held)]]
        for place, name in zip(collected, body.outputs[1 + len(held) :], strict=True):
            place.append(inner.get(name))
        k += 1
    names = body.outputs[1 + len(held) :]
    wanted = [node.wanted(len(held) + i) for i in range(len(names))]
    stacks = [
        _stacked(node, place, 0, body.values.get(name)) if want else None
        for place, name, want in zip(collected, names, wanted, strict=True)
    ]
    return [*held, *stacks]


@onnx_op("Scan", since=(8, 9, 11, 16, *NEW[1:]))
def scan(
    node: Node,
    *xs: Any_,
    body: GraphView,
    num_scan_inputs: int,
    directions: Sequence[int] = (),
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> list[Binding | None]:
    """A round for each element along the scanned axes, unrolled. Version 8 scans axis 1, once for each of a batch."""
    first = 1 if node.since == 8 else 0
    names = node.view.inputs[first:]
    n_states = len(names) - num_scan_inputs
    n_outputs = len(body.outputs) - n_states
    if num_scan_inputs < 1 or n_states < 0 or n_outputs < 0 or len(body.inputs) != len(names):
        raise Refused(
            "attribute form", f"{num_scan_inputs} scanned of {len(names)} inputs, for {len(body.inputs)} of the body"
        )
    form = _Form(
        node,
        body,
        n_states,
        _all(scan_input_directions or directions, num_scan_inputs, "directions"),
        _all(scan_output_directions, n_outputs, "directions"),
        [0] * n_outputs if node.since == 8 else _all(scan_output_axes, n_outputs, "axes"),
    )
    scanned = range(first + n_states, first + len(names))
    axes = _all(scan_input_axes, num_scan_inputs, "axes")
    if node.since != 8:
        states = [node.scope.get(name) for name in names[:n_states]]
        axes = [wrap(axis, len(node.shape(i))) for axis, i in zip(axes, scanned, strict=True)]
        return form.run(states, [_Scanned(node, i, axis) for i, axis in zip(scanned, axes, strict=True)])
    extents = {node.shape(i)[:2] for i in scanned}
    if len(extents) != 1 or len(next(iter(extents))) != 2:
        raise Refused("attribute form", f"scanned inputs that begin with {sorted(extents)}")
    batch, steps = next(iter(extents))
    if node.has(0) and any(length != steps for length in wholes(node.known(0))):
        raise Refused("attribute form", f"sequences shorter than their {steps} steps")
    runs = []
    for b in range(batch):
        states = [_Scanned(node, first + i, 0).at(b) for i in range(n_states)]
        runs.append(form.run(states, [_Scanned(node, i, 0).sub(b) for i in scanned]))
    return [
        None if None in parts else _stacked(node, [r for r in parts if r is not None], 0)
        for parts in zip(*runs, strict=True)
    ]


def _all(given: Sequence[int], count: int, what: str) -> list[int]:
    if given and len(given) != count:
        raise Refused("attribute form", f"{len(given)} {what} for {count} values")
    return list(given) or [0] * count


class _Scanned:
    """A value of which one element along an axis is taken at a time."""

    def __init__(self, node: Node, i: int, axis: int) -> None:
        value = node.value(i)
        self.value = value if isinstance(value, np.ndarray) else node.data(i)
        self.dtype, self.axis = node.dtype(i), axis
        self.whole = node.scope.get(node.view.inputs[i]).whole

    @property
    def count(self) -> int:
        return int(self.value.shape[self.axis])

    def at(self, k: int) -> Binding:
        """The element, without the axis."""
        if isinstance(self.value, np.ndarray):
            return Binding.of(np.take(self.value, k, self.axis))
        shape = (*self.value.shape[: self.axis], *self.value.shape[self.axis + 1 :])
        taken = reshaped(ops.slice_axis(self.value, self.axis, k, 1), shape)
        return Binding(taken, self.dtype, shape, whole=self.whole)

    def sub(self, k: int) -> _Scanned:
        """The element, to be scanned along its own first axis."""
        out: _Scanned = object.__new__(_Scanned)
        taken = self.at(k)
        assert taken.value is not None
        out.value, out.dtype, out.axis, out.whole = taken.value, self.dtype, 0, self.whole
        return out


@dataclass(frozen=True)
class _Form:
    """How a Scan runs: its body, and what is said of its inputs and outputs."""

    node: Node
    body: GraphView
    n_states: int
    backwards: Sequence[int]
    prepends: Sequence[int]
    output_axes: Sequence[int]

    def run(self, states: list[Binding], scanned: Sequence[_Scanned]) -> list[Binding | None]:
        """The last states, and what is collected."""
        counts = {each.count for each in scanned}
        if len(counts) != 1:
            raise Refused("attribute form", f"scanned inputs of {sorted(counts)} elements")
        count = counts.pop()
        _afford(count, self.body)
        names = self.body.outputs[self.n_states :]
        collected: list[list[Binding]] = [[] for _ in names]
        for k in range(count):
            elements = [
                each.at(count - 1 - k if back else k) for each, back in zip(scanned, self.backwards, strict=True)
            ]
            inner = self.node.scope.body(self.body, [*states, *elements])
            states = [inner.get(name) for name in self.body.outputs[: self.n_states]]
            for place, name in zip(collected, names, strict=True):
                place.append(inner.get(name))
        stacks = [
            _stacked(self.node, place[::-1] if back else place, axis, self.body.values.get(name))
            if self.node.wanted(self.n_states + i)
            else None
            for i, (place, back, axis, name) in enumerate(
                zip(collected, self.prepends, self.output_axes, names, strict=True)
            )
        ]
        return [*states, *stacks]


def _nodes(body: GraphView) -> int:
    """Nodes of a body, those of bodies in it counted."""
    below = [a for n in body.nodes for a in n.attributes.values() if isinstance(a, GraphView)]
    return max(1, len(body.nodes) + sum(map(_nodes, below)))


def _open_ended(body: GraphView) -> bool:
    """Whether a loop may end before its count: its condition is no constant handed on."""
    name = body.outputs[0]
    for _ in body.nodes:
        made = next((n for n in body.nodes if name in n.outputs), None)
        if made is None or made.op != "Identity":
            break
        name = made.inputs[0]
    known = body.values.get(name)
    return name != body.inputs[1] and (known is None or known.data is None)


def _afford(rounds: int, body: GraphView, more: str = "") -> None:
    count = _nodes(body)
    if rounds * count > UNROLLED:
        raise Refused("limit", f"{more}{rounds} rounds of {count} nodes; up to {UNROLLED} nodes are unrolled")


def _stacked(node: Node, parts: Sequence[Binding], axis: int, declared: ValueView | None = None) -> Binding | None:
    """One value of many, along a new axis. Of none, an empty known one, where the body declares what it would be."""
    if not parts:
        shape = [] if declared is None or declared.shape is None else [d for d in declared.shape if isinstance(d, int)]
        if declared is None or declared.dtype is None or declared.shape is None or len(shape) != len(declared.shape):
            raise Refused("limit", "it collects nothing: the result is empty, and of unknown shape")
        shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, 0)
        return Binding.of(np.zeros(shape, declared.dtype))
    for part in parts:
        if part.value is None:
            reason = part.missing or Reason("no engine form", "what it collects is not computed on the engine")
            raise Refused(reason.kind, reason.text)
    values = [part.value for part in parts if part.value is not None]
    if len({v.shape for v in values}) != 1:
        raise Refused("attribute form", f"what it collects changes its shape: {sorted({v.shape for v in values})}")
    rank = len(values[0].shape) + 1
    at = wrap(axis, rank)
    if all(isinstance(v, np.ndarray) for v in values):
        return Binding.of(np.stack([np.asarray(v) for v in values], at))
    if rank > MAX_RANK:
        raise Refused("rank", f"what it collects has rank {rank}; the engine has 1 to {MAX_RANK}")
    tensors = [ops.expand_dims(_tensor(node, v), (at,)) for v in values]
    made = ops.concat_any(tensors, at)
    dtype = next((p.dtype for p in parts if p.dtype is not None), None)
    return Binding(made, dtype, made.shape, whole=any(p.whole for p in parts))


def _tensor(node: Node, value: Tensor | Array) -> Tensor:
    if isinstance(value, np.ndarray):
        return node.const(value.astype(np.float32) if value.dtype.kind == "b" else value)
    return ops.as_mask(value) if value.dtype == "bool" else value
