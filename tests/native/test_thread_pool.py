"""The pool behind executable_run(threads=...): idle threads sleep, forked children work, processes end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from milkit import Program

FEED = np.ones((1, 16, 64, 64), np.float32)


def program() -> Any:
    p = Program("fp16")
    y = p.op(
        "conv", (1, 16, 64, 64), x=p.input(np.zeros(FEED.shape)), weight=np.full((16, 16, 3, 3), 0.01), pad_type="same"
    )
    return p.compile([y], numerics="fp16", kernels="plain")


def run(executable: Any, threads: int) -> bytes:
    return bytes(executable.run([FEED], [np.float32], threads)[0][0].tobytes())


def test_idle_threads_do_not_spin() -> None:
    executable = program()
    run(executable, 4)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_runs_programs() -> None:
    executable = program()
    wanted = run(executable, 4)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if all(run(executable, n) == wanted for n in (4, 1, 2, 4)) else 2
        finally:
            os._exit(status)
    deadline = time.time() + 60
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.time() < deadline:
        time.sleep(0.02)
    if done[0] == 0:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert done == (child, 0), "the child hung or computed something else"
    assert run(executable, 4) == wanted


def test_the_process_ends_while_programs_run() -> None:
    script = (
        "import ctypes, sys, threading, time\n"
        f"sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}\n"
        "import test_thread_pool as t\n"
        "e = t.program()\n"
        "def work():\n"
        "    while True: t.run(e, 4)\n"
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.3)\n"
        "print('end', flush=True)\n"
        "ctypes.CDLL(None).exit(0)\n"  # the library's own end; Python's does not come into it
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b"end\n"
