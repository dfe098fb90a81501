"""Computes for the stand-in: reads programs by their paths with the independent reader, runs them with the evaluator.

Frames on stdin and stdout: two uint32 (what, length), then bytes. Requests: 1 compile (path), 2 run (uint32 program, then
the inputs one after another), 3 forget (uint32 program). Answers: 0 done, 1 refused (text). A path with a second line
"truncate_text 0.5" or "truncate_blob 0.5": of that file only this part is seen.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import numpy as np
from oracle.mil_reference import MilError, Program, evaluate_program, read
from oracle.registry import OPERATIONS

from standin.families import refusal

Types = list[tuple[str, np.dtype, tuple[int, ...]]]
PORTS = {"fp16": np.dtype("<f2"), "uint8": np.dtype("u1")}


class Refused(Exception):
    """What the compiler says of a program that it does not take."""


def compile(path: Path, cut: str) -> tuple[Program, Types, Types]:
    what, _, part = cut.partition(" ")
    try:
        text, blob = path.read_bytes(), (path.parent / "weights.bin").read_bytes()
        if what == "truncate_text":
            text = text[: int(len(text) * float(part))]
        elif what:
            blob = blob[: int(len(blob) * float(part))]
        program = read(text.decode("ascii"), blob)
    except (MilError, OSError, UnicodeError) as error:
        raise Refused(f"InvalidMILProgram: {path}: {error}") from error
    if unknown := {s.kind for s in program.operations} - set(OPERATIONS):
        raise Refused(
            f'"Not implemented": Some ops are not supported on any of the specified backends: {", ".join(sorted(unknown))}'
        )
    bridged = {s.results[0][0] for s in program.operations if s.kind == "constexpr_blockwise_shift_scale"}
    for s in program.operations:
        if s.kind != "add" and bridged.intersection(v for v in s.arguments.values() if isinstance(v, str)):
            raise Refused(f"{s.kind} takes no result of constexpr_blockwise_shift_scale as an operand")
    kinds = {name: kind for s in program.operations for name, kind in s.results}
    inputs = [(name, kind) for name, kind in program.inputs]
    outputs = [(name, kinds[name]) for name in program.outputs]
    for name, kind in inputs:
        if kind.dtype not in PORTS:
            raise Refused(f"Unsupported function input dtype {kind.dtype} of {name}")
        for s in program.operations:
            if kind.dtype == "uint8" and name in s.arguments.values() and s.kind != "cast":
                raise Refused(f"Param '{name}' of {s.kind}: expected fp16; got {kind.dtype}")
    for name, kind in outputs:
        if kind.dtype != "fp16":
            raise Refused(f"Unsupported function output dtype {kind.dtype} of {name}")
    if why := refusal(program, os.environ.get("STANDIN_FAMILY", "A16")):
        raise Refused(why)
    return program, *([(n, PORTS[k.dtype], k.shape) for n, k in ports] for ports in (inputs, outputs))


def size(dtype: np.dtype, shape: tuple[int, ...]) -> int:
    return dtype.itemsize * int(np.prod(shape, dtype=np.int64))


def run(made: tuple[Program, Types, Types], data: bytes) -> bytes:
    program, inputs, outputs = made
    feeds, at = {}, 0
    for name, dtype, shape in inputs:
        feeds[name] = np.frombuffer(data, dtype, int(np.prod(shape, dtype=np.int64)), at).reshape(shape)
        at += size(dtype, shape)
    results = evaluate_program(program, feeds)
    return b"".join(np.ascontiguousarray(results[name], dtype).tobytes() for name, dtype, _ in outputs)


def main() -> None:
    programs: dict[int, tuple[Program, Types, Types]] = {}
    count = 0
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while head := source.read(8):
        what, length = struct.unpack("<II", head)
        body = source.read(length)
        status, answer = 0, b""
        try:
            if what == 1:
                programs[count] = made = compile(
                    Path(body.decode().partition("\n")[0]), body.decode().partition("\n")[2]
                )
                lines = [f"{count}"]
                lines += [f"in {n} {size(d, s)}" for n, d, s in made[1]]
                lines += [f"out {n} {size(d, s)}" for n, d, s in made[2]]
                answer = "\n".join(lines).encode()
                count += 1
            elif what == 2:
                answer = run(programs[struct.unpack_from("<I", body)[0]], body[4:])
            else:
                del programs[struct.unpack_from("<I", body)[0]]
        except (Refused, MilError) as error:
            status, answer = 1, str(error).encode()
        sink.write(struct.pack("<II", status, len(answer)) + answer)
        sink.flush()


main()
