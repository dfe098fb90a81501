"""Every call of the engine's runtime failing in turn: one clear error or the CPU, and nothing left."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from standin import Standin

import aneforge as af
import aneforge.provider
from aneforge import backends, ops
from aneforge.errors import CompileError
from aneforge.ir import Program, const, input
from aneforge.mil import write
from aneforge.selfcheck.symbols import REQUIRED
from aneforge.targets import resolve
from tests.backends.engine_kit import ENGINE, NEEDS_THE_STANDIN, agree, child, compiled
from tests.provider.graphs import close, cnn, floats, interrupted, model, node, placement, reference, session

pytestmark = NEEDS_THE_STANDIN

WHAT = {"fail": "failed with status 7: standin: told to fail", "throw": "threw an exception"}
RELEASES = [name for name in REQUIRED if name.endswith("_release")]
EXECUTE = "execution_stream_execute_sync"
OTHERS = [name for name in REQUIRED if name not in (*RELEASES, EXECUTE)]
FEEDS = {"a": floats(2, 3), "b": floats(2, 3, seed=1)}
LIFE = Counter(dict.fromkeys(REQUIRED, 1)) + Counter(
    {
        **dict.fromkeys((f"execution_stream_operation_retain_{way}_port" for way in ("input", "output")), 1),
        **dict.fromkeys(("buffer_object_alloc", "buffer_object_get_data_ptr", "io_port_bind_buffer_object"), 3),
        **dict.fromkeys(("io_port_release", "buffer_object_release"), 3),
    }
)
"""How often each function is called in one life of pair's region of two inputs and two outputs, with one run."""


def pair() -> onnx.ModelProto:
    nodes = [node("Add", "a b", "s"), node("Exp", "s", "e")]
    return model(nodes, {"a": [2, 3], "b": [2, 3]}, {"e": [2, 3], "s": [2, 3]})


def test_one_life(standin: Standin) -> None:
    with af.load_onnx(pair(), backend="e5rt") as net:
        agree(list(net.run(FEEDS).values()), reference(pair(), FEEDS))
    assert {name: standin.calls(name) for name in REQUIRED} == LIFE
    assert len(LIFE) == 31


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("name", OTHERS)
def test_strict(standin: Standin, tmp_path: Path, name: str, what: str) -> None:
    """Each of its calls in one life: loading raises, once and with the runtime's own words."""
    for nth in range(1, LIFE[name] + 1):
        standin.reset()
        standin.fail(name, nth, what)
        with pytest.raises(CompileError, match=f"e5rt_{name} {WHAT[what]}") as caught:
            af.load_onnx(pair(), backend="e5rt")
        assert str(caught.value).count("e5rt_") == 1
        assert standin.misuse() == ""
        assert standin.live() == 0
        assert standin.files(tmp_path) == []


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("name", OTHERS)
def test_a_session_falls_back_with_a_reason(standin: Standin, tmp_path: Path, name: str, what: str) -> None:
    standin.fail(name, 0, what)  # for the halves that are tried after it, too
    made = session(pair(), {"backend": "e5rt"})
    report = aneforge.provider.report(made)
    assert report.regions == ()
    reasons = [str(n.reason) for n in report.nodes if n.kind == "compile"]
    assert reasons
    assert all(f"e5rt_{name} {WHAT[what]}" in reason for reason in reasons)
    assert set(placement(made)) == {"CPUExecutionProvider"}
    agree(made.run(None, FEEDS), reference(pair(), FEEDS))
    assert standin.misuse() == ""
    assert standin.live() == 0
    assert standin.files(tmp_path) == []


@pytest.mark.parametrize("name", ["e5_compiler_compile", "execution_stream_encode_operation"])
def test_a_strict_session_raises(standin: Standin, name: str) -> None:
    standin.fail(name, 0)
    with pytest.raises(Exception, match=f"(?s)strict=1.*e5rt_{name} failed"):
        session(cnn(), {"backend": "e5rt", "strict": "1"})


