"""A stand-in for the engine's runtime (standin.cc, worker.py), and what tests do with it.

`Standin.build` compiles it; a process that then has ANEFORGE_E5RT_LIBRARY in its environment walks the engine's road.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMPILER = next((c for c in ("c++", "g++", "clang++") if shutil.which(c)), "")


class Standin:
    """The stand-in in this process, from the tests' side."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        for name in ("live", "loaded", "lost", "calls", "misuses"):
            getattr(self._library, f"standin_{name}").restype = ctypes.c_uint64
        self._library.standin_misuse_text.restype = ctypes.c_char_p
        self._library.standin_fault.argtypes = [ctypes.c_char_p]
        self._library.standin_most_programs.argtypes = [ctypes.c_uint64]

    @staticmethod
    def build(folder: Path) -> Path:
        path = folder / "libstandin.so"
        flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"]
        subprocess.run([COMPILER, *flags, str(HERE / "standin.cc"), "-o", str(path)], check=True, timeout=300)
        return path

    @staticmethod
    def environment(path: Path, caches: Path) -> dict[str, str]:
        """Variables of a process that is to use it. With STANDIN_FAULT beside them it goes wrong there; see standin.cc."""
        return {
            "ANEFORGE_E5RT_LIBRARY": str(path),
            "STANDIN_PYTHON": sys.executable,
            "STANDIN_TESTS": str(HERE.parent),
            "XDG_CACHE_HOME": str(caches),
            "HOME": str(caches),
        }

    @staticmethod
    def files(caches: Path) -> list[str]:
        """What stands in the private folders of processes that were given `caches` (see aneforge/cache.py)."""
        return sorted(str(p.relative_to(caches)) for p in (caches / "aneforge" / "work").glob("*/*"))

    def live(self) -> int:
        """Handles that were given out and not released."""
        return int(self._library.standin_live())

    def loaded(self) -> int:
        """Operations among them: programs on the device."""
        return int(self._library.standin_loaded())

    def calls(self, name: str = "") -> int:
        """Calls of a function (without "e5rt_"), or of all, since `reset`."""
        return int(self._library.standin_calls(name.encode()))

    def misuse(self) -> str:
        """What was called in a way that the runtime does not take; empty if nothing was."""
        text = self._library.standin_misuse_text().decode()
        assert bool(text) == bool(self._library.standin_misuses())
        return str(text)

    def lost(self) -> int:
        """Handles among the live ones whose release failed; `reset` forgets them."""
        return int(self._library.standin_lost())

    def fail(self, name: str, nth: int = 1, what: str = "fail") -> None:
        """The n-th call of a function from now on returns an error, or does `what` (see standin.cc); 0: every call."""
        self._library.standin_fault(f"{name}={what}{f'@{nth}' if nth else ''}".encode())

    def compute(self, on: bool) -> None:
        """Off: executing leaves the outputs as they are, and costs nothing."""
        self._library.standin_compute(int(on))

    def idle(self, on: bool) -> None:
        """Executing returns at once: not even looked at or counted. For measuring what stands around it."""
        self._library.standin_idle(int(on))

    def most_programs(self, count: int) -> None:
        """How many programs a process may load; the real one takes 128."""
        self._library.standin_most_programs(count)

    def forget(self) -> None:
        """All handles, as if there had been none."""
        self._library.standin_forget()

    def reset(self) -> None:
        self._library.standin_reset()
