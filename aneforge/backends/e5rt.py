"""The engine itself, through Apple's E5 runtime (native/runtime).

The runtime is a part of macOS that has no public interface. ANEFORGE_E5RT_LIBRARY names another library with the same
functions; then, and only then, this backend can be asked for on other machines.
"""

from __future__ import annotations

import os

from ..cache import Cache
from ..errors import BackendUnavailableError, CompileError
from ..mil import MilFile
from ..options import Options
from ..targets import Target
from . import guard, native, pace, probe
from .executable import NativeExecutable, compile_native
from .machine import on_apple_silicon
from .protocol import ANE

LIBRARY = "ANEFORGE_E5RT_LIBRARY"


def compile(mil: MilFile, target: Target, options: Options) -> NativeExecutable:
    """Compiles a program and loads it, if it is not one that the compiler is known not to survive (`guard`). The compiler's
    files stand in a private folder below the cache folder, which the native side makes, sweeps and removes by the rules of
    `cache`. Raises as `guard.admit` and `compile_native` do."""
    house = Cache(options.cache_dir)
    guard.admit(mil, target, options.compile_guard, house)
    pace.wait(house)
    try:
        made = compile_native("e5rt", "the engine's runtime", ANE, mil, {"folder": str(house.work)})
    except CompileError as error:
        if guard.BY_THE_COMPILER in str(error):
            pace.failed(house)
        raise
    pace.succeeded(house)
    return made


def reason(options: Options) -> str:
    """Why the engine cannot be used here; empty when it can. Found out once in a process, by a tiny program (`probe`), unless
    `compile_guard` is off."""
    if not on_apple_silicon() and not os.environ.get(LIBRARY):
        return "backend 'e5rt' needs macOS on Apple silicon; use backend='host' for emulation"
    why = ""
    try:
        native.load().check_backend("e5rt")
        if options.compile_guard != "off":
            why = probe.trouble(Cache(options.cache_dir))
    except (RuntimeError, BackendUnavailableError) as error:
        why = str(error)
    return why and f"backend 'e5rt': {why}; use backend='host' for emulation, which computes on the CPU"
