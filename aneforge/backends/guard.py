"""The engine's compiler is private, and a program that nobody has tried may crash it, or keep it busy for ever. Such a program
is first compiled in a child process: what goes wrong there is a refusal, and the user's process lives.

What became of it is remembered by content, build of the system and target (aneforge/cache.py), so that each program is tried once
on a machine: one that compiled needs no child any more, one that did not is refused without another attempt.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import spawn
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import cache
from ..errors import CompileError
from ..mil import MilFile
from ..targets import Target, here
from . import native, pace

log = logging.getLogger("aneforge.backends")
_one_at_a_time = threading.Lock()

KIND = "guard"
TIME_LIMIT = 180.0
"""Seconds that a compilation may take. Deep networks take seconds; the slowest known legitimate one took 162
(docs/engine.md)."""

COMPILED, REFUSED, CRASHED, HUNG, FAILED = "compiled", "refused", "crashed", "hung", "failed"
"""What may become of an attempt. FAILED says nothing about the program (no memory, no disk, no free slot): not remembered."""

BY_THE_COMPILER = "e5rt_e5_compiler_compile failed"
"""In the text of an error that the compiler itself gave."""


@dataclass(frozen=True)
class Outcome:
    """`text` is empty for COMPILED. `outputs`: of the run, one flat array for each output; only if inputs were given."""

    what: str
    text: str = ""
    outputs: tuple[NDArray[np.float64], ...] = ()


def admit(mil: MilFile, target: Target, how: str, house: cache.Cache) -> None:
    """Returns when the program may be compiled in this process.

    Args:
        how: option `compile_guard`. "auto": programs that this machine has not compiled before go through a child first; "on":
            all do, whatever is remembered; "off": none does, and nothing is remembered or looked up.

    Raises:
        CompileError: the program crashed the compiler, did not end, or was refused, now or at an earlier time; or it must be
            tried in a child and no child can be made.
    """
    if how == "off":
        return
    if not interpreter():
        if how == "on":
            raise CompileError(
                f"compile_guard=on needs a Python interpreter for the child process, and {sys.executable or 'nothing'!r} is "
                "none; name one with multiprocessing.set_executable, or use compile_guard=off"
            )
        log.info("compile_guard=auto: no Python interpreter for a child process; the program is compiled in this one")
        return
    key = cache.key(KIND, here().name, target.name, mil.text, mil.blob)
    if how == "on":
        house.drop(KIND, key)
    fresh: list[Outcome] = []

    def first(folder: Path) -> None:
        fresh.append(_first(mil, house))
        (folder / "outcome.json").write_text(json.dumps({"what": fresh[0].what, "text": fresh[0].text}), "utf-8")

    try:
        with house.entry(KIND, key, first) as entry:
            outcome = fresh[0] if fresh else _remembered(entry.path)
    except OSError as error:
        raise CompileError(f"the outcome of a guarded compilation cannot be kept: {error}") from error
    if outcome.what != COMPILED:
        again = "" if fresh else "; so it was at an earlier time: `aneforge cache clear` forgets that"
        raise CompileError(outcome.text + again)


def _remembered(folder: Path) -> Outcome:
    try:
        kept = json.loads((folder / "outcome.json").read_text("utf-8"))
        return Outcome(kept["what"], kept["text"])
    except (ValueError, KeyError, TypeError) as error:
        raise CompileError(
            f"{folder} does not hold the outcome of a compilation: {error}; `aneforge cache clear` removes it"
        ) from error


def _first(mil: MilFile, house: cache.Cache) -> Outcome:
    with _one_at_a_time:
        pace.wait(house)
        outcome = attempt(mil.text, mil.blob, house)
        if outcome.what == COMPILED:
            pace.succeeded(house)
        elif outcome.what != FAILED:
            pace.failed(house)
    if outcome.what == FAILED:
        raise CompileError(outcome.text)
    return outcome


def attempt(
    text: str, blob: memoryview | bytes, house: cache.Cache, feeds: Sequence[NDArray[Any]] = (), results: int = 0
) -> Outcome:
    """Compiles and loads a program in a child process, and runs it there once if it is given inputs.

    Args:
        results: how many outputs the program has, if it is to run.

    Raises:
        OSError: the program cannot be written, or no process can be made.
    """
    with house.workspace() as folder:
        (folder / "model.mil").write_text(text, "utf-8")
        (folder / "weights.bin").write_bytes(blob)
        (folder / "child").mkdir()
        told = {
            "path": [p for p in sys.path if p],
            "module": str(native.load().__file__),
            "library": str(native.library_path()),
            "backend": "e5rt",
            "text": str(folder / "model.mil"),
            "blob": str(folder / "weights.bin"),
            "options": {"folder": str(folder / "child")},
            "feeds": [(array.shape, array.ravel().tolist()) for array in feeds],
            "results": results,
        }
        script = str(Path(__file__).with_name("guard_child.py"))
        try:
            # The engine's runtime does not survive a fork. With these arguments CPython calls posix_spawn; a test looks.
            done = subprocess.run(
                [interpreter(), "-I", "-S", script, json.dumps(told)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                close_fds=False,
                timeout=TIME_LIMIT,
            )
        except subprocess.TimeoutExpired:
            return Outcome(HUNG, f"the engine's compiler did not end within {TIME_LIMIT:.0f} s")
    last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:300]
    if done.returncode < 0:
        said = f"; its last words: {last}" if last else ""
        return Outcome(CRASHED, f"the engine's compiler crashed a child process (signal {-done.returncode}){said}")
    try:
        told = json.loads(done.stdout)
    except ValueError:
        return Outcome(FAILED, f"the child process of compile_guard ended with {done.returncode}: {last}")
    if "error" in told:
        what = REFUSED if BY_THE_COMPILER in told["error"] else FAILED
        return Outcome(what, f"the engine's runtime did not compile the program: {told['error']}")
    return Outcome(COMPILED, "", tuple(np.array(values) for values in told["outputs"]))


def interpreter() -> str:
    """The program that runs `guard_child.py`; empty if there is none that is known to be Python: in an application that
    embeds it, sys.executable is the application."""
    given = spawn.get_executable()
    path = os.fsdecode(given) if given else ""
    known = Path(path).name.lower().startswith(("python", "pypy")) and not getattr(sys, "frozen", False)
    return path if known else ""
