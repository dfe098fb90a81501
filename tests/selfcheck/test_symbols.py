"""The functions of the runtime that doctor looks up are those that native/runtime calls."""

import re
from pathlib import Path

import aneforge.selfcheck.symbols as module
from aneforge.selfcheck.symbols import OPTIONAL, REQUIRED, symbols

RUNTIME = Path(__file__).parents[2] / "native" / "runtime"


def test_one_list():
    header = (RUNTIME / "symbols.h").read_text()
    assert tuple(re.findall(r"^  X\((\w+),", header, re.M)) == REQUIRED
    assert all(f"(*{name})" in header for name in OPTIONAL)
    assert f'"{module.PATH}"' in (RUNTIME / "engine.cc").read_text()


def test_a_library_without_them(monkeypatch):
    monkeypatch.setenv("ANEFORGE_E5RT_LIBRARY", "libc.so.6")
    assert symbols() == {"found": [], "missing": list(REQUIRED), "optional_missing": list(OPTIONAL)}
    monkeypatch.setenv("ANEFORGE_E5RT_LIBRARY", "/no/such/library.so")
    assert "/no/such" not in symbols()["error"]
    monkeypatch.delenv("ANEFORGE_E5RT_LIBRARY")
    monkeypatch.setattr(module, "on_apple_silicon", lambda: False)
    assert symbols() == {}
