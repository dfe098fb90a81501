"""Core ML as the way to the engine: Apple's public interface (native/coreml). It may compute parts on the CPU.

The program becomes a package in the cache folder, is compiled there once, and is loaded from that very place: Core ML keeps
what it makes for a device by the path of the compiled model. ANEFORGE_COREML_LIBRARY names a library that stands in for the
Objective-C runtime and the frameworks; then, and only then, this backend can be asked for on other machines.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path

from .. import cache
from ..errors import BackendUnavailableError, CompileError
from ..mil import MilFile, Port, port_names, save_package
from ..options import Options
from ..targets import Target
from .executable import NativeExecutable, compile_native
from .machine import on_apple_silicon
from .protocol import COREML

LIBRARY = "ANEFORGE_COREML_LIBRARY"
KIND = "coreml"
_NEEDS = 15  # macOS that knows packages of specification version 9


class CoreMLExecutable(NativeExecutable):
    """See `protocol.Executable`. Its folder stays in the cache as long as it lives."""

    def __init__(self, compiled: NativeExecutable, entry: cache.Entry) -> None:
        super().__init__(COREML, compiled.inputs, compiled.outputs, compiled._program)
        self._entry = entry

    def release(self) -> None:
        super().release()
        self._entry.close()


def compile(mil: MilFile, target: Target, options: Options) -> CoreMLExecutable:
    """Writes the package, and has it compiled and loaded, or loads what an earlier process had compiled.

    Raises:
        CompileError: Core ML does not take the program, or the cache folder cannot be written.
        BackendUnavailableError: see `reason`.
    """
    if why_not := reason():
        raise BackendUnavailableError(why_not)
    house = cache.Cache(options.cache_dir)
    names = port_names(mil)
    key = cache.key(mil.text, repr(names), mil.blob)

    def package(folder: Path) -> None:
        save_package(mil, folder / "program.mlpackage")

    try:
        entry = house.entry(KIND, key, package)
        try:
            return _loaded(mil, names, entry)
        except CompileError:
            if not (entry.path / "program.mlmodelc").exists():
                raise
        # What was kept may be of no use any more: made anew, once.
        entry.close()
        house.drop(KIND, key)
        return _loaded(mil, names, house.entry(KIND, key, package))
    except (OSError, ValueError) as error:
        raise CompileError(f"Core ML did not compile the program: {error}") from error


def _loaded(mil: MilFile, names: dict[str, str], entry: cache.Entry) -> CoreMLExecutable:
    told = {
        "package": str(entry.path / "program.mlpackage"),
        "model": str(entry.path / "program.mlmodelc"),
        "inputs": _spelled(mil.inputs, names),
        "outputs": _spelled(mil.outputs, names),
    }
    return CoreMLExecutable(compile_native("coreml", "Core ML", COREML, mil, told), entry)


def _spelled(ports: tuple[Port, ...], names: dict[str, str]) -> str:
    return ";".join(f"{names[port.mil]}:{'x'.join(map(str, port.type.shape))}" for port in ports)


def reason() -> str:
    """Why Core ML cannot be used here; empty when it can."""
    if os.environ.get(LIBRARY):
        return ""
    if not on_apple_silicon():
        return (
            "backend 'coreml' needs macOS on Apple silicon; here `aneforge export MODEL -o x.mlpackage` writes and checks "
            "the package that it would run; use backend='host' for emulation"
        )
    version = platform.mac_ver()[0]
    if int(version.partition(".")[0] or _NEEDS) < _NEEDS:
        return (
            f"backend 'coreml' needs macOS {_NEEDS} or newer, and this is {version}; use backend='host' for emulation"
        )
    return ""