@pytest.mark.parametrize("what", WHAT)
def test_a_run_that_fails_is_an_error_and_the_next_is_as_good_as_any(standin: Standin, what: str) -> None:
    expected = reference(pair(), FEEDS)
    with af.load_onnx(pair(), backend="e5rt") as net:
        standin.fail(EXECUTE, 1, what)
        with pytest.raises(RuntimeError, match=f"e5rt_{EXECUTE} {WHAT[what]}"):
            net.run(FEEDS)
        agree(list(net.run(FEEDS).values()), expected)
    made = session(pair(), {"backend": "e5rt"})
    standin.fail(EXECUTE, 1, what)
    with pytest.raises(Exception, match=f"e5rt_{EXECUTE} {WHAT[what]}"):
        made.run(None, FEEDS)
    agree(made.run(None, FEEDS), expected)
    del made


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("name", RELEASES)
def test_a_release_that_fails_loses_that_handle_and_nothing_more(
    standin: Standin, tmp_path: Path, name: str, what: str
) -> None:
    expected = reference(pair(), FEEDS)
    standin.fail(name, 0, what)
    with af.load_onnx(pair(), backend="e5rt") as net:
        agree(list(net.run(FEEDS).values()), expected)
    assert (standin.lost(), standin.live()) == (LIFE[name], LIFE[name])
    made = session(pair(), {"backend": "e5rt"})
    assert len(aneforge.provider.report(made).regions) == 1
    agree(made.run(None, FEEDS), expected)
    del made
    assert (standin.lost(), standin.live()) == (2 * LIFE[name], 2 * LIFE[name])
    assert standin.calls(name) == 2 * LIFE[name]  # each tried once: nobody knows what a second try would do
    assert standin.files(tmp_path) == []
    assert standin.misuse() == ""
    standin.reset()


def test_operations_that_cannot_be_released_use_the_process_up(standin: Standin) -> None:
    standin.most_programs(5)
    standin.fail("execution_stream_operation_release", 0)
    for k in range(5):
        compiled(k).release()
    with pytest.raises(CompileError, match=r"status 13.*Must re-compile the E5 bundle"):
        compiled()
    assert standin.live() == standin.lost() == 5
    standin.reset()


