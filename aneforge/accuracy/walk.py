"""A whole model, divided as a session divides it, in fp32 and in the engine's arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .. import pipeline
from ..errors import InternalError
from ..ir import Tensor
from ..onnx.importer import Imported
from .causes import ROUNDING, Cause
from .measure import HALF_MAX, PRODUCT_MAX, Array, Error, error
from .trace import Step, Trace

Cpu = Callable[[Sequence[int], Mapping[str, Array]], dict[str, Array]]
"""Runs nodes of the model outside the engine: their indices, and all values known so far -> their outputs."""

BORN, GROWN, PASSED, FINE = "born", "grown", "passed on", ""


@dataclass(frozen=True)
class Part:
    """One region: indices of its nodes, names of what it reads and gives."""

    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class NodeError:
    """One node of the model on the engine, with those fused into it. See `trace.Step`.

    `verdict`: "born" (wrong though its inputs were right), "grown" (many small errors add up here), "passed on" (its
    inputs were wrong, or beyond fp16 even when right), or "" (fine). `nodes`: the one with most multiply-adds first.
    """

    nodes: tuple[int, ...]
    kinds: tuple[str, ...]
    shape: tuple[int, ...]
    region: int
    arrived: Error
    accumulated: Error
    local: Error
    beyond: bool
    peak: float
    product_peak: float
    lost: bool
    verdict: str
    cause: Cause | None


@dataclass(frozen=True)
class Outcome:
    """`outputs`: of the model, by name: its error. `reference`: its fp32 value."""

    nodes: tuple[NodeError, ...]
    outputs: Mapping[str, Error]
    reference: Mapping[str, Array]

    def first(self, verdict: str) -> NodeError | None:
        return next((n for n in self.nodes if n.verdict == verdict), None)


def whole(imported: Imported) -> list[Part]:
    """All of a model that is wholly claimed as one region."""
    outputs = [n for n in dict.fromkeys(imported.view.outputs) if not isinstance(imported.values.get(n), np.ndarray)]
    return [Part(tuple(range(len(imported.nodes))), imported.view.inputs, tuple(outputs))] if outputs else []


def compare(
    imported: Imported, parts: Sequence[Part], feeds: Mapping[str, Array], cpu: Cpu, tolerance: float = 1e-2
) -> Outcome:
    """Runs the model in both arithmetics.

    Args:
        parts: the regions; what is in none of them is given to `cpu`.
        feeds: the model's inputs by name, of the model's dtypes and shapes.
        tolerance: relative error from which on a node is spoken of.

    Raises:
        NotImplementedError: with weight compression; both ways would have the packed weights, and its loss not show.
    """
    if imported.options.compress != "none":
        raise NotImplementedError(
            "option 'compress': the two ways are compared with the weights of the model; what compression costs is said "
            "of each weight by `aneforge explain`, and of a result by `aneforge run --output` with and without it"
        )
    right: dict[str, Array] = {n: v for n, v in imported.values.items() if isinstance(v, np.ndarray)}
    right |= feeds
    got = dict(right)
    claimed = {i for part in parts for i in part.nodes}
    pending = {n.index for n in imported.nodes if n.index not in claimed and n.status != "free"}
    waiting = list(enumerate(parts))
    rows: list[NodeError] = []
    while pending or waiting:
        ready = _closure(imported, pending, right)
        if ready:
            right |= cpu(ready, right)
            got |= cpu(ready, got)
            pending -= set(ready)
        runnable = [(i, part) for i, part in waiting if all(n in right for n in _ports(imported, part))]
        for i, part in runnable:
            rows += _region(imported, i, part, right, got, tolerance)
        waiting = [entry for entry in waiting if entry not in runnable]
        if not ready and not runnable:
            raise InternalError("the regions of the model and the rest of it wait for each other")
    names = dict.fromkeys(imported.view.outputs)
    return Outcome(tuple(rows), {n: error(got[n], right[n]) for n in names}, {n: right[n] for n in names})


def _ports(imported: Imported, part: Part) -> list[str]:
    return [name for name in part.inputs if isinstance(imported.values.get(name), Tensor)]


def _closure(imported: Imported, pending: set[int], values: Mapping[str, Array]) -> list[int]:
    """Pending nodes that can run now, one after another, in order."""
    ready: list[int] = []
    made: set[str] = set()
    for index in sorted(pending):
        node = imported.view.nodes[index]
        if all(not n or n in values or n in made for n in (*node.inputs, *node.implicit)):
            ready.append(index)
            made.update(n for n in node.outputs if n)
    return ready


def _region(
    imported: Imported, number: int, part: Part, right: dict[str, Array], got: dict[str, Array], tolerance: float
) -> list[NodeError]:
    program = imported.region(part.nodes, _ports(imported, part), part.outputs)
    lowered = pipeline.lower(program, imported.options, imported.target).program
    trace = Trace(lowered, imported.options, imported.target, tolerance)
    trace.run({name: (right[name], got[name]) for name, _ in lowered.inputs})
    for name, pair in trace.outputs().items():
        value, dtype = imported.values[name], imported.dtypes[name]
        assert isinstance(value, Tensor) and dtype is not None
        right[name], got[name] = (array.astype(dtype).reshape(value.shape) for array in pair)
    return [_row(imported, step, number, tolerance) for step in trace.steps]


def _row(imported: Imported, step: Step, region: int, tolerance: float) -> NodeError:
    found: Cause | None = None
    if step.local.relative >= tolerance and not step.beyond:
        verdict, found = BORN, step.cause or ROUNDING
    elif max(step.accumulated.relative, step.local.relative) < tolerance:
        verdict = FINE
    else:
        verdict = PASSED if step.beyond or step.arrived.relative >= tolerance else GROWN
    order = sorted(step.nodes, key=lambda i: (-imported.nodes[i].macs, i))
    return NodeError(
        tuple(order), tuple(step.kinds), step.shape, region, step.arrived, step.accumulated, step.local, step.beyond,
        step.peak, step.product_peak, step.lost, verdict, found,
    )  # fmt: skip


def near_limit(row: NodeError) -> str:
    """A sentence where the values come near, or past, what the engine holds; "" elsewhere."""
    if row.product_peak > PRODUCT_MAX / 4:
        return f"its sums reach {row.product_peak:.4g} of {PRODUCT_MAX:.0f}"
    if row.peak > HALF_MAX / 4:
        return f"its values reach {row.peak:.4g} of {HALF_MAX:.0f}"
    return ""
