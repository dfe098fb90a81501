"""Control flow, where what happens is known at import."""

from __future__ import annotations

import numpy as np

from ... import ops
from ...errors import Refused
from ...ir import Tensor
from ..importer import Binding, Scope
from ..node import Node
from ..registry import Any_, Known, onnx_op
from ..tensors import Array
from ..view import GraphView
from .layout import NEW

UNROLLED = 4096
"""Nodes that an unrolled loop may have."""


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
) -> list[Tensor | Array | None]:
    """A known number of rounds, unrolled.

    Inputs of the body: round, condition, states; outputs: condition, states, and what is collected.
    """
    if not isinstance(trips, np.ndarray):
        raise Refused("computed parameter", "its number of rounds is computed at run time")
    rounds = int(trips.reshape(()))
    if rounds * max(1, len(body.nodes)) > UNROLLED:
        raise Refused("limit", f"{rounds} rounds of {len(body.nodes)} nodes; up to {UNROLLED} nodes are unrolled")
    going = condition is None or _truth(condition, "condition")
    held = [node.scope.get(name) for name in node.view.inputs[2:]]
    collected: list[list[Tensor | Array]] = [[] for _ in range(len(body.outputs) - 1 - len(held))]
    k = 0
    while going and k < rounds:
        inner: Scope = node.scope.body(body, [Binding.of(np.asarray(k, np.int64)), Binding.of(np.asarray(True)), *held])
        going = _truth(inner.values.get(body.outputs[0]), "condition after a round")
        held = [inner.get(name) for name in body.outputs[1 : 1 + len(held)]]
        for place, name in zip(collected, body.outputs[1 + len(held) :], strict=True):
            value = inner.values.get(name)
            if value is None:
                raise Refused("no engine form", f"{name!r}, which it collects, is not computed on the engine")
            place.append(value)
        k += 1
    return [*(h.value for h in held), *(_stacked(node, place) for place in collected)]


def _stacked(node: Node, parts: list[Tensor | Array]) -> Tensor | Array:
    if not parts:
        raise Refused("limit", "it collects nothing: the result is empty")
    if all(isinstance(p, np.ndarray) for p in parts):
        return np.stack([np.asarray(p) for p in parts])
    tensors = [node.const(p) if isinstance(p, np.ndarray) else p for p in parts]
    tensors = [ops.as_mask(t) if t.dtype == "bool" else t for t in tensors]
    return ops.concat_any([ops.expand_dims(t, (0,)) for t in tensors], 0)
