"""Who runs a program, and what is said when nobody can."""

import numpy as np
import pytest
from oracle.mil_reference import evaluate

from aneforge import backends, ops
from aneforge.backends import executable as executables
from aneforge.backends import host, native
from aneforge.errors import BackendUnavailableError, CompileError, InternalError, OptionError
from aneforge.ir import Program, input
from aneforge.mil import write
from aneforge.options import Options
from aneforge.targets import resolve


def program() -> Program:
    x = input("x", (2, 3))
    return Program([("x", x)], [("y", ops.add(ops.relu(x), 0.5))])


@pytest.fixture
def elsewhere(monkeypatch):
    monkeypatch.setattr(backends, "on_apple_silicon", lambda: False)


@pytest.fixture
def apple(monkeypatch):
    """An Apple machine as far as Python can tell, on which the engine's runtime does not open."""
    monkeypatch.setenv(backends.e5rt.LIBRARY, "/nowhere/libe5rt.so")
    for module in (backends, backends.e5rt, backends.coreml):
        monkeypatch.setattr(module, "on_apple_silicon", lambda: True)


def test_auto_off_apple(elsewhere):
    assert backends.choose(Options()) == "host"
    assert backends.word(Options()) == "host emulation"
    for name in ("e5rt", "coreml"):
        with pytest.raises(BackendUnavailableError, match="needs macOS on Apple silicon"):
            backends.choose(Options(backend=name))


def test_auto_on_apple_is_never_the_host(apple, monkeypatch):
    for name in ("auto", "e5rt"):
        with pytest.raises(BackendUnavailableError, match=r"does not open.*; use backend='host'"):
            backends.choose(Options(backend=name))
    assert backends.choose(Options(backend="coreml")) == "coreml"
    assert backends.word(Options(backend="coreml")) == "Core ML (CPU and ANE)"
    monkeypatch.setattr(backends.coreml.platform, "mac_ver", lambda: ("14.7.1", ("", "", ""), "arm64"))
    with pytest.raises(BackendUnavailableError, match="needs macOS 15"):
        backends.choose(Options(backend="coreml"))
    assert backends.choose(Options(backend="host")) == "host"


def test_fp32_is_for_the_host_alone(apple):
    for name in ("auto", "e5rt", "coreml"):
        with pytest.raises(OptionError, match="fp32"):
            backends.choose(Options(backend=name, numerics="fp32"))
    assert backends.choose(Options(backend="host", numerics="fp32")) == "host"


def test_mixed_numerics():
    with pytest.raises(InternalError, match="numerics"):
        backends.compile(write(program(), "fp16"), Options(backend="host"), resolve("m1"))


class FakeProgram:
    address = 4096
    released = False

    def run(self, arrays, dtypes, threads):
        self.threads = threads
        return [np.zeros((2, 3), d) for d in dtypes], {"saturated_inputs": [0], "nonfinite_outputs": []}

    def describe(self):
        return "fake"

    def release(self):
        self.released = True


class FakeModule:
    def __init__(self):
        self.calls = []

    def compile(self, *arguments):
        self.calls.append(arguments)
        if "softmax" in arguments[1]:
            raise NotImplementedError("no softmax today")
        return FakeProgram()


@pytest.fixture
def fake(monkeypatch):
    module = FakeModule()
    monkeypatch.setattr(executables.native, "load", lambda: module)
    return module


def test_what_the_host_is_told(fake):
    for numerics, target, quirks in (
        ("engine", "m1", "Q04,Q06,Q08,Q10,Q11,Q12,Q13,Q14,Q15,Q17,Q21,Q26,Q41"),
        ("engine", "m4", "Q04,Q06,Q10,Q11,Q12,Q13,Q14,Q15,Q16,Q17,Q41"),
        ("fp16", "m1", None),
        ("fp32", "m1", None),
    ):
        mil = write(program(), numerics)
        executable = backends.compile(mil, Options(backend="host", numerics=numerics), resolve(target))
        name, text, blob, options = fake.calls[-1]
        assert (name, text) == ("host", mil.text)
        assert bytes(blob) == bytes(mil.blob)
        assert options == {"numerics": numerics} | ({} if quirks is None else {"quirks": quirks})
        (out,) = executable.run([np.zeros((2, 3))])
        assert out.dtype == (np.float32 if numerics == "fp32" else np.float16)


def test_executable(fake):
    executable = host.compile(write(program()), resolve("m1"))
    outputs, events = executable.execute([np.zeros((2, 3))], [np.float32], threads=1)
    assert outputs[0].dtype == np.float32
    assert executable._program.threads == 1
    assert events
    assert events.saturated_inputs == (0,)
    assert executable.handle == 4096
    assert executable.word == "host emulation"
    assert executable.describe() == "fake"
    assert [p.name for p in executable.inputs] == ["x"]
    executable.release()
    assert executable._program.released


def test_refused_programs(fake):
    x = input("x", (2, 3))
    mil = write(Program([("x", x)], [("y", ops.softmax(x))]))
    with pytest.raises(CompileError, match="no softmax today"):
        host.compile(mil, resolve("m1"))


def test_missing_library(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(native.importlib, "import_module", missing)
    native.load.cache_clear()
    try:
        with pytest.raises(BackendUnavailableError, match="install the package anew"):
            native.load()
    finally:
        native.load.cache_clear()


@pytest.mark.parametrize("numerics", ["engine", "fp16", "fp32"])
def test_real_host(numerics):
    if not native.library_path().exists():
        pytest.skip("the native library is not built")
    mil = write(program(), numerics)
    executable = backends.compile(mil, Options(backend="host", numerics=numerics), resolve("m4"))
    x = np.array([[1, -2, 3], [0.1, 1000, -0.5]], np.float32)
    (out,) = executable.run([x])
    expected = evaluate(mil.text, mil.blob, {"x0": x}, "fp32" if numerics == "fp32" else "fp16")["y0"]
    assert out.dtype == expected.dtype
    assert np.array_equal(out, expected)


class TestOutputsInPlace:
    """An array in the place of an element type is written to."""

    def executable(self):
        return backends.compile(write(program()), Options(backend="host"), resolve("m1"))

    @pytest.mark.parametrize("dtype", [np.float16, np.float32])
    def test_is_the_array_given(self, dtype):
        x, out = np.float32([[-1, 2, 3], [4, -5, 6]]), np.zeros((2, 3), dtype)
        (got,), _ = self.executable().execute([x], [out])
        assert got is out
        assert np.array_equal(out, (np.maximum(x, 0) + 0.5).astype(dtype))

    @pytest.mark.parametrize(
        ("out", "why"),
        [
            (np.zeros((3, 2), np.float32), "shape"),
            (np.zeros(6, np.float32), "shape"),
            (np.zeros((3, 2), np.float32).T, "contiguous"),
            (np.broadcast_to(np.float32(0), (2, 3)), "contiguous"),
        ],
    )
    def test_what_cannot_be_written_to(self, out, why):
        with pytest.raises(ValueError, match=why):
            self.executable().execute([np.zeros((2, 3), np.float32)], [out])
