"""Many threads on one session, many sessions at once, and results that do not depend on the number of threads."""

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import aneforge as af
import aneforge.provider
from aneforge.backends import native
from tests.provider.graphs import cnn, floats, interrupted, model, node, session

THREADS = 8


def in_parallel(work: Callable[[int], object], count: int = THREADS) -> list[object]:
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(work, range(count), timeout=300))


def test_eight_threads_on_one_session() -> None:
    made = session(cnn())
    feeds = [floats(1, 3, 8, 8, seed=i) for i in range(THREADS)]
    alone = [made.run(None, {"x": x})[0] for x in feeds]

    def work(i: int) -> bool:
        return all(np.array_equal(made.run(None, {"x": feeds[i]})[0], alone[i]) for _ in range(50))

    assert all(in_parallel(work))


def test_eight_threads_on_one_model() -> None:
    net = af.load_onnx(cnn())
    feeds = [floats(1, 3, 8, 8, seed=i) for i in range(THREADS)]
    alone = [net(x) for x in feeds]
    assert all(in_parallel(lambda i: all(np.array_equal(net(feeds[i]), alone[i]) for _ in range(50))))


def test_eight_threads_make_sessions() -> None:
    """Each asks for its own report: the token must find the right provider instance."""
    x = floats(1, 3, 8, 8)
    expected = session(cnn()).run(None, {"x": x})[0]

    def work(i: int) -> bool:
        wide = i % 2 == 0
        made = session(cnn() if wide else interrupted(), {"target": f"m{1 + i % 4}"})
        report = aneforge.provider.report(made)
        good = len(report.regions) == (1 if wide else 2)
        return good and (not wide or np.array_equal(made.run(None, {"x": x})[0], expected))

    assert all(in_parallel(work, 32))


def test_results_do_not_depend_on_threads() -> None:
    wide = model(
        [
            node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
            node("Relu", "c", "r"),
            node("ReduceMean", "r", "y", axes=[2, 3]),
        ],
        {"x": [1, 32, 56, 56]},
        {"y": [1, 64, 1, 1]},
        {"w": floats(64, 32, 3, 3) / 17},
    )
    x = floats(1, 32, 56, 56, seed=3)
    results = [session(wide, threads=n).run(None, {"x": x})[0] for n in (1, 2, 4)]
    assert all(np.array_equal(r, results[0]) for r in results[1:])
    assert np.array_equal(af.load_onnx(wide)(x), results[0])


def test_nothing_stays_behind() -> None:
    """Programs and provider instances go with their sessions, and so do their records."""
    gc.collect()
    before = native.load().counters()
    for _ in range(5):
        made = session(interrupted())
        made.run(None, {"x": floats(2, 4, 4)})
        aneforge.provider.report(made)
    del made
    gc.collect()
    after = native.load().counters()
    assert {k: after[k] for k in ("executables", "eps", "kernels")} == {
        k: before[k] for k in ("executables", "eps", "kernels")
    }
    assert after["computes"] >= before["computes"] + 10


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.full
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads Linux's /proc")
def test_two_hundred_rounds_leave_memory_flat() -> None:
    content = cnn().SerializeToString()
    x = floats(1, 3, 8, 8)

    def round_() -> None:
        made = session(content, threads=1)
        made.run(None, {"x": x})
        aneforge.provider.report(made)

    for _ in range(50):
        round_()
    gc.collect()
    before = resident()
    for _ in range(200):
        round_()
    gc.collect()
    assert resident() - before < 4 << 20
