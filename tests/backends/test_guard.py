"""The compile guard and the probe, over the stand-in: what crashes or hangs a compiler costs a child process, once."""

import json
import logging
import os
import sys
import threading
import time
from multiprocessing import spawn
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from standin import COMPILER, Standin

import aneforge as af
import aneforge.provider
from aneforge import backends
from aneforge.backends import guard, pace, probe
from aneforge.cache import Cache
from aneforge.cli import main
from aneforge.errors import BackendUnavailableError, CompileError
from aneforge.ir import Program, input
from aneforge.mil import write
from aneforge.ops import relu
from aneforge.options import Options
from aneforge.targets import resolve
from tests.provider.graphs import close, cnn, floats, model, node, placement, reference, session

pytestmark = [
    pytest.mark.skipif(not COMPILER or sys.platform != "linux", reason="needs a C++ compiler on Linux"),
    pytest.mark.filterwarnings("ignore::aneforge.errors.DispatchFloorWarning"),
]
X = floats(1, 3, 8, 8, seed=7)


@pytest.fixture
def children(guarded: Standin, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What became of each program that a child was started for, the probe's aside."""
    seen: list[str] = []
    attempt = guard.attempt

    def counted(text, blob, house, feeds=(), results=0):
        outcome = attempt(text, blob, house, feeds, results)
        if not feeds:
            seen.append(outcome.what)
        return outcome

    monkeypatch.setattr(guard, "attempt", counted)
    return seen


def small() -> onnx.ModelProto:
    return model(
        [node("Relu", "x", "r"), node("Add", "r k", "y")], {"x": [2, 3]}, {"y": [2, 3]}, {"k": np.float32([3])}
    )


def kept(kind: str = guard.KIND) -> list[str]:
    return [json.loads((Cache().root / "store" / r.kind / r.key / "outcome.json").read_text())["what"]
            for r in Cache().rows() if r.kind == kind]  # fmt: skip


def test_a_program_is_tried_once(guarded: Standin, children: list[str]) -> None:
    expected = reference(cnn(), {"x": X})[0]
    for _ in range(2):
        with af.load_onnx(cnn(), backend="e5rt") as net:
            close(net(X), expected)
    made = session(cnn(), {"backend": "e5rt"})  # another text: the regions of a session have their own names of ports
    close(made.run(None, {"x": X})[0], expected)
    del made
    assert children == ["compiled"] * len(children)
    assert len(children) in (1, 2)
    assert len(kept()) == len(children)
    assert kept(probe.KIND) == ["compiled"]
    before = len(children)
    with af.load_onnx(cnn(), backend="e5rt", compile_guard="on"):
        assert len(children) == before + 1
    with af.load_onnx(small(), backend="e5rt", compile_guard="off"):
        assert len(children) == before + 1


def test_the_child_is_no_fork(guarded: Standin) -> None:
    """The engine's runtime does not survive a fork, not even one that is followed by exec."""
    events: list[str] = []
    listening = [True]
    sys.addaudithook(lambda event, _: events.append(event) if listening[0] and event.startswith("os.") else None)
    with af.load_onnx(small(), backend="e5rt"):
        pass
    listening[0] = False
    assert events.count("os.posix_spawn") == 2  # the probe, and the program
    assert not {"os.fork", "os.forkpty"} & set(events)


@pytest.mark.parametrize(
    ("fault", "says", "what"),
    [
        ("e5_compiler_compile=crash", r"crashed a child process \(signal 11\)", "crashed"),
        ("e5_compiler_compile=abort", r"crashed a child process \(signal 6\)", "crashed"),
        ("e5_compiler_compile=hang", "did not end within 2 s", "hung"),
        ("e5_compiler_compile=fail", "e5rt_e5_compiler_compile failed with status 7", "refused"),
        ("e5_compiler_compile=truncate_text", "e5rt_e5_compiler_compile failed .*InvalidMILProgram", "refused"),
        ("e5_compiler_compile=truncate_blob", "e5rt_e5_compiler_compile failed", "refused"),
        ("execution_stream_encode_operation=crash", r"crashed a child process \(signal 11\)", "crashed"),
        ("execution_stream_release=abort", r"crashed a child process \(signal 6\)", "crashed"),
        ("execution_stream_operation_create_precompiled_compute_operation_with_options=hang", "within 2 s", "hung"),
    ],
)
def test_what_kills_a_compiler_is_refused_and_remembered(
    guarded: Standin,
    children: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    fault: str,
    says: str,
    what: str,
) -> None:
    assert backends.choose(Options(backend="e5rt")) == "e5rt"  # the machine was fine when it was probed
    monkeypatch.setattr(guard, "TIME_LIMIT", 2.0)
    monkeypatch.setenv("STANDIN_FAULT", fault)
    with pytest.raises(CompileError, match=says) as caught:
        af.load_onnx(cnn(), backend="e5rt")
    assert "\n" not in str(caught.value)
    assert guarded.files(tmp_path) == []
    assert guarded.calls("e5_compiler_compile") == 0  # not in this process
    assert children == [what] == kept()
    monkeypatch.delenv("STANDIN_FAULT")
    with pytest.raises(CompileError, match=rf"(?s){says}.*at an earlier time: `aneforge cache clear` forgets"):
        af.load_onnx(cnn(), backend="e5rt")
    assert len(children) == 1
    assert main(["cache", "clear"]) == 0
    with af.load_onnx(cnn(), backend="e5rt") as net:
        close(net(X), reference(cnn(), {"x": X})[0])


@pytest.mark.parametrize("fault", ["crash", "hang", "truncate_text"])
def test_a_session_goes_on_without_the_region(
    guarded: Standin, children: list[str], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    assert backends.choose(Options(backend="e5rt")) == "e5rt"
    monkeypatch.setattr(guard, "TIME_LIMIT", 2.0)
    monkeypatch.setenv("STANDIN_FAULT", f"e5_compiler_compile={fault}")
    for _ in range(2):
        made = session(small(), {"backend": "e5rt"})
        report = aneforge.provider.report(made)
        assert report.regions == ()
        assert {n.kind for n in report.nodes} == {"compile"}
        assert all("child process" in str(n.reason) or "within 2 s" in str(n.reason) or "InvalidMIL" in str(n.reason)
                   for n in report.nodes)  # fmt: skip
        assert set(placement(made)) == {"CPUExecutionProvider"}
        x = floats(2, 3)
        close(made.run(None, {"x": x})[0], reference(small(), {"x": x})[0])
    assert 1 <= len(children) <= 3  # the region, and its halves; none of them twice
    with pytest.raises(Exception, match=r"(?s)strict=1"):
        session(small(), {"backend": "e5rt", "strict": "1"})


def test_what_says_nothing_about_a_program_is_not_remembered(
    guarded: Standin, children: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert backends.choose(Options(backend="e5rt")) == "e5rt"
    for fault in ("buffer_object_alloc=fail", "execution_stream_create=throw"):
        monkeypatch.setenv("STANDIN_FAULT", fault)
        with pytest.raises(CompileError, match=fault.partition("=")[0]):
            af.load_onnx(small(), backend="e5rt")
        assert kept() == []
    monkeypatch.setattr(guard, "interpreter", lambda: "/bin/false")  # a child that ends before it begins
    with pytest.raises(CompileError, match="ended with 1"):
        af.load_onnx(small(), backend="e5rt")
    assert kept() == []
    assert children == ["failed"] * 3


def test_of_many_who_want_a_program_one_tries(guarded: Standin, children: list[str]) -> None:
    failures: list[BaseException] = []

    def load() -> None:
        try:
            with af.load_onnx(small(), backend="e5rt"):
                pass
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert children == ["compiled"]


def test_without_an_interpreter(guarded: Standin, children: list[str], caplog: pytest.LogCaptureFixture) -> None:
    given = spawn.get_executable()
    spawn.set_executable("/Applications/Editor.app/Contents/MacOS/Editor")
    try:
        with caplog.at_level(logging.INFO, "aneforge.backends"), af.load_onnx(small(), backend="e5rt"):
            assert "no Python interpreter" in caplog.text
        with pytest.raises(CompileError, match=r"multiprocessing\.set_executable"):
            af.load_onnx(small(), backend="e5rt", compile_guard="on")
    finally:
        spawn.set_executable(given)
    assert children == []


def test_a_folder_that_is_no_folder(guarded: Standin, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    x = input("x", (2, 3))
    mil = write(Program([("x", x)], [("y", relu(x))]))
    with pytest.raises(CompileError, match="cannot be kept"):
        guard.admit(mil, resolve("m1"), "auto", Cache(tmp_path / "file"))


# ---------------------------------------------------------------- the pace


def test_the_next_compilation_waits_after_a_failure(guarded: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    assert backends.choose(Options(backend="e5rt")) == "e5rt"
    slept: list[float] = []
    monkeypatch.setattr(pace, "SECONDS", 15.0)
    monkeypatch.setattr(pace, "time", SimpleNamespace(time=time.time, sleep=slept.append))
    with af.load_onnx(small(), backend="e5rt"):
        assert slept == []
    monkeypatch.setenv("STANDIN_FAULT", "e5_compiler_compile=fail")
    with pytest.raises(CompileError):
        af.load_onnx(cnn(), backend="e5rt")
    assert slept == []
    with pytest.raises(CompileError, match="earlier time"):  # remembered: nothing is compiled, nobody waits
        af.load_onnx(cnn(), backend="e5rt")
    assert slept == []
    monkeypatch.delenv("STANDIN_FAULT")
    with af.load_onnx(small(), backend="e5rt", compile_guard="on"):
        assert len(slept) == 1
    assert 14 < slept[0] <= 15
    with af.load_onnx(small(), backend="e5rt", compile_guard="on"):  # a success ends it
        assert len(slept) == 1
    guarded.fail("e5_compiler_compile", 1)  # in this process
    with pytest.raises(CompileError):
        af.load_onnx(small(), backend="e5rt")
    with af.load_onnx(small(), backend="e5rt"):
        assert len(slept) == 2
    mark = Cache().root / "locks"
    assert not list(mark.glob("e5rt-failed-*"))
    pace.failed(Cache())
    (made,) = mark.glob("e5rt-failed-*")
    os.utime(made, (time.time() - 60, time.time() - 60))
    pace.wait(Cache())
    os.utime(made, (time.time() + 600, time.time() + 600))  # a clock that was set back is no reason to wait for ever
    pace.wait(Cache())
    assert slept[2:] == [15.0]


# ---------------------------------------------------------------- the probe


@pytest.fixture
def a_mac(guarded: Standin, monkeypatch: pytest.MonkeyPatch) -> Standin:
    monkeypatch.setattr(backends, "on_apple_silicon", lambda: True)
    return guarded


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("e5_compiler_compile=crash", "crashed a child process"),
        ("e5_compiler_compile=hang", "did not end"),
        ("e5_compiler_compile=fail", "failed with status 7"),
        ("execution_stream_execute_sync=fail", "failed with status 7"),
        ("execution_stream_execute_sync=crash", "crashed a child process"),
        ("", "wrong values"),
    ],
)
def test_a_mac_whose_engine_is_not_to_be_trusted(
    a_mac: Standin, monkeypatch: pytest.MonkeyPatch, fault: str, says: str
) -> None:
    """Sessions live on the CPU, with one warning and a reason for every node; who asks for the engine is told."""
    monkeypatch.setattr(guard, "TIME_LIMIT", 2.0)
    monkeypatch.setenv("STANDIN_FAULT", fault)
    if not fault:
        monkeypatch.setattr(
            guard, "attempt", lambda *given: guard.Outcome("compiled", "", (np.full(120, 0.25, np.float64),))
        )
    made = session(cnn())
    report = aneforge.provider.report(made)
    assert ["everything runs on the CPU" in text for text in report.warnings] == [True]
    assert (report.backend, report.regions) == ("CPU", ())
    assert all(says in str(n.reason) for n in report.nodes)
    assert set(placement(made)) == {"CPUExecutionProvider"}
    close(made.run(None, {"x": X})[0], reference(cnn(), {"x": X})[0])
    for options in ({"backend": "e5rt"}, {"strict": "1"}):
        with pytest.raises(Exception, match=f"(?s)backend 'e5rt'.*{says}"):
            session(cnn(), options)
    with pytest.raises(BackendUnavailableError, match=says):
        af.load_onnx(cnn())
    assert kept(probe.KIND) == []
    assert a_mac.calls("e5_compiler_compile") == 0


def test_a_mac_that_was_probed(a_mac: Standin) -> None:
    made = session(cnn())
    assert aneforge.provider.report(made).backend == "ANE"
    del made
    assert kept(probe.KIND) == ["compiled"]
