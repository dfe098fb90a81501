"""Conversion at the engine's ports on this machine, bit by bit. tests/native/arm64_linux.sh does the same for NEON."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import conversions
import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("native/runtime/ports.cc", "native/runtime/port_blocks.cc", "native/core/tensor.cc")


def test_every_port_conversion_is_numpys(tmp_path: Path) -> None:
    compiler = os.environ.get("CXX", "").split() or [shutil.which("g++") or shutil.which("c++") or ""]
    if not compiler[0]:
        pytest.skip("no C++ compiler")
    program = tmp_path / "conversion_selftest"
    flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-pthread", f"-I{ROOT / 'native'}"]
    sources = [str(ROOT / s) for s in (*SOURCES, "tests/native/conversion_selftest.cc")]
    subprocess.run([*compiler, *flags, *sources, "-o", str(program)], check=True)
    written = conversions.write(tmp_path / "conversions")
    done = subprocess.run([str(program), str(tmp_path / "conversions")], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"conversions: {written} cases" in done.stdout, done.stdout
