"""The engine itself, through Apple's E5 runtime (native/runtime).

The runtime is a part of macOS that has no public interface. ANEFORGE_E5RT_LIBRARY names another library with the same
functions; then, and only then, this backend can be asked for on other machines.
"""

from __future__ import annotations

import os

from ..cache import Cache
from ..errors import BackendUnavailableError
from ..mil import MilFile
from ..targets import Target
from . import native
from .executable import NativeExecutable, compile_native
from .machine import on_apple_silicon
from .protocol import ANE

LIBRARY = "ANEFORGE_E5RT_LIBRARY"


def compile(mil: MilFile, target: Target, cache_dir: str = "") -> NativeExecutable:
    """Compiles a program and loads it; the compiler's files stand in a private folder below the cache folder, which the
    native side makes, sweeps and removes by the rules of `cache`. Raises as `compile_native` does."""
    return compile_native("e5rt", "the engine's runtime", ANE, mil, {"folder": str(Cache(cache_dir).work)})


def reason() -> str:
    """Why the engine cannot be used here; empty when it can."""
    if not on_apple_silicon() and not os.environ.get(LIBRARY):
        return "backend 'e5rt' needs macOS on Apple silicon; use backend='host' for emulation"
    try:
        native.load().check_backend("e5rt")
    except (RuntimeError, BackendUnavailableError) as error:
        return f"backend 'e5rt': {error}; use backend='host' for emulation, which computes on the CPU"
    return ""
