"""The host backend: the same program text and weights that the engine is given, computed on this machine's CPU.

With numerics "engine" it also imitates the quirks of the target that the quirk table marks as simulated. With
ANEFORGE_POISON=1 in the environment, whatever depends on a place that the engine is known to get wrong becomes NaN: a
program that was lowered for its target has no such place.
"""

from __future__ import annotations

import os

from ..mil import MilFile
from ..targets import Target
from .executable import NativeExecutable, compile_native
from .protocol import HOST


def compile(mil: MilFile, target: Target) -> NativeExecutable:
    """Compiles a program. Raises as `compile_native` does."""
    options = {"numerics": mil.numerics}
    if mil.numerics == "engine":
        options["quirks"] = ",".join(target.simulated_quirks)
        if os.environ.get("ANEFORGE_POISON", "0") not in ("", "0"):
            options["poison"] = ",".join(target.poisoned_quirks)
    return compile_native("host", "the host backend", HOST, mil, options)
