"""A whole ONNX model as files, on any machine: the very program that a backend would be given.

export_onnx("resnet18.onnx", "resnet18.mlpackage")     # a Core ML package
export_onnx("resnet18.onnx", "resnet18")               # a folder: model.mil, weights.bin
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from . import ir, mil, passes, pipeline
from .errors import Reason, RefusedNode, UnsupportedModelError
from .ir import Program, Tensor
from .model import Shapes, refusals, strict_import, strict_options
from .targets import resolve

if TYPE_CHECKING:
    from .model import Source
    from .onnx.importer import Imported

PACKAGE = ".mlpackage"
_RUNNING = ("backend", "cache_dir", "compile_guard", "on_overflow")
"""Options for whoever runs a program."""


@dataclass(frozen=True)
class Port:
    """One port as the files have it.

    Attributes:
        name: in the model.
        written: in the package, or in the text; an identifier.
        dtype: in the file, in MIL's words: the caller converts (the model's own type is `model_dtype`).
    """

    name: str
    written: str
    dtype: str
    model_dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Exported:
    """What was written. `idle`: inputs of the model that nothing reads, and that the program has not.

    Attributes:
        weight_bytes: size of the weights' container.
        n_ops: operations, constants and packed weights not counted.
    """

    path: Path
    format: str
    target: str
    numerics: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    idle: tuple[str, ...]
    n_ops: int
    weight_bytes: int


def export_onnx(
    model: Source,
    path: str | os.PathLike[str],
    input_shapes: Shapes | None = None,
    dims: Mapping[str, int] | None = None,
    **options: object,
) -> Exported:
    """Imports a model strictly, lowers it for the target, and writes it whole or not at all.

    Args:
        path: ends in .mlpackage for a Core ML package; a name without an ending is a folder for model.mil and
            weights.bin, as the engine's compiler takes them. What was there is replaced if it is of the same kind.
        input_shapes, dims: as for `load_onnx`.
        options: those of `load_onnx` that say what is computed (target, numerics, opt, approx_resize, …).

    Raises:
        ValueError: `path` has another ending, or an option is for running.
        FileExistsError: something else is there.
        UnsupportedModelError: some nodes have no engine form; an output is constant, or a port has no form in a package.
        ModelError, DynamicShapeError, OptionError, NotImplementedError: see `load_onnx`.
    """
    place = Path(path)
    packaged = place.suffix == PACKAGE
    if place.suffix and not packaged:
        raise ValueError(f"a package's name ends in {PACKAGE}, and a folder's has no ending; not {place.name!r}")
    for name in _RUNNING:
        if name in options:
            raise ValueError(f"option {name!r} is for running a model; here it is only written")
    chosen = strict_options(options)
    target = resolve(chosen.target)
    shapes = {**dict(chosen.input_shapes), **(input_shapes or {})}
    imported = strict_import(model, chosen, shapes, {**dict(chosen.dims), **(dims or {})})
    _demand_computed(imported)
    with refusals(imported):
        program = imported.program()
        lowered = pipeline.lower(_without_bytes(program) if packaged else program, chosen, target).program
        if chosen.compress != "none":
            lowered, _, _ = passes.compress(lowered, target, chosen.compress, chosen.compress_atol, chosen.block_size)
        written = mil.write(lowered, chosen.numerics)
    if packaged:
        _demand_axes(written)
        mil.save_package(written, place)
    else:
        mil.save_text(written, place)
    names = mil.port_names(written) if packaged else {}

    def ports(of: tuple[mil.Port, ...]) -> tuple[Port, ...]:
        return tuple([
            Port(p.name, names.get(p.mil, p.mil), p.type.dtype, str(imported.dtypes[p.name]), p.type.shape) for p in of
        ])  # fmt: skip

    kept = {port.name for port in written.inputs}
    return Exported(
        path=place,
        format="mlpackage" if packaged else "mil",
        target=target.name,
        numerics=chosen.numerics,
        inputs=ports(written.inputs),
        outputs=ports(written.outputs),
        idle=tuple(name for name in imported.view.inputs if name not in kept),
        n_ops=sum(not op.is_leaf and not op.kind.startswith("constexpr_") for op in lowered.ops),
        weight_bytes=written.blob.nbytes,
    )


def _demand_computed(imported: Imported) -> None:
    """A file has nobody beside it who would hand out what is known before anything runs."""
    refused = []
    for name in imported.view.outputs:
        value = imported.values[name]
        if isinstance(value, np.ndarray) or (isinstance(value, Tensor) and value.is_const):
            refused.append(_port(name, "Output", f"output {name!r} is a constant: a program computes what it gives"))
    if refused:
        raise UnsupportedModelError(refused)


def _demand_axes(written: mil.MilFile) -> None:
    """Core ML's ports have an axis."""
    refused = [
        _port(port.name, role, f"port {port.name!r} is a scalar: Core ML's ports have an axis")
        for role, ports in (("Input", written.inputs), ("Output", written.outputs))
        for port in ports
        if not port.type.shape
    ]
    if refused:
        raise UnsupportedModelError(refused)


def _port(name: str, role: str, text: str) -> RefusedNode:
    return RefusedNode(name, role, "", Reason("no engine form", text))


def _without_bytes(program: Program) -> Program:
    """The same program with fp16 inputs for those of bytes, of which Core ML has none: 0 to 255 are exact in fp16."""
    fresh = {tensor: ir.input(name, tensor.shape) for name, tensor in program.inputs if tensor.dtype == "uint8"}
    if not fresh:
        return program
    mapping = {
        op.outputs[0]: fresh[source]
        for op in program.ops
        if op.kind == "cast" and op.types[0].dtype == "fp16"
        for source in op.sources
        if source in fresh
    }
    outputs = ir.substitute([tensor for _, tensor in program.outputs], mapping)
    names = [name for name, _ in program.outputs]
    inputs = [(name, fresh.get(tensor, tensor)) for name, tensor in program.inputs]
    try:
        return Program(inputs, list(zip(names, outputs, strict=True)))
    except ValueError as error:  # something reads the bytes as they are
        refused = [
            _port(name, "Input", f"Core ML has no port of bytes for {name!r}")
            for name, t in program.inputs
            if t in fresh
        ]
        raise UnsupportedModelError(refused) from error
