"""ONNX's backend suite, as the installed onnx has it: models with inputs and expected outputs."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from aneforge.onnx.registry import handlers

Array = NDArray[Any]
SUITES = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")


@dataclass(frozen=True, eq=False)
class Case:
    """One model with one or more sets of (inputs, expected outputs); lists stand for sequences, None for an empty optional.

    `rtol`: the tolerance that the suite itself gives to the case."""

    name: str
    suite: str
    model: onnx.ModelProto
    data: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...]
    rtol: float

    @property
    def inputs(self) -> list[str]:
        """Names of what is fed, in order."""
        given = {tensor.name for tensor in self.model.graph.initializer}
        return [value.name for value in self.model.graph.input if value.name not in given]

    def feeds(self, k: int = 0) -> dict[str, Any]:
        return {name: plain(value) for name, value in zip(self.inputs, self.data[k][0], strict=False)}

    def expected(self, k: int = 0) -> dict[str, Any]:
        names = [value.name for value in self.model.graph.output]
        return {name: plain(value) for name, value in zip(names, self.data[k][1], strict=False)}


def plain(value: Any) -> Any:
    """Protos as arrays; numpy's scalars as arrays of rank 0."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


@functools.cache
def cases(suite: str) -> tuple[Case, ...]:
    """All cases of one of SUITES, in the order of their names.

    The `light` set keeps its weights out of the file: its expected outputs come with the wheel for the input that the suite
    itself makes up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy, over values that the cases choose on purpose
        found = load_model_tests(kind="real" if suite == "light" else suite)
    return tuple(_case(each, suite) for each in sorted(found, key=lambda c: str(c.name)))


def _case(each: Any, suite: str) -> Case:
    if suite == "node":
        return Case(each.name, suite, each.model, tuple(map(_pair, each.data_sets)), each.rtol)
    if suite == "light":
        path = Path(onnx.__file__).parent.parent / each.url
        model = onnx.load(path)
        known = {tensor.name for tensor in model.graph.initializer}
        fed = tuple(Runner.generate_dummy_data(v) for v in model.graph.input if v.name not in known)
        stem = path.with_suffix("")
        wanted = [Path(f"{stem}_output_{k}.pb") for k in range(len(model.graph.output))]
        return Case(each.name, suite, model, ((fed, tuple(map(_tensor, wanted))),), each.rtol)
    folder = Path(each.model_dir)
    model = onnx.load(folder / "model.onnx")
    sets = sorted(folder.glob("test_data_set_*"))
    data = tuple(tuple(_read(s, model, role) for role in ("input", "output")) for s in sets)
    return Case(each.name, suite, model, data, each.rtol)  # type: ignore[arg-type]


def _pair(given: Sequence[Sequence[Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return tuple(given[0]), tuple(given[1])


def _tensor(path: Path) -> Array:
    return numpy_helper.to_array(onnx.load_tensor(path))


def _read(folder: Path, model: onnx.ModelProto, role: str) -> tuple[Any, ...]:
    known = {tensor.name for tensor in model.graph.initializer}
    values = model.graph.output if role == "output" else [v for v in model.graph.input if v.name not in known]
    out = []
    for k, value in enumerate(values):
        proto: Any = onnx.TensorProto()
        if value.type.HasField("sequence_type"):
            proto = onnx.SequenceProto()
        elif value.type.HasField("optional_type"):
            proto = onnx.OptionalProto()
        proto.ParseFromString((folder / f"{role}_{k}.pb").read_bytes())
        out.append(proto)
    return tuple(out)


# ---------------------------------------------------------------- parameters baked in

_LABELS = re.compile(r"^test_(nllloss|sce)_")
"""Losses: their labels are data, though they must be known here, and stay run-time inputs."""


def parameters(case: Case) -> tuple[str, ...]:
    """Inputs that a handler declares constant: read at such a place directly, or, when they are no floats, on some way."""
    graph = case.model.graph
    table = handlers()
    wanted: set[str] = set()
    for node in reversed(graph.node):
        handler = table.get(("" if node.domain == "ai.onnx" else node.domain, node.op_type))
        if handler is not None:
            wanted |= {node.input[i] for i in handler.constant if i < len(node.input)}
            if handler.inputs and handler.inputs[-1].variadic and handler.inputs[-1].form == "Known":
                wanted |= set(node.input[len(handler.inputs) - 1 :])
        if any(name in wanted for name in node.output):
            wanted |= set(node.input)
    feeds = case.feeds()
    out = [name for name in case.inputs if name in wanted and isinstance(feeds.get(name), np.ndarray)]
    if _LABELS.match(case.name):
        out = [name for name in out if name != case.inputs[1]]
    return tuple(out)


def baked(case: Case) -> Case:
    """The case with its parameters turned into initializers."""
    names = set(parameters(case))
    if not names:
        return case
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    kept = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    feeds = case.feeds()
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(feeds[name]), name) for name in case.inputs if name in names
    )
    data = tuple(
        (tuple(v for name, v in zip(case.inputs, ins, strict=False) if name not in names), outs)
        for ins, outs in case.data[:1]
    )
    return Case(case.name, case.suite, model, data, case.rtol)
