"""A Core ML package (.mlpackage) of a program, written without protobuf or coremltools.

Messages and field numbers: coremltools 9.0, `mlmodel/format/{Model,MIL,FeatureTypes}.proto`. Target: iOS 18 / macOS 15
(specification version 9, opset CoreML8), the dialect of the text.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ..ir import Program, Type
from . import wire
from .emit import Function, Literal, Statement, renamed
from .file import MilFile, Port, write
from .folder import replace

SPECIFICATION_VERSION = 9
OPSET = "CoreML8"
BLOB_PATH = "@model_path/weights/weight.bin"
_AUTHOR = "com.apple.CoreML"
# MIL.proto DataType
_DATA_TYPE = {
    "bool": 1, "string": 2, "fp16": 10, "fp32": 11, "int8": 21, "int16": 22, "int32": 23, "uint8": 31, "uint16": 32,
    "uint32": 33, "uint4": 35, "uint1": 37,
}  # fmt: skip
# FeatureTypes.proto ArrayFeatureType.ArrayDataType
_ARRAY_TYPE = {"fp16": 65552, "fp32": 65568}
# field of MIL.proto TensorValue that carries an immediate value
_FLOATS, _INTS, _BOOLS, _STRINGS, _BYTES = 1, 2, 3, 4, 7


def save_package(source: Program | MilFile, path: str | os.PathLike[str], numerics: str = "engine") -> Path:
    """Writes a package that Core ML compiles, its ports named as the model's values as far as identifiers allow.

    The package appears whole or not at all; one that was there is replaced.

    Args:
        source: a Program, or what `write` made of one.
        path: ends in .mlpackage.
        numerics: "engine" or "fp16" (fp16 ports and weights) or "fp32"; only for a Program.

    Raises:
        ValueError: the path does not end in .mlpackage, or a port has a type or rank that Core ML does not take.
        FileExistsError: something that is not a package is there.
    """
    target = Path(path)
    if target.suffix != ".mlpackage":
        raise ValueError(f"a package's name ends in .mlpackage, not {target.name!r}")
    if target.exists() and not (target / "Manifest.json").is_file():
        raise FileExistsError(f"{target} is there and is no package")
    mil = source if isinstance(source, MilFile) else write(source, numerics)
    names = port_names(mil)
    model = _model(renamed(_without_inline(mil.function), names), mil, names)
    replace(target, lambda fresh: _fill(fresh, model, mil.blob))
    return target


def _fill(folder: Path, model: bytes, blob: memoryview) -> None:
    data = folder / "Data" / _AUTHOR
    (data / "weights").mkdir(parents=True)
    (data / "model.mlmodel").write_bytes(model)
    (data / "weights" / "weight.bin").write_bytes(blob)
    # identifiers follow from the content: the same program gives the same package
    seed = uuid.UUID(bytes=hashlib.sha256(model).digest()[:16])
    items = {}
    for name, what in (("model.mlmodel", "CoreML Model Specification"), ("weights", "CoreML Model Weights")):
        key = str(uuid.uuid5(seed, name)).upper()
        items[key] = {"author": _AUTHOR, "description": what, "name": name, "path": f"{_AUTHOR}/{name}"}
    manifest = {"fileFormatVersion": "1.0.0", "itemInfoEntries": items, "rootModelIdentifier": next(iter(items))}
    (folder / "Manifest.json").write_text(json.dumps(manifest, indent=4) + "\n", encoding="utf-8")


def port_names(mil: MilFile) -> dict[str, str]:
    """Identifier in the program -> name of the port in the package."""
    generated = re.compile(r"[xytc]\d+(_\w+)?")
    names: dict[str, str] = {}
    taken: set[str] = set()
    for port in (*mil.inputs, *mil.outputs):
        base = re.sub(r"[^A-Za-z0-9_]", "_", port.name) or port.mil
        base = base if re.match(r"[A-Za-z_]", base) else f"_{base}"
        base = f"{base}_" if generated.fullmatch(base) and base != port.mil else base
        name, count = base, 1
        while name in taken:
            name, count = f"{base}_{count}", count + 1
        taken.add(name)
        names[port.mil] = name
    return names


def _without_inline(function: Function) -> Function:
    """Inline literals as constants of their own: the only form that coremltools gives to Core ML's compiler."""
    statements: list[Statement] = []
    for statement in function.statements:
        arguments = []
        for name, given in statement.arguments:
            if isinstance(given, Literal):
                variable = f"{statement.results[0][0]}_{name}"
                statements.append(Statement("const", ((variable, given.type),), value=given))
                arguments.append((name, variable))
            else:
                arguments.append((name, given))  # type: ignore[arg-type]
        statements.append(
            Statement(statement.kind, statement.results, tuple(arguments), statement.value, statement.attributes)
        )
    return Function(function.name, function.inputs, tuple(statements), function.outputs, function.blob)


