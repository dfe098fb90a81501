"""Logarithms of numbers too faint for fp16.

log(x² + 1e-10) is about values down to 1e-10, where fp16 ends at 6e-8: the addend says which sizes matter. What makes
them stays on the CPU: the logarithm, the addend, and what is between them and the last step whose operands fp16 still
holds, the square (or the exponential) of ordinary numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..errors import Reason
from .view import NodeView

if TYPE_CHECKING:
    from .scope import Scope

LEAST = 2.0**-20
"""From here up fp16 holds numbers to 1 part in 32, the logarithm to 0.03."""
_LAYOUT = frozenset(
    [
        "Identity",
        "Cast",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Expand",
        "Tile",
        "Slice",
        "Split",
        "Concat",
        "Gather",
        "Dropout",
        "Pad",
    ]
)
_CHEAP = _LAYOUT | frozenset(
    [
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Neg",
        "Abs",
        "Sqrt",
        "Max",
        "Min",
        "Sum",
        "Mean",
        "Clip",
        "Relu",
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceL1",
        "Where",
        "AveragePool",
        "GlobalAveragePool",
        "MaxPool",
    ]
)
_SPREADING = frozenset(["Pow", "Exp", "Softmax", "Sigmoid", "ReduceSumSquare", "ReduceL2", "Reciprocal", "Softplus"])
_PRODUCTS = frozenset(["MatMul", "Gemm", "Conv", "Einsum"])


def faint(scope: Scope) -> dict[int, Reason]:
    """The nodes of a scope that must not be computed in fp16, with reasons."""
    found: dict[int, Reason] = {}
    for node in scope.view.nodes:
        if node.op != "Log" or node.domain not in ("", "ai.onnx") or not node.inputs:
            continue
        way = _guard(scope, node)
        if way is None:
            continue
        nodes, inner, least = way
        reached: dict[int, bool] = {}
        _back(scope, inner, 1, reached)
        text = f"the logarithm it leads to is of numbers down to {least:.2g}, and fp16 holds none below 6e-08"
        found |= dict.fromkeys([n.index for n in nodes] + [i for i, r in reached.items() if r], Reason("limit", text))
    return found


def _number(scope: Scope, name: str) -> float | None:
    value = scope.values.get(name) if name else None
    if not isinstance(value, np.ndarray) or value.size == 0 or value.dtype.kind != "f":
        return None
    least = float(value.min())
    return least if least == float(value.max()) else None


def _guard(scope: Scope, log: NodeView) -> tuple[list[NodeView], str, float] | None:
    """(nodes from the logarithm to its guard, what is guarded, from which size on it matters), if fp16 ends before
    that size."""
    nodes, name, guard = [log], log.inputs[0], None
    for _ in range(12):
        node = scope.producer(name)
        if node is None or not node.inputs:
            break
        step = _floor(scope, node) if guard is None else None
        if step is not None:
            name, guard = step
        elif node.op in _LAYOUT or (node.op == "Sqrt" and guard is None):
            name = node.inputs[0]
        elif node.op in ("Mul", "Div") and (factor := _factor(scope, node)) is not None:
            name, size = factor
            guard = None if guard is None else guard / size
        else:
            break
        nodes.append(node)
    return (nodes, name, guard) if guard is not None and 0 < guard <= LEAST else None


def _floor(scope: Scope, node: NodeView) -> tuple[str, float] | None:
    """(x, c) of x + c, max(x, c), clip(x, c)."""
    if node.op == "Clip":
        low = node.attributes.get("min") if len(node.inputs) < 2 else _number(scope, node.inputs[1])
        return (node.inputs[0], float(low)) if isinstance(low, float) and low > 0 else None
    return _pair(scope, node) if node.op in ("Add", "Max", "Sum") else None


def _factor(scope: Scope, node: NodeView) -> tuple[str, float] | None:
    """(x, |c|) of x * c, x / c as a factor."""
    if node.op == "Mul":
        return _pair(scope, node)
    value = _number(scope, node.inputs[1])
    return (node.inputs[0], 1.0 / value) if value is not None and value > 0 else None


def _pair(scope: Scope, node: NodeView) -> tuple[str, float] | None:
    if len(node.inputs) != 2:
        return None
    for x, c in (node.inputs, node.inputs[::-1]):
        value = _number(scope, c)
        if value is not None and value > 0:
            return x, value
    return None


def _back(scope: Scope, start: str, products: int, reached: dict[int, bool]) -> bool:
    """Marks the nodes between `start` and the steps that spread sizes apart; whether there is one on the way. Without
    recursion: such graphs are deep. Looks through one product with constants (a filter bank)."""
    pending: list[tuple[str, int, Iterator[str] | None]] = [(start, products, None)]
    answer = False
    while pending:
        name, left, sources = pending.pop()
        node = scope.producer(name)
        if node is None or isinstance(scope.values.get(name), np.ndarray):
            answer = False
            continue
        if sources is None:
            if node.index in reached:
                answer = reached[node.index]
                continue
            spreads = _spreads(scope, node)
            heavy = node.op in _PRODUCTS
            if not (spreads or node.op in _CHEAP or (heavy and left)):
                reached[node.index] = answer = False
                continue
            reached[node.index] = spreads
            left = 0 if spreads or heavy else left
            sources = iter([n for n in node.inputs if n])
        elif answer:
            reached[node.index] = True
        following = next(sources, None)
        if following is None:
            answer = reached[node.index]
            continue
        pending.append((name, left, sources))
        pending.append((following, left, None))
    return answer


def _spreads(scope: Scope, node: NodeView) -> bool:
    if node.op == "Mul":
        return not any(isinstance(scope.values.get(n), np.ndarray) for n in node.inputs)
    return node.op in _SPREADING
