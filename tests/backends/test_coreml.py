"""The backend "coreml" over a stand-in for the Objective-C runtime and Core ML (tests/native/coreml_standin.c): what it sends, how
it converts, what it keeps on disk, what it says when something fails. What a Mac computes is not judged here."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from oracle import package_text

import aneforge as af
from aneforge import backends, ops
from aneforge.backends import native
from aneforge.cache import Cache
from aneforge.errors import BackendUnavailableError, CompileError
from aneforge.ir import Program, input
from aneforge.mil import write
from aneforge.options import Options
from aneforge.targets import resolve
from tests.provider.graphs import model, node

SHAPE = (2, 3, 5)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not native.library_path().exists():
        pytest.skip("no C compiler, or the native library is not built")
    out = tmp_path_factory.mktemp("standin") / "standin.so"
    source = Path(__file__).parents[1] / "native" / "coreml_standin.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(out), str(source)], check=True)
    return out


@pytest.fixture
def counts(library, monkeypatch, tmp_path):
    """Live objects, open pools, wrong messages; compilations, loads, predictions so far."""
    monkeypatch.setenv("ANEFORGE_COREML_LIBRARY", str(library))
    monkeypatch.delenv("STANDIN_FAIL", raising=False)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))

    def read():
        out = (ctypes.c_long * 6)()
        ctypes.CDLL(str(library)).standin_counts(out)
        return list(out)

    return read


def relu(name="x", shape=SHAPE):
    x = input(name, shape)
    return write(Program([(name, x)], [("y", ops.relu(x))]))


def compiled(tmp_path, mil=None):
    options = Options(backend="coreml", cache_dir=str(tmp_path / "cache"))
    return backends.compile(mil or relu(), options, resolve("m1"))


def entries(tmp_path):
    found = [p.relative_to(tmp_path / "cache") for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    return sorted("/".join(p.parts[3:]) for p in found if p.parts[0] == "store"), [
        p for p in found if p.parts[0] == "work"
    ]


class TestRunning:
    def test_values_types_and_padded_rows(self, counts, tmp_path):
        before = counts()
        executable = compiled(tmp_path)
        assert executable.word == "Core ML (CPU and ANE)"
        assert executable.describe() == "Core ML, CPU and Neural Engine"
        for dtype in (np.float16, np.float32, np.float64):
            x = np.random.default_rng(1).standard_normal(SHAPE).astype(dtype)
            for out in (np.float16, np.float32, np.float64):
                (got,) = executable.run([x], [out])
                assert got.dtype == out
                assert np.array_equal(got, np.maximum(x.astype(np.float16), 0).astype(out))
        flags = np.arange(30).reshape(SHAPE) % 3 == 0
        assert np.array_equal(executable.run([flags], [np.bool_])[0], flags)
        numbers = np.arange(-15, 15, dtype=np.int64).reshape(SHAPE)
        assert np.array_equal(executable.run([numbers], [np.int64])[0], np.maximum(numbers, 0))
        assert np.array_equal(executable.run([numbers.astype(np.int8)], [np.uint8])[0], np.maximum(numbers, 0))
        executable.release()
        assert counts()[:3] == [before[0], 0, 0]  # every reference is given back, nothing was sent wrongly

    def test_port_events(self, counts, tmp_path):
        executable = compiled(tmp_path)
        x = np.zeros(SHAPE, np.float32)
        x[0, 0, :2] = (1e6, -1e6)
        (got,), events = executable.execute([x], [np.float32])
        assert got[0, 0, :2].tolist() == [65504, 0]
        assert (events.saturated_inputs, events.nonfinite_outputs) == ((0,), ())
        x[0, 0, 0] = np.inf
        (got,), events = executable.execute([x], [np.float32])
        assert got[0, 0, 0] == np.inf
        assert events.nonfinite_outputs == ()  # it came in

    def test_wrong_arrays(self, counts, tmp_path):
        executable = compiled(tmp_path)
        with pytest.raises(ValueError, match="input 'x' has another shape"):
            executable.run([np.zeros((2, 3, 4), np.float32)])
        with pytest.raises(ValueError, match="2 inputs for a program that has 1"):
            executable.run([np.zeros(SHAPE, np.float32)] * 2)

    def test_many_runs_leak_nothing(self, counts, tmp_path):
        executable = compiled(tmp_path)
        x = np.ones(SHAPE, np.float32)
        executable.run([x])
        before = counts()[0]
        for _ in range(500):
            executable.run([x])
        assert counts()[0] == before

    def test_strict_and_session(self, counts, tmp_path):
        made = model([node("Relu", "x", "y")], {"x": SHAPE}, {"y": SHAPE})
        options = {"backend": "coreml", "cache_dir": str(tmp_path / "cache")}
        x = np.random.default_rng(2).standard_normal(SHAPE).astype(np.float32)
        with af.load_onnx(made, **options) as net:
            assert net.backend == "Core ML (CPU and ANE)"
            assert np.array_equal(net(x), np.maximum(x.astype(np.float16), 0))
        import aneforge.provider  # noqa: PLC0415
        from tests.provider.graphs import session  # noqa: PLC0415

        run = session(made, {**options, "partition": "all"})
        assert aneforge.provider.report(run).backend == "Core ML (CPU and ANE)"
        assert np.array_equal(run.run(None, {"x": x})[0], np.maximum(x.astype(np.float16), 0))


class TestFiles:
    def test_compiled_once_and_loaded_from_its_place(self, counts, tmp_path):
        start = counts()
        compiled(tmp_path).release()
        compiled(tmp_path).release()
        after = counts()
        assert [a - b for a, b in zip(after[3:5], start[3:5], strict=True)] == [1, 2]
        names, work = entries(tmp_path)
        assert "program.mlmodelc/compiled" in names
        assert "program.mlpackage/Manifest.json" in names
        assert work == []
        assert list((tmp_path / "tmp").iterdir()) == []
        (row,) = Cache(tmp_path / "cache").rows()
        assert (row.kind, row.open) == ("coreml", False)
        package = package_text.read(tmp_path / "cache/store/coreml" / row.key / "program.mlpackage")
        assert package.inputs == [("x", "fp16", SHAPE)]

    def test_in_use_as_long_as_it_lives(self, counts, tmp_path):
        executable = compiled(tmp_path)
        assert Cache(tmp_path / "cache").rows()[0].open
        executable.release()
        assert not Cache(tmp_path / "cache").rows()[0].open

    def test_other_programs_have_other_places(self, counts, tmp_path):
        for mil in (relu(), relu(shape=(1, 3, 5))):
            compiled(tmp_path, mil).release()
        assert len(Cache(tmp_path / "cache").rows()) == 2

    def test_a_damaged_model_is_made_anew(self, counts, tmp_path):
        compiled(tmp_path).release()
        (kept,) = (tmp_path / "cache").rglob("compiled")
        kept.write_text("damaged")
        executable = compiled(tmp_path)
        assert np.array_equal(executable.run([np.ones(SHAPE)])[0], np.ones(SHAPE))
        (kept,) = (tmp_path / "cache").rglob("compiled")
        assert kept.read_text() == "compiled"


class TestFailures:
    @pytest.mark.parametrize(
        ("step", "says"),
        [
            ("compile", "Core ML did not compile the package: Error reading protobuf"),
            ("move", "cannot be kept: no space left"),
            ("load", "did not load the compiled model: Failed to load"),
        ],
    )
    def test_while_compiling(self, counts, tmp_path, monkeypatch, step, says):
        before = counts()[0]
        monkeypatch.setenv("STANDIN_FAIL", step)
        with pytest.raises(CompileError, match=says):
            compiled(tmp_path)
        assert counts()[:2] == [before, 0]
        assert list((tmp_path / "tmp").iterdir()) == []
        assert not Cache(tmp_path / "cache").rows()[0].open
        monkeypatch.delenv("STANDIN_FAIL")
        compiled(tmp_path).release()  # nothing of it stands in the way

    def test_while_running(self, counts, tmp_path, monkeypatch):
        executable = compiled(tmp_path)
        before = counts()[0]
        monkeypatch.setenv("STANDIN_FAIL", "predict")
        with pytest.raises(RuntimeError, match="Core ML did not run the model: Failed to evaluate"):
            executable.run([np.ones(SHAPE)])
        assert counts()[:2] == [before, 0]
        monkeypatch.delenv("STANDIN_FAIL")
        executable.run([np.ones(SHAPE)])

    def test_bytes_have_no_port(self, counts, tmp_path):
        x = input("x", (2, 2), "uint8")
        with pytest.raises(CompileError, match="no such port"):
            compiled(tmp_path, write(Program([("x", x)], [("y", ops.cast(x, "fp16"))])))
        assert entries(tmp_path)[0] == []


def test_elsewhere_it_says_what_can_be_done(monkeypatch):
    monkeypatch.delenv("ANEFORGE_COREML_LIBRARY", raising=False)
    monkeypatch.setattr(backends.coreml, "on_apple_silicon", lambda: False)
    with pytest.raises(BackendUnavailableError, match="aneforge export MODEL -o x"):
        backends.compile(relu(), Options(backend="coreml"), resolve("m1"))