# ---- messages


def _model(function: Function, mil: MilFile, names: dict[str, str]) -> bytes:
    block = wire.join(
        [
            *(wire.text(2, name) for name, _ in function.outputs),
            *(wire.block(3, _operation(s)) for s in function.statements),
        ]
    )
    body = wire.join(
        [
            *(wire.block(1, _named(name, kind)) for name, kind in function.inputs),
            wire.text(2, OPSET),
            wire.entry(3, OPSET, block),
        ]
    )
    description = wire.join(
        [
            *(wire.block(1, _feature(port, names[port.mil])) for port in mil.inputs),
            *(wire.block(10, _feature(port, names[port.mil])) for port in mil.outputs),
        ]
    )
    program = wire.number(1, 1) + wire.entry(2, function.name, body)
    return wire.number(1, SPECIFICATION_VERSION) + wire.block(2, description) + wire.block(502, program)


def _feature(port: Port, name: str) -> bytes:
    kind = port.type
    if kind.dtype not in _ARRAY_TYPE:
        raise ValueError(f"port {port.name!r} is {kind}: Core ML has no such port")
    if not kind.shape:
        raise ValueError(f"port {port.name!r} is a scalar: Core ML's ports have an axis")
    array = wire.packed(1, kind.shape) + wire.number(2, _ARRAY_TYPE[kind.dtype])
    return wire.text(1, name) + wire.text(2, port.name) + wire.block(3, wire.block(5, array))


def _type(kind: Type) -> bytes:
    dimensions = wire.join(wire.block(3, wire.block(1, wire.number(1, extent))) for extent in kind.shape)
    rank = wire.number(2, len(kind.shape)) if kind.shape else b""
    return wire.block(1, wire.number(1, _DATA_TYPE[kind.dtype]) + rank + dimensions)


def _named(name: str, kind: Type) -> bytes:
    return wire.text(1, name) + wire.block(2, _type(kind))


def _value(literal: Literal) -> bytes:
    head = wire.block(2, _type(literal.type))
    if literal.offset is not None:
        return head + wire.block(5, wire.text(1, BLOB_PATH) + wire.number(2, literal.offset))
    return head + wire.block(3, wire.block(1, _tensor(literal)))


def _tensor(literal: Literal) -> bytes:
    dtype = literal.type.dtype
    if isinstance(literal.data, str):
        return wire.block(_STRINGS, wire.text(1, literal.data))
    array = np.ascontiguousarray(literal.data).reshape(-1)
    if dtype == "fp32":
        return wire.block(_FLOATS, wire.raw(1, array.astype("<f4").tobytes()))
    if dtype == "bool":
        return wire.block(_BOOLS, wire.packed(1, map(int, array)))
    if dtype in ("int32", "int16", "uint16"):
        return wire.block(_INTS, wire.packed(1, map(int, array)))
    return wire.block(_BYTES, wire.raw(1, array.tobytes()))


def _operation(statement: Statement) -> bytes:
    def arguments() -> Iterable[bytes]:
        for name, given in statement.arguments:
            assert not isinstance(given, Literal)
            bindings = given if isinstance(given, tuple) else (given,)
            yield wire.entry(2, name, wire.join(wire.block(1, wire.text(1, each)) for each in bindings))

    label = Literal(Type("string", ()), statement.results[0][0])
    parts = [wire.text(1, statement.kind), *arguments()]
    parts += [wire.block(3, _named(name, kind)) for name, kind in statement.results]
    parts.append(wire.entry(5, "name", _value(label)))
    parts += [wire.entry(5, key, _value(literal)) for key, literal in statement.attributes]
    if statement.value is not None:
        parts.append(wire.entry(5, "val", _value(statement.value)))
    return wire.join(parts)
