"""What a plain conversion to fp16 would break, told from the model alone, and what this package does instead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..onnx.importer import Imported
from ..onnx.scope import NodeResult
from .measure import peak

_OVER = 65520.0
_NOTHING = 2.0**-25
"""Where rounding to fp16 gives an infinity; up to where it gives 0."""

_BOUNDS = frozenset(["Clip", "Max", "Min", "Where", "Pad", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
_NORMS = frozenset(["LayerNormalization", "InstanceNormalization", "GroupNormalization", "RMSNormalization"])


@dataclass(frozen=True)
class Hazard:
    """`nodes`: indices in the model. `danger`: what plain fp16 makes of it. `remedy`: what is done about it here."""

    nodes: tuple[int, ...]
    danger: str
    remedy: str


def hazards(imported: Imported) -> list[Hazard]:
    """In the order of the model; nodes that stay on the CPU for one reason are one entry."""
    found = [h for node in imported.nodes if node.status == "engine" and (h := _constants(imported, node))]
    kept: dict[str, list[int]] = {}
    for node in imported.nodes:
        if node.index in imported.unsafe and node.reason is not None:
            kept.setdefault(node.reason.text, []).append(node.index)
    found += [Hazard(tuple(nodes), why, "kept on the CPU") for why, nodes in kept.items()]
    return sorted(found, key=lambda h: h.nodes)


def _constants(imported: Imported, node: NodeResult) -> Hazard | None:
    """Constants of a node that fp16 does not hold."""
    for position, name in enumerate(imported.view.nodes[node.index].inputs):
        value = imported.values.get(name)
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or not value.size:
            continue
        largest = peak(value)
        if node.op == "BatchNormalization":
            part = ("X", "scale", "B", "mean", "running variance")[position]
        else:
            part = f"constant {name!r}"
        if largest >= _OVER:
            word = "infinite" if not np.isinf(value).any() else "infinite, as others in it are already"
            return Hazard((node.index,), f"its {part} reaches {largest:.3g}: {word} in fp16", _remedy(node))
        if 0 < largest <= _NOTHING:
            return Hazard((node.index,), f"its {part} is at most {largest:.3g}: 0 in fp16", _remedy(node))
    return None


def _remedy(node: NodeResult) -> str:
    if node.op == "BatchNormalization":
        return "folded in float64 to a factor and an addend, before anything is narrowed"
    if node.op in _BOUNDS:
        return "a bound, or what a mask fills in: clamped to what fp16 holds, with the same meaning"
    if node.op in _NORMS:
        return "a form that scales before it squares, with the epsilon where fp16 keeps it"
    if node.op in ("Add", "Sub", "Mul"):
        return "a mask or an epsilon: clamped, rescaled, or without effect beside what it is added to"
    if node.op == "Div":
        return "its inverse, computed in float64, as a factor"
    return "rewritten in a form that fp16 holds"
