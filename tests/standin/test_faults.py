"""What the stand-in does wrong on demand, in a process of its own, as the guard's child is one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from standin import COMPILER, Standin

pytestmark = pytest.mark.skipif(not COMPILER or sys.platform != "linux", reason="needs a C++ compiler on Linux")

BODY = """
import faulthandler, os, sys, threading
sys.path[:0] = {path!r}
faulthandler.enable()
import numpy as np
from aneforge import backends, ops
from aneforge.errors import CompileError
from aneforge.ir import Program, const, input
from aneforge.mil import write
from aneforge.options import Options
from aneforge.targets import resolve
from standin import Standin
backends.pace.SECONDS = 0.0  # nobody waits after a failure
control = Standin(os.environ["ANEFORGE_E5RT_LIBRARY"])
def program():
    x = input("x", (2, 3))
    weight = const(np.ones((3, 64), np.float16))
    mil = write(Program([("x", x)], [("y", ops.matmul(x, weight))]))
    return backends.compile(mil, Options(backend="e5rt", compile_guard="off"), resolve("m1"))
def refused():
    try:
        program()
    except CompileError as error:
        return str(error)
    raise SystemExit("compiled")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Standin.build(tmp_path_factory.mktemp("standin"))


def child(built: Path, caches: Path, fault: str, body: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **Standin.environment(built, caches), "STANDIN_FAULT": fault}
    code = BODY.format(path=[p for p in sys.path if p]) + body
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False, env=variables
    )


@pytest.mark.parametrize(("what", "ends_by"), [("crash", signal.SIGSEGV), ("abort", signal.SIGABRT)])
def test_the_process_ends(built: Path, tmp_path: Path, what: str, ends_by: int) -> None:
    done = child(built, tmp_path, f"e5_compiler_compile={what}", "program()")
    assert done.returncode == -ends_by, done.stderr


def test_only_the_nth_call(built: Path, tmp_path: Path) -> None:
    body = """
program().release()
assert "e5rt_execution_stream_create failed with status 7: standin: told to fail" in refused()
program().release()
assert control.live() == 0
"""
    done = child(built, tmp_path, "execution_stream_create=fail@2", body)
    assert done.returncode == 0, done.stderr


def test_an_exception_through_the_frame(built: Path, tmp_path: Path) -> None:
    body = """
assert "e5rt_buffer_object_alloc threw an exception" in refused()
assert "e5rt_io_port_bind_buffer_object failed" in refused()
assert control.live() == 0
"""
    done = child(built, tmp_path, "buffer_object_alloc=throw@1;io_port_bind_buffer_object=fail", body)
    assert done.returncode == 0, done.stderr


def test_a_hanging_call_holds_nobody_else(built: Path, tmp_path: Path) -> None:
    body = """
mine = program()
stuck = threading.Thread(target=lambda: mine.run([np.zeros((2, 3), np.float32)]), daemon=True)
stuck.start()
while not control.calls("execution_stream_execute_sync"):
    pass
program().release()  # a whole life of another one
assert stuck.is_alive()
os._exit(0)
"""
    done = child(built, tmp_path, "execution_stream_execute_sync=hang", body)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", ["truncate_text", "truncate_blob"])
def test_a_file_that_is_cut(built: Path, tmp_path: Path, what: str) -> None:
    body = """
said = refused()
assert "status 11: InvalidMILProgram" in said, said
program().release()  # the files themselves are whole
"""
    done = child(built, tmp_path, f"e5_compiler_compile={what}:0.9@1", body)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "fault",
    [
        "execute=fail",
        "e5_compiler_compile",
        "e5_compiler_compile=explode",
        "e5_compiler_compile=fail@0",
        "e5_compiler_compile=fail@x",
        "e5_compiler_compile=fail:0.5",
        "e5_compiler_compile=truncate_text:2",
        "execution_stream_create=truncate_text",
    ],
)
def test_an_order_that_cannot_be_meant(built: Path, tmp_path: Path, fault: str) -> None:
    done = child(built, tmp_path, fault, "program()")
    assert done.returncode == 70
    assert f"'{fault}' is not" in done.stderr
