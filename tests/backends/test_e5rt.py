"""The engine's road, walked over the stand-in: both roads' results, every call failing in turn, and nothing left."""

import os
import re
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from standin import COMPILER, Standin

import aneforge as af
import aneforge.provider
from aneforge import backends, ops
from aneforge.cache import Cache
from aneforge.errors import CompileError
from aneforge.ir import Program, const, input
from aneforge.mil import write
from aneforge.options import Options
from aneforge.targets import resolve
from tests.provider.graphs import close, cnn, floats, interrupted, model, node, placement, reference, session

pytestmark = [
    pytest.mark.skipif(not COMPILER or sys.platform != "linux", reason="needs a C++ compiler on Linux"),
    pytest.mark.filterwarnings("ignore::aneforge.errors.DispatchFloorWarning"),
]
X = floats(1, 3, 8, 8, seed=7)
ENGINE = Options(backend="e5rt")


def small(k: float = 0.5) -> Program:
    x = input("x", (2, 3))
    return Program([("x", x)], [("y", ops.add(ops.relu(x), k))])


def compiled(k: float = 0.5) -> backends.Executable:
    return backends.compile(write(small(k)), ENGINE, resolve("m1"))


def several() -> onnx.ModelProto:
    return model(
        [node("Add", "a b", "s"), node("Greater", "a b", "g"), node("Exp", "s", "e")],
        {"a": [2, 3], "b": [2, 3]},
        {"e": [2, 3], "g": [2, 3], "s": [2, 3]},
        types={"g": 9},
    )


def image() -> onnx.ModelProto:
    scale = np.float32([1 / 255])
    return model(
        [
            node("Cast", "x", "f", to=1),
            node("Mul", "f k", "m"),
            node("Conv", "m w", "c", pads=[1, 1, 1, 1]),
            node("Relu", "c", "y"),
        ],
        {"x": [1, 3, 9, 7]},
        {"y": [1, 4, 9, 7]},
        {"k": scale, "w": floats(4, 3, 3, 3, seed=3)},
        types={"x": 2},
    )


def masked() -> onnx.ModelProto:
    return model(
        [node("Where", "m x z", "w"), node("Softmax", "w", "y", axis=-1), node("Not", "m", "n")],
        {"m": [2, 5], "x": [2, 5]},
        {"y": [2, 5], "n": [2, 5]},
        {"z": np.float32([-3])},
        types={"m": 9, "n": 9},
    )


CASES = {
    "cnn": (cnn, {"x": X}),
    "several outputs": (several, {"a": floats(2, 3), "b": floats(2, 3, seed=1)}),
    "bytes": (image, {"x": np.random.default_rng(1).integers(0, 256, (1, 3, 9, 7), np.uint8)}),
    "bools": (masked, {"m": floats(2, 5) > 0, "x": floats(2, 5, seed=2)}),
}


