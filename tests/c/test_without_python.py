"""The library in programs that are not Python: compiled with the system's C compiler and run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "native"
COMPILER = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), "")

pytestmark = [
    pytest.mark.skipif(not COMPILER, reason="no C compiler"),
    pytest.mark.skipif(not INCLUDE.exists(), reason="needs the source tree"),
]


@pytest.fixture(scope="module")
def library() -> Path:
    if folder := os.environ.get("ANEFORGE_NATIVE_DIR"):
        return Path(folder) / ("libaneforge_ep" + (".dylib" if sys.platform == "darwin" else ".so"))
    from aneforge.backends.native import library_path  # noqa: PLC0415 - only where the package is installed

    return library_path().resolve()


def build(name: str, folder: Path) -> Path:
    program = folder / name
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}"]
    subprocess.run([COMPILER, *flags, str(HERE / f"{name}.c"), "-o", str(program), "-ldl"], check=True, timeout=120)
    return program


def run(*command: object) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and done.stdout == "ok\n", f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stderr


def test_c_table(tmp_path: Path, library: Path) -> None:
    run(build("table", tmp_path), library)


@pytest.mark.parametrize("mode", ["none", "hook", "error"])
def test_session_without_python(tmp_path: Path, library: Path, mode: str) -> None:
    found = sorted(
        p for p in (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime*") if "providers" not in p.name
    )
    if not found:
        pytest.skip("this onnxruntime ships no C library")
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy"]
    nodes = [helper.make_node("Add", ["x", "x"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", values[:1], values[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    onnx.save(model, tmp_path / "m.onnx")
    run(build("session", tmp_path), found[0], library, tmp_path / "m.onnx", mode)


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("nm"), reason="needs nm of binutils")
def test_exported_symbols(library: Path) -> None:
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    strong = {name for _, kind, name in (line.split() for line in listed.stdout.splitlines()) if kind in "TDB"}
    assert {s for s in strong if not s.startswith("_")} == {"aneforge_get_api", "CreateEpFactories", "ReleaseEpFactory"}
