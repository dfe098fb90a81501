"""Reads what a Core ML package holds with a plain protobuf decoder of its own: field numbers from coremltools'
mlmodel/format/{Model,MIL,FeatureTypes}.proto, no class of theirs and nothing of ours."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DTYPES = {
    1: "bool",
    2: "string",
    10: "fp16",
    11: "fp32",
    21: "int8",
    22: "int16",
    23: "int32",
    31: "uint8",
    32: "uint16",
    33: "uint32",
    25: "int4",
    35: "uint4",
    36: "uint2",
    37: "uint1",
    38: "uint6",
    39: "uint3",
}
ARRAYS = {65552: "fp16", 65568: "fp32", 131104: "int32"}


@dataclass(frozen=True)
class Operation:
    kind: str
    arguments: dict[str, list[str]]
    results: list[tuple[str, str, tuple[int, ...]]]
    offset: int | None


@dataclass(frozen=True)
class Package:
    """`inputs` and `outputs`: (name, dtype, shape) as the description declares them; `function_*` as the program does."""

    version: int
    inputs: list[tuple[str, str, tuple[int, ...]]]
    outputs: list[tuple[str, str, tuple[int, ...]]]
    function_inputs: list[tuple[str, str, tuple[int, ...]]]
    function_outputs: list[str]
    operations: list[Operation]
    blob: bytes


def fields(data: bytes) -> dict[int, list[Any]]:
    """Field number -> its values in order: whole numbers for varints, bytes for the rest."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value: Any
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            size, at = varint(data, at)
            assert at + size <= len(data), "a field longer than its message"
            value, at = data[at : at + size], at + size
        elif key & 7 == 5:
            (value,), at = struct.unpack_from("<I", data, at), at + 4
        else:
            raise AssertionError(f"wire type {key & 7}")
        found.setdefault(key >> 3, []).append(value)
    return found


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def entries(messages: list[bytes]) -> dict[str, bytes]:
    """A map<string, message>."""
    parsed = [fields(m) for m in messages]
    return {f[1][0].decode(): f[2][0] for f in parsed}


def read(path: Path) -> Package:
    data = path / "Data" / "com.apple.CoreML"
    model = fields((data / "model.mlmodel").read_bytes())
    description = fields(model[2][0])
    program = fields(model[502][0])
    assert program[1] == [1]
    function = fields(entries(program[2])["main"])
    blocks = entries(function[3])
    block = fields(blocks[function[2][0].decode()])
    return Package(
        version=model[1][0],
        inputs=[feature(f) for f in description.get(1, [])],
        outputs=[feature(f) for f in description.get(10, [])],
        function_inputs=[named(f) for f in function.get(1, [])],
        function_outputs=[name.decode() for name in block[2]],
        operations=[operation(o) for o in block[3]],
        blob=(data / "weights" / "weight.bin").read_bytes(),
    )


def feature(message: bytes) -> tuple[str, str, tuple[int, ...]]:
    found = fields(message)
    array = fields(fields(found[3][0])[5][0])
    shape, at, packed = [], 0, array[1][0]
    while at < len(packed):
        extent, at = varint(packed, at)
        shape.append(extent)
    return found[1][0].decode(), ARRAYS[array[2][0]], tuple(shape)


def tensor_type(message: bytes) -> tuple[str, tuple[int, ...]]:
    kind = fields(fields(message)[1][0])
    shape = tuple(fields(fields(d)[1][0])[1][0] for d in kind.get(3, []))
    assert kind.get(2, [0])[0] == len(shape)
    return DTYPES[kind[1][0]], shape


def named(message: bytes) -> tuple[str, str, tuple[int, ...]]:
    found = fields(message)
    dtype, shape = tensor_type(found[2][0])
    return found[1][0].decode(), dtype, shape


def operation(message: bytes) -> Operation:
    found = fields(message)
    arguments = {
        name: [fields(binding)[1][0].decode() for binding in fields(argument)[1]]
        for name, argument in entries(found.get(2, [])).items()
    }
    value = entries(found.get(5, [])).get("val")
    file = fields(value).get(5) if value is not None else None
    offset = fields(file[0])[2][0] if file else None
    return Operation(found[1][0].decode(), arguments, [named(r) for r in found[3]], offset)
