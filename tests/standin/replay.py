"""Plays a recorded trace against the stand-in, call by call: where the two disagree, the stand-in is wrong about a real Mac.

    cd tests && python -m standin.replay TRACE [--family A14]

TRACE is the folder that ANEFORGE_E5RT_TRACE named (its format: native/runtime/trace.h). Each call is made with the handles of
the stand-in in the place of the recorded ones; statuses are compared, and the outputs of runs whose bytes are there, within
what fp16 differs by. Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import json
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from standin import HERE, Standin

FORMAT = 1
EXECUTE = "execution_stream_execute_sync"


class BadTrace(Exception):
    """The folder holds no trace that can be read."""


@dataclass(frozen=True)
class Difference:
    """`call` is the number of the call in its file, 0 for what the whole of it shows."""

    file: str
    call: int
    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.file} call {self.call} {self.name}: {self.what}" if self.call else f"{self.file}: {self.what}"


@dataclass
class Played:
    calls: int = 0
    runs: int = 0
    compared: int = 0
    """Runs whose outputs were compared."""
    skipped: int = 0
    """Calls that could not be made: what they need was not in the trace, or was not made here."""
    differences: list[Difference] = field(default_factory=list)


def read(file: Path) -> list[dict[str, Any]]:
    """The calls in the order in which they began; what was written after a call stands under "end", if it returned.

    Raises:
        BadTrace: a line is no JSON object (the last one aside: a process may die while it writes), or the format is another.
    """
    calls: dict[int, dict[str, Any]] = {}
    lines = file.read_text("utf-8", errors="replace").splitlines()
    for at, line in enumerate(lines, 1):
        try:
            told = json.loads(line)
            if at == 1:
                if told["trace"] != FORMAT:
                    raise BadTrace(f"{file.name} is of format {told['trace']}, and {FORMAT} is read")
            elif "call" in told:
                calls[told["n"]] = told
            else:
                calls[told["n"]]["end"] = told
        except (ValueError, KeyError, TypeError) as error:
            if at == len(lines) > 1:
                break
            raise BadTrace(f"{file.name}, line {at}: {error!r}") from error
    if not lines:
        raise BadTrace(f"{file.name} is empty")
    return [calls[n] for n in sorted(calls)]


class Player:
    """Plays one file."""

    def __init__(self, file: Path, library: Path, caches: Path, played: Played) -> None:
        self.file, self.caches, self.played = file, caches, played
        self.standin = Standin(library)
        self.library = ctypes.CDLL(str(library))
        self.library.e5rt_get_last_error_message.restype = ctypes.c_char_p
        self.handles: dict[int, int] = {}  # of the trace -> here
        self.made_by: dict[int, str] = {}  # what was given out and not released
        self.buffers: dict[int, tuple[int, int]] = {}  # address here, bytes
        self.bound: dict[int, int] = {}  # port -> buffer
        self.lacking: set[int] = set()  # handles that a call was to be made with, and was not

    def differs(self, call: dict[str, Any], what: str) -> None:
        self.played.differences.append(Difference(self.file.name, call.get("n", 0), call.get("call", ""), what))

    def play(self) -> None:
        before = self.standin.misuse()
        whole = True
        for call in read(self.file):
            if "end" not in call:
                whole = False
                self.differs(call, "did not return: the process ended in it")
            else:
                self.one(call)
        for number, name in sorted(self.made_by.items()) if whole else ():
            self.differs({}, f"handle {number}, which {name} gave, is never released")
        if (wrong := self.standin.misuse()) != before:
            self.differs({}, "the stand-in saw a misuse: " + wrong.removeprefix(before).strip().replace("\n", "; "))

    def one(self, call: dict[str, Any]) -> None:
        name, end = call["call"], call["end"]
        place = ctypes.c_void_p()
        arguments = [self.argument(call, kind, value, place) for kind, value in call["arguments"]]
        for kind, value in call["arguments"]:
            if kind == "release":
                self.made_by.pop(value, None)
        if end.get("out"):
            self.made_by[end["out"]] = name
        function = getattr(self.library, f"e5rt_{name}", None)
        if function is None:
            self.differs(call, "the stand-in has no such function")
        if function is None or None in arguments:
            self.played.skipped += 1
            self.lacking.update(value for kind, value in call["arguments"] if kind == "handle")
            return
        self.fill(call)
        self.played.calls += 1
        self.played.runs += name == EXECUTE
        function.restype = ctypes.c_int32
        status = function(*arguments)
        said = self.library.e5rt_get_last_error_message().decode(errors="replace") if status else ""
        if end.get("threw") or end["status"] != status:
            theirs = "threw" if end.get("threw") else f"status {end['status']}"
            words = "".join(f" ({text})" for text in [end.get("error", "")] if text)
            self.differs(call, f"{theirs}{words} in the trace, {status}{f' ({said})' if said else ''} here")
        if status == 0:
            self.learn(call, place.value or 0)
        if status == 0 and "outputs" in end:
            self.compare(call)

    def argument(self, call: dict[str, Any], kind: str, value: Any, place: ctypes.c_void_p) -> Any:
        """None where there is nothing to give."""
        if kind == "handle":
            there = not value or (value in self.handles and value not in self.lacking)
            return ctypes.c_void_p(self.handles.get(value)) if there else None
        if kind == "release":
            if value not in self.handles:
                return None
            place.value = self.handles.pop(value)
            return ctypes.byref(place)
        if kind in ("out", "pointer"):
            return ctypes.byref(place)
        if kind == "number":
            return ctypes.c_uint64(value)
        if kind == "path" and "program" in call:
            path = self.file.parent / "programs" / call["program"] / "model.mil"
            whole = path.exists() and path.with_name("weights.bin").exists()
            return ctypes.c_char_p(os.fsencode(path)) if whole else None
        if kind == "path":
            return ctypes.c_char_p(os.fsencode(self.caches))
        return ctypes.c_char_p(str(value).encode())

    def learn(self, call: dict[str, Any], made: int) -> None:
        name, values = call["call"], [value for _, value in call["arguments"]]
        if out := call["end"].get("out"):
            self.handles[out] = made
            if name == "buffer_object_alloc":
                self.buffers[out] = (0, values[1])
        if name == "buffer_object_get_data_ptr":
            address, size = made, self.buffers[values[0]][1]
            ctypes.memset(address, 0, size)  # as the product does
            self.buffers[values[0]] = (address, size)
        elif name == "io_port_bind_buffer_object":
            self.bound[values[0]] = values[1]

    def buffer(self, port: str) -> tuple[int, int]:
        """Of no bytes, where the port is not bound here."""
        address, size = self.buffers.get(self.bound.get(int(port), 0), (0, 0))
        return address, size if address else 0

    def fill(self, call: dict[str, Any]) -> None:
        for port, data in call.get("inputs", {}).items():
            address, size = self.buffer(port)
            ctypes.memmove(address, base64.b64decode(data), min(size, len(base64.b64decode(data))))

    def compare(self, call: dict[str, Any]) -> None:
        self.played.compared += 1
        for port, data in call["end"]["outputs"].items():
            address, size = self.buffer(port)
            theirs = np.frombuffer(base64.b64decode(data)[:size], "<f2").astype(np.float64)
            ours = np.frombuffer(ctypes.string_at(address, size), "<f2").astype(np.float64)
            with np.errstate(invalid="ignore"):
                scale = float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0))
                near = np.isclose(ours, theirs, rtol=1e-2, atol=4e-3 * scale, equal_nan=True)
            if not size:
                self.differs(call, f"port {port} has no buffer here")
            elif not near.all():
                at = int(np.argmin(near))
                self.differs(
                    call,
                    f"{int((~near).sum())} of {near.size} values of port {port} differ, the first at {at}: "
                    f"{theirs[at]:g} in the trace, {ours[at]:g} here",
                )


def replay(trace: Path, library: Path) -> Played:
    """Plays every file of a trace, one after another.

    Raises:
        BadTrace: see `read`; or the folder has no calls.
    """
    files = sorted(trace.glob("calls*.jsonl"))
    if not files:
        raise BadTrace(f"{trace} holds no calls.jsonl")
    played = Played()
    for file in files:
        with tempfile.TemporaryDirectory() as caches:
            Player(file, library, Path(caches), played).play()
    return played


def main() -> int:
    parser = argparse.ArgumentParser(prog="standin.replay", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--family", default="A16", help="family of the chip that the trace is from (A13 to A16)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "STANDIN_PYTHON": sys.executable,
            "STANDIN_TESTS": str(HERE.parent),
            "STANDIN_FAMILY": given.family,
        }
        try:
            played = replay(given.trace, Standin.build(Path(folder)))
        except BadTrace as error:
            print(error, file=sys.stderr)
            return 2
    for difference in played.differences:
        print(difference)
    print(
        f"{played.calls} calls played, {played.skipped} skipped; {played.runs} runs, {played.compared} with outputs; "
        f"{len(played.differences)} differences"
    )
    return 1 if played.differences else 0


if __name__ == "__main__":
    sys.exit(main())