@pytest.mark.parametrize("what", WHAT)
def test_a_process_ends_well_whatever_its_releases_do(
    standin: Standin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("STANDIN_FAULT", ";".join(f"{name}={what}" for name in RELEASES))
    child("keep = net")
    assert standin.files(tmp_path) == []
    monkeypatch.delenv("STANDIN_FAULT")


# ---------------------------------------------------------------- files that are cut short


def weighted() -> backends.Executable:
    x = input("x", (2, 16))
    weights = [const(floats(16, 16, seed=s).astype(np.float16)) for s in range(3)]
    y = x
    for weight in weights:
        y = ops.matmul(y, weight)
    return backends.compile(write(Program([("x", x)], [("y", y)])), ENGINE, resolve("m1"))


@pytest.mark.parametrize("which", ["truncate_text", "truncate_blob"])
def test_a_file_cut_anywhere(standin: Standin, tmp_path: Path, which: str) -> None:
    """Whatever part of it the compiler finds: refused in one sentence."""
    for part in [i / 20 for i in range(20)] + [0.996]:
        standin.reset()
        standin.fail("e5_compiler_compile", 1, f"{which}:{part}")
        with pytest.raises(
            CompileError, match="e5rt_e5_compiler_compile failed with status 11: InvalidMILProgram"
        ) as caught:
            weighted()
        assert str(caught.value).count("InvalidMILProgram") == 1, part
        assert standin.live() == 0
        assert standin.files(tmp_path) == []
    program = weighted()  # and the whole of it compiles
    program.release()


@pytest.mark.parametrize("which", ["truncate_text", "truncate_blob"])
def test_a_session_whose_file_is_cut(standin: Standin, which: str) -> None:
    standin.fail("e5_compiler_compile", 0, which)
    made = session(cnn(), {"backend": "e5rt"})
    report = aneforge.provider.report(made)
    assert report.regions == ()
    assert any("InvalidMILProgram" in str(n.reason) for n in report.nodes)
    x = floats(1, 3, 8, 8)
    close(made.run(None, {"x": x})[0], reference(cnn(), {"x": x})[0])
    assert standin.live() == 0


# ---------------------------------------------------------------- no room


def test_no_room_at_all_stands_in_the_report(standin: Standin) -> None:
    standin.most_programs(0)
    with pytest.raises(CompileError, match="Must re-compile the E5 bundle"):
        compiled()
    made = session(interrupted(), {"backend": "e5rt"})
    report = aneforge.provider.report(made)
    assert report.regions == ()
    reasons = [n.reason for n in report.nodes if n.kind == "compile"]
    assert reasons
    assert any("Must re-compile the E5 bundle" in str(reason) for reason in reasons)
    assert set(placement(made)) == {"CPUExecutionProvider"}
    x = floats(2, 4, 4)
    close(made.run(None, {"x": x})[0], reference(interrupted(), {"x": x})[0])


def test_the_129th_program(standin: Standin) -> None:
    """Others hold all but five of what a process may load: ours take turns, though there are not 96 of them."""
    standin.most_programs(5)
    x = np.zeros((2, 3), np.float32)
    programs = [compiled(k) for k in range(8)]
    assert standin.loaded() == 5
    for _ in range(2):
        for k, program in enumerate(programs):
            assert np.all(program.run([x])[0] == k)
            assert standin.loaded() <= 5
    made = session(pair(), {"backend": "e5rt"})
    assert len(aneforge.provider.report(made).regions) == 1
    agree(made.run(None, FEEDS), reference(pair(), FEEDS))
    assert standin.calls("e5_compiler_compile") == 9  # a program that comes back is not compiled again
    del made
    for program in programs:
        program.release()


def test_others_take_what_was_ours(standin: Standin) -> None:
    """Room for three is left where ten were loaded: ours go, at most twice as many as must, and with few attempts."""
    x = np.zeros((2, 3), np.float32)
    programs = [compiled(k) for k in range(10)]
    for program in programs:
        program.run([x])
    standin.most_programs(3)
    name = "execution_stream_operation_create_precompiled_compute_operation_with_options"
    before = standin.calls(name)
    programs.append(compiled(10))
    assert standin.calls(name) - before == 5  # makes room for 1, 2, 4 and the last 3
    for k, program in enumerate(programs):
        assert np.all(program.run([x])[0] == k)
        assert standin.loaded() <= 3
        program.release()


def test_a_program_that_never_loads_is_an_error_and_harms_no_other(standin: Standin) -> None:
    x = np.zeros((2, 3), np.float32)
    programs = [compiled(k) for k in range(6)]
    standin.fail("execution_stream_operation_create_precompiled_compute_operation_with_options", 0)
    with pytest.raises(CompileError, match="told to fail in execution_stream_operation_create"):
        compiled(9)
    with pytest.raises(RuntimeError, match="told to fail in execution_stream_operation_create"):
        programs[0].run([x])
    standin.reset()
    for k, program in enumerate(programs):
        assert np.all(program.run([x])[0] == k)
        program.release()


# ---------------------------------------------------------------- a compiler that dies, a disk that is full


@pytest.mark.full
@pytest.mark.parametrize("name", [*OTHERS, *RELEASES])
def test_a_crash_in_any_call_is_a_refusal(
    guarded: Standin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The guard's child dies in it; this process makes no call at all."""
    assert backends.choose(ENGINE) == "e5rt"  # the machine was fine when it was probed
    guarded.reset()
    monkeypatch.setenv("STANDIN_FAULT", f"{name}=crash")
    with pytest.raises(CompileError, match=r"crashed a child process \(signal 11\)"):
        compiled()
    assert guarded.calls() == 0
    made = session(pair(), {"backend": "e5rt"})
    assert aneforge.provider.report(made).regions == ()
    agree(made.run(None, FEEDS), reference(pair(), FEEDS))
    assert guarded.files(tmp_path) == []


def test_a_disk_that_is_full(standin: Standin, tmp_path: Path) -> None:
    """No file of more than 200 bytes: the program's text is cut there, by the system."""
    body = """
import resource
from aneforge.cache import Cache
from aneforge.errors import CompileError
resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
try:
    af.compile(x + 2.0, backend="e5rt", compile_guard="off")
except CompileError as error:
    assert "the engine's compiler needs a file" in str(error) and "File too large" in str(error), error
else:
    raise SystemExit("compiled")
assert len(list(Cache().work.glob("*/*"))) == 3  # those of the program that is there: nothing of this one
"""
    child(body)
    assert standin.files(tmp_path) == []


def test_a_folder_that_cannot_be_written(standin: Standin, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = {"backend": "e5rt", "cache_dir": str(tmp_path / "file" / "cache")}
    with pytest.raises(CompileError, match="the engine's compiler needs a file"):
        af.load_onnx(pair(), **place)
    made = session(pair(), place)
    report = aneforge.provider.report(made)
    assert report.regions == ()
    assert any("the engine's compiler needs a file" in str(n.reason) for n in report.nodes)
    agree(made.run(None, FEEDS), reference(pair(), FEEDS))
    assert standin.calls() == 0
