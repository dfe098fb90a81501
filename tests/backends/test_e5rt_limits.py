"""The engine's road, over the stand-in: programs in a process, threads, and the lives of processes."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from standin import Standin

import aneforge as af
import aneforge.provider
from aneforge.cache import Cache
from tests.backends.engine_kit import NEEDS_THE_STANDIN, child, compiled
from tests.provider.graphs import cnn

pytestmark = NEEDS_THE_STANDIN


def test_the_least_recently_run_program_makes_room(standin: Standin) -> None:
    x = np.zeros((2, 3), np.float32)
    programs = [compiled(k) for k in range(97)]
    assert standin.loaded() == 96
    compilations = standin.calls("e5_compiler_compile")
    for k, program in enumerate(programs):
        assert np.all(program.run([x])[0] == k)
    assert standin.loaded() == 96
    assert standin.calls("e5_compiler_compile") == compilations == 97
    for program in programs:
        program.release()


def test_a_program_that_does_not_load_again_says_so(standin: Standin) -> None:
    x = np.zeros((2, 3), np.float32)
    programs = [compiled(k) for k in range(97)]
    standin.fail("execution_stream_create")
    with pytest.raises(RuntimeError, match="told to fail in execution_stream_create"):
        programs[0].run([x])
    assert np.all(programs[0].run([x])[0] == 0)
    for program in programs:
        program.release()


def test_threads(standin: Standin) -> None:
    wrong: list[object] = []

    def work(seed: int) -> None:
        try:
            mine = compiled(seed)
            for i in range(20):
                x = np.full((2, 3), i + seed, np.float32)
                if not np.array_equal(shared.run([x])[0], np.float16(x + 0.5)) or not np.all(
                    mine.run([x])[0] == i + 2 * seed
                ):
                    wrong.append((seed, i))
            mine.release()
        except Exception as error:
            wrong.append(error)

    shared = compiled()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    shared.release()


def test_a_forked_child_is_refused(standin: Standin) -> None:
    body = """
pid = os.fork()
if pid == 0:
    for what in (lambda: net(np.zeros((2, 3), np.float32)), lambda: af.compile(x + 1.0, backend="e5rt")):
        try:
            what()
        except RuntimeError as error:
            assert "forked" in str(error) and "spawn" in str(error), error
        else:
            os._exit(3)
    net.release()
    sys.exit(0)  # with handlers and destructors
assert os.waitpid(pid, 0)[1] == 0
net(np.zeros((2, 3), np.float32))  # the parent's program and folder are whole
print("ok")
"""
    assert child(body) == "ok\n"


def test_an_ending_process_leaves_nothing(standin: Standin, tmp_path: Path) -> None:
    body = """
import ctypes, atexit
library = ctypes.CDLL(os.environ["ANEFORGE_E5RT_LIBRARY"])
assert library.standin_live() > 0
keep = net  # never released
"""
    child(body)
    assert standin.files(tmp_path) == []


def test_what_a_dead_process_left_is_swept(standin: Standin, tmp_path: Path) -> None:
    root = Cache(tmp_path / "aneforge").work
    root.mkdir(parents=True, exist_ok=True)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, kept = root / f"{gone.pid}-abcdef", root / f"{os.getpid()}-abcdef"
    for folder in (left, kept):
        folder.mkdir()
        (folder / "model.mil").write_text("")
    child("")
    assert not left.exists()
    assert kept.exists()
    (kept / "model.mil").unlink()
    kept.rmdir()


def test_the_folder_of_option_cache_dir(standin: Standin, tmp_path: Path) -> None:
    place = tmp_path / "mine"
    with af.load_onnx(cnn(), backend="e5rt", cache_dir=str(place)):
        assert len(list(Cache(place).work.glob(f"{os.getpid()}-*/model.mil"))) == 1
        assert not (tmp_path / "aneforge").exists()
    assert list(Cache(place).work.iterdir()) == []


@pytest.mark.parametrize("room", [1, 3])
def test_many_threads_in_few_slots(standin: Standin, room: int) -> None:
    """More programs run at a time than have room: each waits for its turn, and none fails for it."""
    standin.most_programs(room)
    programs = [compiled(k) for k in range(6)]
    wrong: list[object] = []

    def work(seed: int) -> None:
        try:
            for i in range(40):
                k = (i * 5 + seed) % 6
                x = np.full((2, 3), i, np.float32)
                if not np.all(programs[k].run([x])[0] == i + k):
                    wrong.append((seed, i))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert standin.loaded() <= room
    assert standin.calls("e5_compiler_compile") == 6
    for program in programs:
        program.release()
