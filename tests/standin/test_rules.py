"""The stand-in called wrongly, one rule at a time: each is seen, and named. What it lets pass, no test of ours can find."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from standin import COMPILER, HERE, Standin
from standin.misuse_rows import MISUSES
from standin.right_life import EXECUTE, INPUT, LOAD, ORDER, OUTPUT, RELEASE, RETAIN, Runtime, mil

pytestmark = pytest.mark.skipif(not COMPILER or sys.platform != "linux", reason="needs a C++ compiler on Linux")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that no other test has: what a wrong call leaves is nobody else's."""
    return Standin.build(tmp_path_factory.mktemp("standin"))


@pytest.fixture
def runtime(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    for key, value in Standin.environment(built, tmp_path).items():
        monkeypatch.setenv(key, value)
    made = Runtime(built, tmp_path / "program")
    made.control.forget()
    made.control.reset()
    return made


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_is_seen_and_named(runtime: Runtime, name: str) -> None:
    do, named = MISUSES[name]
    status = do(runtime)
    if not named:  # the runtime's own refusal, known by its words
        assert (status, runtime.said()) == (5, "Invalid BufferType @ AllocMemory")
        return
    assert status == 2
    assert named in runtime.said()
    assert named in runtime.control.misuse()
    assert runtime.control.misuse().count("\n") == 1


def test_how_many_there_are_and_that_none_is_missing() -> None:
    """Each message of a misuse in the stand-in is that of a test here, or of those that need two threads."""
    source = "".join((HERE / name).read_text() for name in ("standin.cc", "state.h"))
    messages = set(re.findall(r'misuse\((?:std::string\((?:call|name)\) \+ )?#?(?:name )?"([^"]+)"', source))
    assert len(messages) == 40
    named = [said for _, said in MISUSES.values() if said]
    threads = {"compile: two at a time", "execute: two at a time on one stream", "stream released while it runs"}
    unreachable = {
        "compile: what it uses is released meanwhile",
        "execute: the stream is gone",
    }  # guards of the rules above
    missing = [m for m in messages - threads - unreachable if not any(part in m or m in part for part in named)]
    assert missing == []
    assert len(MISUSES) == 120


# ---------------------------------------------------------------- what the runtime refuses


def test_a_right_life_is_no_misuse(runtime: Runtime) -> None:
    x, y = ([], [])  # type: tuple[list[int], list[int]]
    assert runtime.stream
    runtime.right("buffer_object_get_data_ptr", runtime.bx, x)
    runtime.right("buffer_object_get_data_ptr", runtime.by, y)
    given = np.linspace(-1, 1, 66, dtype=np.float16)
    ctypes.memmove(x[0], given.tobytes(), 132)
    runtime.right(EXECUTE, runtime.stream)
    assert np.array_equal(np.frombuffer(ctypes.string_at(y[0], 132), np.float16), np.maximum(given, 0))
    for name in ORDER:
        runtime.right(RELEASE.get(name, RELEASE["x" if name == "y" else "bx"]), [runtime.made[name]])
    assert runtime.control.live() == 0
    assert runtime.control.misuse() == ""


@pytest.mark.parametrize(
    ("do", "status", "says"),
    [
        (lambda r: r.call(RETAIN, r.library, "other", []), 1, "no function other"),
        (lambda r: r.call(INPUT, r.operation, "z", []), 1, "no port z"),
        (lambda r: r.call(INPUT, r.operation, "y", []), 1, "no port y"),
        (lambda r: r.call(OUTPUT, r.operation, "x", []), 1, "no port x"),
        (lambda r: r.call("buffer_object_alloc", [], 64, 3), 5, "Invalid BufferType"),
        (lambda r: r.call("e5_compiler_compile", r.compiler, r.folder / "no.mil", r.options, []), 11, "FAILED (11)"),
    ],
)
def test_a_refusal_is_no_misuse(runtime: Runtime, do: Callable[[Runtime], int], status: int, says: str) -> None:
    assert do(runtime) == status
    assert says in runtime.said()
    assert runtime.control.misuse() == ""


CAST = 'tensor<fp16, [2, 33]> h = cast(dtype = string("fp16"), x = x)[name = string("h")];'


@pytest.mark.parametrize(
    ("x", "body", "says"),
    [
        ("tensor<fp32, [2, 33]>", 'tensor<fp32, [2, 33]> y = relu(x = x)[name = string("y")];', "input dtype fp32 of x"),
        ("tensor<int8, [2, 33]>", CAST + 'tensor<fp16, [2, 33]> y = relu(x = h)[name = string("y")];', "input dtype int8 of x"),
        ("tensor<int32, [2, 33]>", CAST + 'tensor<fp16, [2, 33]> y = relu(x = h)[name = string("y")];', "input dtype int32"),
        ("tensor<bool, [2, 33]>", CAST + 'tensor<fp16, [2, 33]> y = relu(x = h)[name = string("y")];', "input dtype bool"),
        ("tensor<uint8, [2, 33]>", CAST + 'tensor<fp16, [2, 33]> y = relu(x = h)[name = string("y")];', ""),
        ("tensor<uint8, [2, 33]>", 'tensor<uint8, [2, 33]> y = relu(x = x)[name = string("y")];', "got uint8"),
        ("tensor<fp16, [2, 33]>", 'tensor<bool, [2, 33]> y = greater(x = x, y = x)[name = string("y")];', "output dtype bool of y"),
        ("tensor<fp16, [2, 33]>", 'tensor<fp32, [2, 33]> y = cast(dtype = string("fp32"), x = x)[name = string("y")];', "output dtype fp32"),
        ("tensor<fp16, [2, 33]>", 'tensor<fp16, [2, 34]> y = relu(x = x)[name = string("y")];', ""),
    ],
)  # fmt: skip
def test_types_of_ports(runtime: Runtime, x: str, body: str, says: str) -> None:
    status = runtime.compile(mil(body, x))
    assert (status, says in runtime.said()) == (11 if says else status, True)
    assert runtime.control.misuse() == ""


def test_too_many_weights(runtime: Runtime) -> None:
    path = runtime.write()
    os.truncate(path.with_name("weights.bin"), 2_000_000_001)  # a hole: takes no disk
    assert runtime.call("e5_compiler_compile", runtime.compiler, path, runtime.options, []) == 11
    assert "weights of 2000000001 bytes" in runtime.said()


def test_the_129th_program(runtime: Runtime) -> None:
    for _ in range(128):
        runtime.make(LOAD, ..., runtime.op_options)
    assert runtime.call(LOAD, [], runtime.op_options) == 13
    assert "Must re-compile the E5 bundle" in runtime.said()
    assert runtime.control.misuse() == ""


# ---------------------------------------------------------------- threads and processes


def until_seen(runtime: Runtime, says: str, first: Callable[[], object], second: Callable[[], object]) -> None:
    """Two threads do their part over and over, until the stand-in has seen them at once."""
    done = threading.Event()

    def work(what: Callable[[], object]) -> None:
        for _ in range(20_000):
            what()
            if done.is_set() or says in runtime.control.misuse():
                done.set()
                return

    threads = [threading.Thread(target=work, args=(what,)) for what in (first, second)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert says in runtime.control.misuse()


def test_two_runs_at_a_time(runtime: Runtime) -> None:
    stream = runtime.stream
    run = lambda: runtime.call(EXECUTE, stream)  # noqa: E731
    until_seen(runtime, "execute: two at a time on one stream", run, run)


def test_two_compilations_at_a_time(runtime: Runtime) -> None:
    path = runtime.write()
    compiler, options = runtime.compiler, runtime.options
    run = lambda: runtime.call("e5_compiler_compile", compiler, path, options, [])  # noqa: E731
    until_seen(runtime, "compile: two at a time", run, run)


def test_a_stream_that_runs_is_released(runtime: Runtime) -> None:
    """One that does not run yet may be released: then another one is tried."""
    big = "tensor<fp16, [1, 64, 256, 256]>"
    text = mil(f'{big} y = exp(x = x)[name = string("y")];', f"{big}")
    runtime.made["library"] = runtime.make(
        "e5_compiler_compile", runtime.compiler, runtime.write(text), runtime.options, ...
    )
    for _ in range(20):
        for name in ("x", "y", "bx", "by", "stream", "operation"):
            runtime.made.pop(name, None)
        for name, port in (("bx", runtime.x), ("by", runtime.y)):
            runtime.made[name] = runtime.bound(port, 2 << 22)
        stream = runtime.stream
        runtime.control.reset()
        runner = threading.Thread(target=runtime.call, args=(EXECUTE, stream))
        runner.start()
        while not runtime.control.calls(EXECUTE):
            pass
        status = runtime.call(RELEASE["stream"], [stream])
        runner.join()
        if status:
            break
    assert runtime.control.misuse() == "stream released while it runs\n"


def test_a_forked_child_dies(built: Path, tmp_path: Path) -> None:
    code = f"""
import ctypes, os
library = ctypes.CDLL({str(built)!r})
place = ctypes.c_void_p()
assert library.e5rt_execution_stream_create(ctypes.byref(place)) == 0
pid = os.fork()
if pid == 0:
    library.e5rt_execution_stream_create(ctypes.byref(place))
    os._exit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != -11)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=100).returncode == 0
