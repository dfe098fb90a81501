"""The host backend: the same program text and weights that the engine is given, computed on this machine's CPU.

With numerics "engine" it also imitates the quirks of the target that the quirk table marks as simulated.
"""

from __future__ import annotations

from ..mil import MilFile
from ..targets import Target
from .executable import NativeExecutable, compile_native
from .protocol import HOST


def compile(mil: MilFile, target: Target) -> NativeExecutable:
    """Compiles a program. Raises as `compile_native` does."""
    options = {"numerics": mil.numerics}
    if mil.numerics == "engine":
        options["quirks"] = ",".join(target.simulated_quirks)
    return compile_native("host", "the host backend", HOST, mil, options)
