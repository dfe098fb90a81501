"""One written program, read by those who did not write it. Each function returns what is wrong; empty: nothing.

`text` is the independent reader of `tests/oracle`; `package` and `blob` are coremltools': its milproto loader, which infers every
type again, and its own writer of weight containers.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
from oracle import mil_text, package_text

from aneforge import errors, export
from aneforge.ir import Op, Program, Tensor
from aneforge.mil import MilFile, save_package, write

logging.getLogger("coremltools").setLevel(logging.CRITICAL)
Spec = importlib.import_module("coremltools").proto.Model_pb2.Model
milproto = importlib.import_module("coremltools.converters.mil.frontend.milproto.load").load
Writer = importlib.import_module("coremltools.libmilstoragepython")._BlobStorageWriter


_parsed: dict[tuple[str, bytes], mil_text.Program] = {}  # the last few: targets and roads have most programs in common


def parsed(written: MilFile) -> mil_text.Program:
    """As the independent reader understands text and blob. Raises MilError."""
    key = written.text, hashlib.sha256(written.blob).digest()
    if key not in _parsed:
        if len(_parsed) >= 8:
            del _parsed[next(iter(_parsed))]
        _parsed[key] = mil_text.read(written.text, bytes(written.blob))
    return _parsed[key]


class NoPackage(Exception):
    """Core ML has no form for a port; the text says which kind of port."""


# ---------------------------------------------------------------- the text


def text(program: Program, written: MilFile) -> str:
    """The text and blob hold the program's operations in its order: their kinds, operands, parameters and types."""
    try:
        read = parsed(written)
    except mil_text.MilError as error:
        return f"the text cannot be read: {error}"
    wide = "fp32" if written.numerics == "fp32" else "fp16"

    def stored(tensor: Tensor) -> mil_text.Type:
        return mil_text.Type(wide if tensor.dtype == "fp16" else tensor.dtype, tensor.shape)

    wanted = [op for op in program.ops if not op.is_leaf]
    ours = [(op.kind, [stored(t) for t in op.outputs]) for op in wanted]
    theirs = [(s.kind, [kind for _, kind in s.results]) for s in read.operations]
    if ours != theirs:
        k = next((k for k, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
        return f"operation {k}: {_at(theirs, k)} in the text, {_at(ours, k)} in the program"
    if [kind for _, kind in read.inputs] != [stored(t) for _, t in program.inputs]:
        return f"inputs {read.inputs}, and the program has {program.input_types}"
    values: dict[str, Tensor] = {name: t for (name, _), (_, t) in zip(read.inputs, program.inputs, strict=True)}
    constants = {s.results[0][0]: s.attributes["val"] for s in read.statements if s.kind == "const"}
    for op, statement in zip(wanted, read.operations, strict=True):
        given = {k: v for k, v in statement.attributes.items() if k != "name"} | statement.arguments
        if wrong := _operands(op, given, values, constants):
            return f"{op.kind} {statement.results[0][0]!r}: {wrong}"
        values |= {name: t for (name, _), t in zip(statement.results, op.outputs, strict=True)}
    if [values[name] for name in read.outputs] != [t for _, t in program.outputs]:
        return "the outputs are other results"
    return ""


def _at(rows: list[Any], k: int) -> str:
    return f"{rows[k][0]} {[f'{t.dtype}{list(t.shape)}' for t in rows[k][1]]}" if k < len(rows) else "nothing"


def _operands(op: Op, given: dict[str, Any], values: dict[str, Tensor], constants: dict[str, mil_text.Literal]) -> str:
    wanted: dict[str, Any] = {**op.inputs, **{name: value for name, value in op.params.items() if value is not None}}
    if set(given) != set(wanted):
        return f"arguments {sorted(given)}, and the program has {sorted(wanted)}"
    for name, want in wanted.items():
        variadic = isinstance(want, tuple) and bool(want) and isinstance(want[0], Tensor)
        pairs = list(zip(given[name], want, strict=True)) if variadic else [(given[name], want)]
        for got, one in pairs:
            literal = constants.get(got) if isinstance(got, str) else got
            if literal is None:
                if values.get(got) is not one:
                    return f"{name} is {got!r}, another value than in the program"
            elif isinstance(one, Tensor) and not one.is_const:
                return f"{name} is a constant, and computed in the program"
            elif not _equal(literal, one.value if isinstance(one, Tensor) else one):
                return f"{name} is not the value that the program has"
    return ""


def _equal(literal: mil_text.Literal, wanted: Any) -> bool:
    """Whether a value is what a constant of the program becomes: floats to nearest, finite ones finite; what guards a
    division may be the least number instead of 0."""
    kind = literal.type.dtype
    if kind == "string":  # a cast's word for floats is that of the text
        return literal.value == wanted or (literal.value, wanted) == ("fp32", "fp16")
    array, got = np.asarray(wanted), np.asarray(literal.value)
    if got.shape != array.shape:
        return False
    if kind not in ("fp16", "fp32"):
        return array.dtype.kind in "iub" and np.array_equal(got, array)
    limits = np.finfo(got.dtype)
    finite = np.clip(array, -float(limits.max), float(limits.max)) if array.dtype.itemsize > got.itemsize else array
    with np.errstate(all="ignore"):
        want = np.where(np.isinf(array), array, finite).astype(got.dtype)
    least = (want == 0) & (array != 0) & (got == np.copysign(limits.smallest_subnormal, array))
    alike = (got == want) & (np.signbit(got) == np.signbit(want))
    return bool((alike | least | (np.isnan(got) & np.isnan(want))).all())


# ---------------------------------------------------------------- Core ML's package


def package(program: Program, written: MilFile, work: Path) -> str:
    """The package holds the text's operations, ports and blob, and coremltools infers the types that it declares.

    Inputs of bytes, which Core ML has not, become fp16 first, as in `aneforge export`.

    Raises:
        NoPackage: a port has no form.
    """
    if any(port.type.dtype == "uint8" for port in written.inputs):
        try:
            program = export._without_bytes(program)
        except errors.UnsupportedModelError as error:
            raise NoPackage("bytes that are read as they are") from error
        written = write(program, written.numerics)
    if any(not port.type.shape for port in (*written.inputs, *written.outputs)):
        raise NoPackage("a scalar")
    path = save_package(written, work / "n.mlpackage")
    read, theirs = package_text.read(path), parsed(written)
    if [(o.kind, [(d, s) for _, d, s in o.results]) for o in read.operations if o.kind != "const"] != [
        (o.kind, [(t.dtype, t.shape) for _, t in o.results]) for o in theirs.operations
    ]:
        return "text and package differ"
    if read.blob != bytes(written.blob):
        return "the package's weights are not the blob"
    ports = [[(p.name, p.type.dtype, p.type.shape) for p in side] for side in (written.inputs, written.outputs)]
    if [[(d, s) for _, d, s in side] for side in (read.inputs, read.outputs)] != [
        [(d, s) for _, d, s in side] for side in ports
    ]:
        return "the package describes other ports"
    data = path / "Data/com.apple.CoreML"
    try:
        spec = Spec.FromString((data / "model.mlmodel").read_bytes())
        loaded = milproto(spec, specification_version=9, file_weights_dir=str(data / "weights"))
    except Exception as error:  # whatever their loader raises is their verdict
        return f"coremltools: {type(error).__name__}: {str(error)[:200]}"
    shapes = [tuple(v.shape) for v in loaded.functions["main"].outputs]
    return "" if shapes == [s for _, _, s in ports[1]] else f"coremltools reads outputs of {shapes}"


# ---------------------------------------------------------------- the weights


def blob(content: bytes, work: Path) -> str:
    """The container is byte for byte what libmilstoragepython writes for the same records."""
    try:
        records = mil_text.read_records(content)
    except mil_text.MilError as error:
        return f"no container: {error}"
    if not records:
        return "" if len(content) == 64 else "the blob is empty, and no header"
    path = work / "theirs.bin"
    writer = Writer(str(path))
    methods = {"fp16": writer.write_fp16_data, "fp32": writer.write_float_data, "int8": writer.write_int8_data,
               "uint8": writer.write_uint8_data, "int16": writer.write_int16_data, "uint16": writer.write_uint16_data,
               "int32": writer.write_int32_data, "uint32": writer.write_uint32_data, "uint4": writer.write_uint4_data,
               "uint1": writer.write_uint1_data}  # fmt: skip
    for offset, (dtype, array) in records.items():
        if methods[dtype](np.ascontiguousarray(array.view(np.uint16) if dtype == "fp16" else array)) != offset:
            return f"libmilstoragepython puts a record elsewhere than at {offset}"
    del writer, methods  # closes the file
    return "" if content == path.read_bytes() else "the blob differs from libmilstoragepython's"
