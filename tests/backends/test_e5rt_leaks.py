"""Many lives and many runs on the engine's road leave nothing behind: no handle, memory, descriptor or file."""

import gc
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from standin import Standin

import aneforge as af
import aneforge.provider
from aneforge.errors import CompileError
from tests.backends.engine_kit import NEEDS_THE_STANDIN, compiled
from tests.provider.graphs import cnn, floats, session

pytestmark = NEEDS_THE_STANDIN
GROWTH = 2 << 20
"""Bytes that resident memory may grow by: 2 KiB a life in 1,000 lives, 200 bytes a run in 10,000 runs."""

QUICK = [(100, 1_000), pytest.param(1_000, 10_000, marks=pytest.mark.full)]


def resident() -> int:
    """Bytes of this process that are in memory, after what can be collected is gone."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def state(standin: Standin, caches: Path) -> tuple[int, int, list[str]]:
    gc.collect()
    held = sorted(str(p.relative_to(caches)) for p in (caches / "aneforge").rglob("*"))
    return standin.live(), len(os.listdir("/proc/self/fd")), held


def repeat(standin: Standin, caches: Path, what: Callable[[int], object], rounds: int) -> None:
    """`what` is done often, and then as often again as was asked for: only the second part is looked at."""
    for k in range(rounds // 2):
        what(k)
    before, memory = state(standin, caches), resident()
    for k in range(rounds):
        what(k)
    assert state(standin, caches) == before
    assert resident() - memory < GROWTH


@pytest.mark.parametrize("kept", [0, 4096])
def test_what_is_kept_shows(standin: Standin, tmp_path: Path, kept: int) -> None:
    """The measure itself: 4 KiB kept in each of 1,000 rounds are seen, and nothing is where nothing is kept."""
    leak: list[bytes] = []
    if kept:
        with pytest.raises(AssertionError):
            repeat(standin, tmp_path, lambda k: leak.append(os.urandom(kept)), 1_000)
    else:
        repeat(standin, tmp_path, lambda k: os.urandom(4096), 1_000)


@pytest.mark.parametrize(("lives", "runs"), QUICK)
def test_compiled_and_released(standin: Standin, tmp_path: Path, lives: int, runs: int) -> None:
    repeat(standin, tmp_path, lambda k: compiled(float(k % 7)).release(), lives)
    assert standin.calls("e5_compiler_compile") == lives // 2 + lives


@pytest.mark.parametrize(("lives", "runs"), QUICK)
def test_compiled_in_vain(standin: Standin, tmp_path: Path, lives: int, runs: int) -> None:
    """As often, with a call that fails: first the compiler's, then the last of all before the program is there."""
    for name in ("e5_compiler_compile", "execution_stream_encode_operation"):
        standin.reset()
        standin.fail(name, 0)

        def attempt(_: int) -> None:
            with pytest.raises(CompileError, match="told to fail"):
                compiled()

        repeat(standin, tmp_path, attempt, lives)


@pytest.mark.parametrize(("lives", "runs"), QUICK)
def test_sessions_made_and_dropped(standin: Standin, tmp_path: Path, lives: int, runs: int) -> None:
    made = cnn()
    x = floats(1, 3, 8, 8)

    def life(_: int) -> None:
        one = session(made, {"backend": "e5rt"}, threads=1)
        assert len(aneforge.provider.report(one).regions) == 1
        one.run(None, {"x": x})

    repeat(standin, tmp_path, life, lives // 5)


@pytest.mark.parametrize(("lives", "runs"), QUICK)
def test_runs(standin: Standin, tmp_path: Path, lives: int, runs: int) -> None:
    """Of a program, a Model and a session. Nothing is computed: what is looked at is the way there and back."""
    program = compiled()
    net = af.load_onnx(cnn(), backend="e5rt")
    one = session(cnn(), {"backend": "e5rt"}, threads=1)
    standin.compute(False)
    small, x = np.zeros((2, 3), np.float32), floats(1, 3, 8, 8)
    for run in (lambda _: program.run([small]), lambda _: net(x), lambda _: one.run(None, {"x": x})):
        repeat(standin, tmp_path, run, runs)
    assert standin.calls("execution_stream_execute_sync") == 3 * (runs // 2 + runs)
    program.release()
    net.release()


@pytest.mark.parametrize(("lives", "runs"), QUICK)
def test_runs_that_load_anew(standin: Standin, tmp_path: Path, lives: int, runs: int) -> None:
    """Three programs where two have room: every run unloads one and loads another."""
    standin.most_programs(2)
    programs = [compiled(k) for k in range(3)]
    standin.compute(False)
    x = np.zeros((2, 3), np.float32)
    loads = standin.calls("execution_stream_create")
    repeat(standin, tmp_path, lambda k: programs[k % 3].run([x]), lives)
    assert standin.calls("execution_stream_create") - loads >= lives
    for program in programs:
        program.release()


@pytest.mark.full
def test_ten_thousand_answers(standin: Standin) -> None:
    program = compiled()
    handles = standin.live()
    for i in range(10_000):
        x = np.full((2, 3), i % 100, np.float32)
        assert np.all(program.run([x])[0] == np.float16(i % 100 + 0.5))
    assert standin.live() == handles
    program.release()