def agree(got: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for g, e in zip(got, expected, strict=True):
        assert g.dtype == e.dtype
        if e.dtype == bool:
            assert np.array_equal(g, e)
        else:
            close(g, e)


@pytest.mark.parametrize("case", CASES)
def test_strict(standin: Standin, case: str) -> None:
    make, feeds = CASES[case]
    expected = reference(make(), feeds)
    with af.load_onnx(make(), backend="e5rt") as net:
        assert net.backend == "ANE"
        for _ in range(3):
            agree(list(net.run(feeds).values()), expected)
        assert standin.loaded() == 1
    assert standin.calls("e5_compiler_compile") == 1
    assert standin.calls("execution_stream_execute_sync") == 3


def test_where_the_compilers_files_stand(standin: Standin, tmp_path: Path) -> None:
    net = af.load_onnx(cnn(), backend="e5rt", cache_dir=str(tmp_path / "mine"))
    (folder,) = Cache(tmp_path / "mine").work.iterdir()
    assert folder.name.startswith(f"{os.getpid()}-")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {p.name for p in folder.iterdir()} == {"model.mil", "weights.bin", "cache"}
    net.release()
    assert not folder.exists()


@pytest.mark.parametrize("case", CASES)
def test_session(standin: Standin, case: str) -> None:
    make, feeds = CASES[case]
    made = session(make(), {"backend": "e5rt"})
    report = aneforge.provider.report(made)
    assert report.backend == "ANE"
    assert len(report.regions) >= 1
    agree(made.run(None, feeds), reference(make(), feeds))
    assert standin.calls("execution_stream_execute_sync") == len(report.regions)
    del made


@pytest.mark.parametrize("how", ["int8", "int4", "sparse", "blockwise", "auto"])
def test_packed_weights(standin: Standin, how: str) -> None:
    """The engine's road gives what the host gives with the same packed weights."""
    weight = np.where(floats(64, 96, seed=4) > 0.3, floats(64, 96, seed=5), 0)
    made = model([node("MatMul", "x w", "m"), node("Relu", "m", "y")], {"x": [3, 64]}, {"y": [3, 96]}, {"w": weight})
    feeds = {"x": floats(3, 64, seed=6)}
    options = {"compress": how, "compress_atol": "0.2"}
    (want,) = session(made, {**options, "backend": "host"}).run(None, feeds)
    engine = session(made, {**options, "backend": "e5rt"})
    (region,) = aneforge.provider.report(engine).regions
    assert (region.where, region.weights[0].encoding) == ("ANE", "int4" if how == "auto" else how)
    close(engine.run(None, feeds)[0], want)
    del engine


def test_blocks_as_an_operand_are_refused(standin: Standin) -> None:
    x = input("x", (2, 8))
    weight = ops.constexpr_blockwise_shift_scale(const(np.ones((4, 8), np.int8)), const(np.ones((4, 2), np.float16)))
    program = Program([("x", x)], [("y", ops.matmul(x, weight, False, True))])
    with pytest.raises(CompileError, match="blockwise"):
        backends.compile(write(program), ENGINE, resolve("m4"))


def test_a_changed_constant_in_the_text_changes_the_answer(standin: Standin) -> None:
    x = np.zeros((2, 3), np.float32)
    for k in (0.5, 0.75):
        program = compiled(k)
        assert np.all(program.run([x])[0] == np.float16(k))
        program.release()


def test_ports(standin: Standin) -> None:
    program = compiled()
    base = np.array([[1e9, -2, 65519], [0.1, np.inf, 3]], np.float64)
    expected = np.maximum(np.where(np.isinf(base), base, np.clip(base, -65504, 65504)), 0).astype(
        np.float16
    ) + np.float16(0.5)
    for dtype in (np.float32, np.float64):
        (got,), events = program.execute([base.astype(dtype)])
        assert np.array_equal(got, expected)
        assert events.saturated_inputs == (0,)
        assert events.nonfinite_outputs == ()
    whole = np.array([[1, 0, 255], [3, 4, 5]])
    for dtype in ("?", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2"):
        for out in ("f2", "f4", "f8", "i4", "u1", "?"):
            (got,), events = program.execute([whole.astype(dtype)], [np.dtype(out)])
            wide = whole.astype(dtype).astype(np.float64) + 0.5
            assert np.array_equal(got, wide.astype(np.float16).astype(out)), (dtype, out)
            assert not events
    with pytest.raises(ValueError, match="shape"):
        program.run([np.zeros((3, 2), np.float32)])
    with pytest.raises(ValueError, match="1 inputs"):
        program.run([])
    assert "Neural Engine" in program.describe()
    program.release()


def test_the_conversion_is_that_of_numpy_for_every_half(standin: Standin) -> None:
    """All halves out, and floats beside every half in; more than a task of them, which ends within a vector."""
    x = input("x", (5, 13108))
    program = backends.compile(write(Program([("x", x)], [("y", ops.mul(x, 1.0))])), ENGINE, resolve("m4"))
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    values = np.append(halves, np.ones(4, np.float16)).astype(np.float32).reshape(5, 13108)
    values = np.where(np.isfinite(values), values, 0)
    for shift in (0.0, 0.3, -0.3):
        given = (values * np.float32(1 + shift * 2**-10)).astype(np.float32)
        (got,) = program.run([given], [np.float32])
        assert np.array_equal(got, np.clip(given, -65504, 65504).astype(np.float16).astype(np.float32))
    program.release()


# ---------------------------------------------------------------- failures


def trace(standin: Standin) -> dict[str, int]:
    """How often each function is called in one life of a program."""
    text = (Path(__file__).parents[1] / "standin" / "standin.cc").read_text()
    names = sorted(set(re.findall(r"\be5rt_(\w+)\(|(?:SETTER|RELEASE)\((\w+),", text)))
    found = [a or b for a, b in names]
    program = compiled()
    program.run([np.zeros((2, 3), np.float32)])
    program.release()
    return {name: n for name in found if (n := standin.calls(name))}


def test_every_call_failing_in_turn(standin: Standin, tmp_path: Path) -> None:
    calls = trace(standin)
    assert len(calls) == 31
    x = np.zeros((2, 3), np.float32)
    for name, count in calls.items():
        if name.endswith("_release"):
            continue
        for nth in range(1, count + 1):
            standin.reset()
            standin.fail(name, nth)
            if name == "execution_stream_execute_sync":
                program = compiled()
                with pytest.raises(RuntimeError, match=f"e5rt_{name} failed with status 7: standin: told to fail"):
                    program.run([x])
                assert np.all(program.run([x])[0] == np.float16(0.5))  # the next run is as good as any
                program.release()
            else:
                with pytest.raises(CompileError, match=f"e5rt_{name} failed with status 7: standin: told to fail"):
                    compiled()
            assert standin.misuse() == ""
            assert standin.live() == 0, name
            assert standin.files(tmp_path) == [], name


@pytest.mark.parametrize("name", ["e5_compiler_compile", "buffer_object_alloc", "execution_stream_encode_operation"])
def test_a_session_falls_back_with_a_reason(standin: Standin, name: str) -> None:
    standin.fail(name, 0)
    made = session(cnn(), {"backend": "e5rt"})
    report = aneforge.provider.report(made)
    assert report.regions == ()
    assert any(f"e5rt_{name} failed with status 7" in str(n.reason) for n in report.nodes)
    close(made.run(None, {"x": X})[0], reference(cnn(), {"x": X})[0])
    assert standin.live() == 0
    with pytest.raises(Exception, match=f"(?s)strict=1.*e5rt_{name} failed"):
        session(cnn(), {"backend": "e5rt", "strict": "1"})


def test_what_fails_stands_in_the_report(standin: Standin) -> None:
    standin.most_programs(0)
    made = session(interrupted(), {"backend": "e5rt"})
    report = aneforge.provider.report(made)
    assert report.regions == ()
    reasons = [n.reason for n in report.nodes if n.kind == "compile"]
    assert reasons
    assert any("Must re-compile the E5 bundle" in str(reason) for reason in reasons)
    assert set(placement(made)) == {"CPUExecutionProvider"}
    x = floats(2, 4, 4)
    close(made.run(None, {"x": x})[0], reference(interrupted(), {"x": x})[0])


def test_an_error_while_running_is_the_sessions(standin: Standin) -> None:
    made = session(cnn(), {"backend": "e5rt"})
    standin.fail("execution_stream_execute_sync")
    with pytest.raises(Exception, match="told to fail in execution_stream_execute_sync"):
        made.run(None, {"x": X})
    close(made.run(None, {"x": X})[0], reference(cnn(), {"x": X})[0])
    del made


def test_ports_that_the_engine_has_not_are_refused_before_any_call(standin: Standin) -> None:
    mil = write(small(), "fp32")
    module = backends.native.load()
    with pytest.raises(NotImplementedError, match="'x0' of type fp32; ports are fp16"):
        module.compile("e5rt", mil.text, mil.blob, {})
    with pytest.raises(ValueError, match="unknown option 'quirks'"):
        module.compile("e5rt", mil.text, mil.blob, {"quirks": ""})
    with pytest.raises(RuntimeError, match="line 1"):
        module.compile("e5rt", "program(", b"", {})
    assert standin.calls() == 0


HEAD = 'program(1.3)\n[buildInfo = dict<string, string>({{"coremlc-version", "3520.5.1"}})]\n{\n'


@pytest.mark.parametrize(
    ("family", "shape", "body", "says"),
    [
        ("A14", "[1, 4]", 'tensor<fp16, [1, 4]> y = sin(x = x)[name = string("y")];', "Some ops are not supported"),
        ("A15", "[1, 4]", 'tensor<fp16, [1, 4]> y = sin(x = x)[name = string("y")];', ""),
        ("A15", "[1, 16385]", 'tensor<fp16, [1, 16385]> y = relu(x = x)[name = string("y")];', "not within supported"),
        ("A16", "[1, 16385]", 'tensor<fp16, [1, 16385]> y = relu(x = x)[name = string("y")];', ""),
        ("A16", "[1, 4]", 'tensor<fp16, [1, 4]> y = asinh(x = x)[name = string("y")];', "Some ops are not supported"),
        ("A16", "[1, 4]", 'tensor<fp16, [1, 5]> y = relu(x = x)[name = string("y")', "InvalidMILProgram"),
    ],
)
def test_what_the_compiler_refuses(
    family: str, shape: str, body: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in's worker alone, on text that our writer would not write."""
    monkeypatch.setenv("STANDIN_FAMILY", family)
    text = f"{HEAD}    func main<ios18>(tensor<fp16, {shape}> x) {{\n{body}\n    }} -> (y);\n}}\n"
    (tmp_path / "model.mil").write_text(text)
    (tmp_path / "weights.bin").write_bytes(b"")
    path = str(tmp_path / "model.mil").encode()
    worker = Path(__file__).parents[1] / "standin" / "worker.py"
    done = subprocess.run(
        [sys.executable, str(worker)],
        input=struct.pack("<II", 1, len(path)) + path,
        capture_output=True,
        check=True,
        timeout=100,
        env={**os.environ, "PYTHONPATH": str(worker.parents[1])},
    )
    status = struct.unpack_from("<I", done.stdout)[0]
    assert (status == 1) == bool(says)
    assert says in done.stdout[8:].decode()


# ---------------------------------------------------------------- budgets, threads, processes


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


CHILD = """
import os, sys
sys.path[:0] = {path!r}
import numpy as np
import aneforge as af
from aneforge.errors import AneforgeError
x = af.input((2, 3))
net = af.compile(x.relu(), backend="e5rt")
assert np.array_equal(net(np.full((2, 3), -1, np.float32)), np.zeros((2, 3)))
"""


def child(standin: Standin, body: str) -> str:
    path = [p for p in sys.path if p]
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(path=path) + body], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


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
    assert child(standin, body) == "ok\n"


def test_an_ending_process_leaves_nothing(standin: Standin, tmp_path: Path) -> None:
    body = """
import ctypes, atexit
library = ctypes.CDLL(os.environ["ANEFORGE_E5RT_LIBRARY"])
assert library.standin_live() > 0
keep = net  # never released
"""
    child(standin, body)
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
    child(standin, "")
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


# ---------------------------------------------------------------- long


@pytest.mark.full
def test_a_thousand_lives(standin: Standin, tmp_path: Path) -> None:
    for k in range(1000):
        compiled(float(k % 7)).release()
        assert standin.live() == 0
    assert standin.files(tmp_path) == []


@pytest.mark.full
def test_ten_thousand_runs(standin: Standin) -> None:
    program = compiled()
    handles = standin.live()
    for i in range(10_000):
        x = np.full((2, 3), i % 100, np.float32)
        assert np.all(program.run([x])[0] == np.float16(i % 100 + 0.5))
    assert standin.live() == handles
    program.release()
