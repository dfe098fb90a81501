"""The engine's road, walked over the stand-in: both roads' results, ports, and what is refused."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from standin import Standin

import aneforge as af
import aneforge.provider
from aneforge import backends, ops
from aneforge.cache import Cache
from aneforge.errors import CompileError
from aneforge.ir import Program, const, input
from aneforge.mil import write
from aneforge.targets import resolve
from tests.backends.engine_kit import CASES, ENGINE, NEEDS_THE_STANDIN, agree, compiled, small
from tests.provider.graphs import close, cnn, floats, model, node, reference, session

pytestmark = NEEDS_THE_STANDIN


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


PAD = 'tensor<int32, [8]> p = const()[name = string("p"), val = tensor<int32, [8]>([{1}])];tensor<fp16, [{2}]> y = pad(constant_val = fp16(0x0p+0), mode = string("{0}"), pad = p, x = x)[name = string("y")];'


@pytest.mark.parametrize(
    ("family", "shape", "body", "says"),
    [
        ("A14", "[1, 4]", 'tensor<fp16, [1, 4]> y = sin(x = x)[name = string("y")];', "Some ops are not supported"),
        ("A15", "[1, 4]", 'tensor<fp16, [1, 4]> y = sin(x = x)[name = string("y")];', ""),
        ("A15", "[1, 16385]", 'tensor<fp16, [1, 16385]> y = relu(x = x)[name = string("y")];', "not within supported"),
        ("A16", "[1, 16385]", 'tensor<fp16, [1, 16385]> y = relu(x = x)[name = string("y")];', ""),
        ("A16", "[1, 4]", 'tensor<fp16, [1, 4]> y = asinh(x = x)[name = string("y")];', "Some ops are not supported"),
        ("A16", "[1, 4]", 'tensor<fp16, [1, 4]> y = tan(x = x)[name = string("y")];', "Some ops are not supported"),
        ("A16", "[1, 4]", 'tensor<fp16, [1, 4]> y = cumsum(axis = int32(1), exclusive = bool(false), reverse = bool(false), x = x)[name = string("y")];', "Some ops are not supported"),
        ("A13", "[1, 2, 4, 4]", 'tensor<fp16, [1, 2, 8, 8]> y = resize_nearest_neighbor(target_size_height = int32(8), target_size_width = int32(8), x = x)[name = string("y")];', "Some ops are not supported"),
        ("A14", "[1, 2, 4, 4]", 'tensor<fp16, [1, 2, 8, 8]> y = resize_nearest_neighbor(target_size_height = int32(8), target_size_width = int32(8), x = x)[name = string("y")];', ""),
        ("A16", "[1, 1, 2, 3, 3]", 'tensor<fp16, [1, 1, 2, 3, 3]> y = matmul(transpose_x = bool(false), transpose_y = bool(false), x = x, y = x)[name = string("y")];', "matmul of rank 5"),
        ("A16", "[2, 3]", 'tensor<bool, [2, 3]> b = greater(x = x, y = x)[name = string("b")];tensor<fp16, [2, 3]> y = cast(dtype = string("fp16"), x = b)[name = string("y")];', "cast of bool to fp16"),
        ("A13", "[1, 2, 4, 4]", PAD.format("reflect", "0, 0, 0, 0, 1, 1, 1, 1", "1, 2, 6, 6"), "pad of mode reflect"),
        ("A14", "[1, 2, 4, 4]", PAD.format("reflect", "0, 0, 0, 0, 1, 1, 1, 1", "1, 2, 6, 6"), ""),
        ("A14", "[1, 2, 4, 4]", PAD.format("constant", "0, 0, 1, 1, 0, 0, 0, 0", "1, 4, 4, 4"), "neither height nor width"),
        ("A16", "[1, 2, 4]", 'tensor<fp16, [1, 2, 4]> y = instance_norm(epsilon = fp16(0x1p-10), x = x)[name = string("y")];', "instance_norm of rank 3"),
        ("A16", "[1, 4]", 'tensor<fp16, [1, 5]> y = relu(x = x)[name = string("y")', "InvalidMILProgram"),
    ],
)  # fmt: skip
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
