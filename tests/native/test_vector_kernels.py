"""The vector kernels by themselves: every instruction set of this machine against scalar loops, and against each other."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_every_instruction_set_gives_the_same_bits(tmp_path: Path) -> None:
    compiler = os.environ.get("CXX", "").split() or [shutil.which("g++") or shutil.which("c++") or ""]
    if not compiler[0]:
        pytest.skip("no C++ compiler")
    flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-pthread", f"-I{ROOT / 'native'}"]
    sources = [*sorted((ROOT / "native/host/vector").glob("*.cc")), *sorted(Path(__file__).parent.glob("vector_*.cc"))]

    def build(source: Path) -> Path:
        target = tmp_path / f"{source.stem}.o"
        subprocess.run([*compiler, *flags, "-c", str(source), "-o", str(target)], check=True)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = [str(o) for o in pool.map(build, sources)]
    program = tmp_path / "vector_selftest"
    subprocess.run([*compiler, *flags, *objects, "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("all right\n")
