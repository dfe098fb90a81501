"""One pass over a graph: every node becomes MIL operations, a known value, or a refusal with its reason.

A refused node does not stop the import: its outputs become typed inputs, so that one import answers for every way of
cutting the graph into regions, and strict mode can list everything that stands in its way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import ir, ops
from ..errors import DynamicShapeError, InternalError, Reason, RefusedNode, UnsupportedModelError
from ..ir import Program, Tensor
from ..options import Options
from ..targets import Target, resolve
from . import faint
from .node import MAX_RANK
from .scope import Check, NodeResult, Scope, Value
from .tensors import Array
from .view import GraphView, ValueView


@dataclass(eq=False)
class Imported:
    """A graph with all its nodes imported or refused.

    `values`: a Tensor where the value is computed (or enters) as fp16, a numpy array where it is known at import, None
    where it can neither be computed nor enter. `dtypes`: the ONNX dtypes; an integer that is a Tensor is proved to lie
    within ±2048 and crosses as its own type, converted at the port.
    """

    view: GraphView
    options: Options
    target: Target
    nodes: tuple[NodeResult, ...]
    values: Mapping[str, Value]
    dtypes: Mapping[str, np.dtype[Any] | None]
    _scope: Scope = field(repr=False)

    def region(self, nodes: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]) -> Program:
        """The program of some engine nodes, from the values `inputs` to the values `outputs`.

        What is known at import needs no port and is left out of the inputs. Bools cross as fp16 0 or 1.

        Raises:
            ValueError: a node that is not on the engine, or a port that has no Tensor.
        """
        for index in nodes:
            if self.nodes[index].status == "cpu":
                raise ValueError(f"node {index} ({self.nodes[index].op}) is not on the engine")
        ports: list[tuple[str, Tensor]] = []
        mapping: dict[Tensor, Tensor] = {}
        for name in inputs:
            value = self.values.get(name)
            if isinstance(value, np.ndarray):
                continue
            if value is None or self._scope.spread(value):
                raise ValueError(f"{name!r} cannot enter a program")
            port = ir.input(name, value.shape, "fp16" if value.dtype == "bool" else value.dtype)
            ports.append((name, port))
            with ir.only_origin(value.op.origin):
                mapping[value] = ops.as_bool(port) if value.dtype == "bool" else port
        wanted = [self._output(name) for name in outputs]
        return Program(ports, list(zip(outputs, ir.substitute(wanted, mapping), strict=True)))

    def _output(self, name: str) -> Tensor:
        value = self.values.get(name)
        if not isinstance(value, Tensor) or self._scope.spread(value):
            raise ValueError(f"{name!r} cannot leave a program")
        if value.dtype == "bool":
            with ir.only_origin(value.op.origin):
                return ops.as_mask(value)
        if value.dtype == "uint8":
            with ir.only_origin(value.op.origin):
                return ops.cast(value, "fp16")
        return value

    @property
    def unsafe(self) -> frozenset[int]:
        """Nodes on the CPU because fp16 would make something else of their numbers (`faint`, `whole`)."""
        return frozenset(self._scope.unsafe)

    def cannot_cross(self, name: str) -> Reason | None:
        """Why a value that a program computes cannot be handed from one program to another."""
        if not self._scope.spread(self.values.get(name)):
            return None
        rank = len(self._scope.shape(name) or ())
        return Reason(
            "rank", f"{name!r} has rank {rank}; the engine has 1 to {MAX_RANK}, and more only inside a region"
        )

    def refused(self) -> list[RefusedNode]:
        """Every node that is not on the engine, with its reason."""
        return [
            RefusedNode(n.name, n.op, n.domain, n.reason)
            for n in self.nodes
            if n.status == "cpu" and n.reason is not None
        ]

    def known_outputs(self) -> dict[str, Array]:
        """Outputs of the graph that are known at import, in their ONNX dtype."""
        found = ((name, self.values.get(name)) for name in self.view.outputs)
        return {name: value for name, value in found if isinstance(value, np.ndarray)}

    def program(self) -> Program:
        """The whole graph as one program: inputs as the graph has them, outputs those that are not known at import.

        Raises:
            DynamicShapeError: an input's extent is not fixed.
            UnsupportedModelError: some nodes have no engine form; it lists all of them.
            InternalError: a handler failed.
        """
        self.check()
        outputs = [name for name in self.view.outputs if not isinstance(self.values.get(name), np.ndarray)]
        return self.region(range(len(self.nodes)), self.view.inputs, list(dict.fromkeys(outputs)))

    def check(self) -> None:
        """Raises what `program` would raise, without building anything."""
        for name in self.view.inputs:
            _demand_static(self.view.values[name])
        bugs = [n for n in self.nodes if n.reason is not None and n.reason.kind == "bug"]
        if bugs:
            first = bugs[0]
            raise InternalError(f"ONNX op {first.op!r} (node {first.name!r}): {first.reason}") from self._scope.bugs[
                first.index
            ]
        refused = self.refused()
        if refused:
            raise UnsupportedModelError(refused)
        for name in [*self.view.inputs, *self.view.outputs]:
            if self._scope.spread(self.values.get(name)):
                reason = Reason(
                    "rank", f"{name!r} has rank {len(self._scope.shape(name) or ())}; the engine has 1 to {MAX_RANK}"
                )
                raise UnsupportedModelError([RefusedNode(name, "Output", "", reason)])
            if self.values.get(name) is None and (name in self.view.read or name in self.view.inputs):
                reason = self._scope.missing.get(name, Reason("data type", f"{name!r} cannot cross into a program"))
                role = "Input" if name in self.view.inputs else "Output"
                raise UnsupportedModelError([RefusedNode(name, role, "", reason)])


def _demand_static(value: ValueView) -> None:
    if value.kind != "tensor" or value.shape is None:
        return
    loose = [d for d in value.shape if not isinstance(d, int)]
    if not loose:
        return
    names = ", ".join(repr(d) if d is not None else "one without a name" for d in loose)
    fixes = {str(d): 1 for d in loose if isinstance(d, str)}
    shape = tuple(d if isinstance(d, int) else 1 for d in value.shape)
    how = f"input_shapes={{{value.name!r}: {shape}}}"
    if len(fixes) == len(loose):
        how = f"dims={fixes} or {how}"
    shown = ", ".join(str(d) if d is not None else "?" for d in value.shape)
    raise DynamicShapeError(
        f"input {value.name!r} has the shape [{shown}]; its extent {names} is not fixed, and programs are compiled for "
        f"fixed shapes. Give it, for example: load_onnx(..., {how})"
    )


def import_graph(
    view: GraphView, options: Options | None = None, target: Target | None = None, check: Check | None = None
) -> Imported:
    """Imports every node of a graph. Never raises for what a model contains: see `Imported.nodes`.

    Args:
        check: asked for every node whether the target takes what it became (`passes.check_node`); without it only the
            lowering of whole regions tells.
    """
    options = options or Options()
    scope = Scope(view, options, target or resolve(options.target), check).walk()
    if too_faint := faint.faint(scope):  # known only when constants are: so all is done once more, without them
        scope = Scope(view, options, scope.target, check, kept=too_faint).walk()
    return Imported(view, options, scope.target, tuple(scope.results), scope.values, scope.dtypes, scope)
