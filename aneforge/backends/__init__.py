"""Who runs a program: the engine, or the host backend that computes as the engine does.

executable = compile(write(program, options.numerics), options, resolve(options.target))
outputs = executable.run(arrays)
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import BackendUnavailableError, InternalError, OptionError
from ..mil import MilFile
from ..options import Options
from ..targets import Target
from . import coreml, e5rt, host
from .machine import on_apple_silicon
from .protocol import ANE, COREML, CPU, HOST, Executable, PortEvents

__all__ = ["ANE", "COREML", "CPU", "HOST", "Executable", "PortEvents", "choose", "compile", "word"]

_COMPILERS: dict[str, Callable[[MilFile, Target, Options], Executable]] = {
    "e5rt": e5rt.compile,
    "coreml": coreml.compile,
}
"""Those outside this process, which work with files below the folder given (option `cache_dir`)."""


def choose(options: Options) -> str:
    """The backend that the options ask for: "host", "e5rt" or "coreml".

    "auto" is the engine on Apple silicon and the host elsewhere; never the host in silence where an engine is.

    Raises:
        BackendUnavailableError: it is not on this machine, or not in this release.
        OptionError: numerics "fp32" for the engine, which computes in fp16.
    """
    name = options.backend
    if name == "auto":
        name = "e5rt" if on_apple_silicon() else "host"
    if name == "host":
        return name
    if options.numerics == "fp32":
        raise OptionError(f"numerics 'fp32' runs on backend 'host' alone; {name!r} computes in fp16")
    if why_not := e5rt.reason(options) if name == "e5rt" else coreml.reason():
        raise BackendUnavailableError(why_not)
    return name


def word(options: Options) -> str:
    """What the backend that the options ask for is called in reports. Raises as `choose` does."""
    return {"host": HOST, "e5rt": ANE, "coreml": COREML}[choose(options)]


def compile(mil: MilFile, options: Options, target: Target) -> Executable:
    """Compiles a program for `target` with the backend that the options ask for.

    Raises:
        CompileError: the backend does not take the program.
        BackendUnavailableError, OptionError: see `choose`.
    """
    if mil.numerics != options.numerics:
        raise InternalError(
            f"the program is written for numerics {mil.numerics!r}, the options say {options.numerics!r}"
        )
    name = choose(options)
    return host.compile(mil, target) if name == "host" else _COMPILERS[name](mil, target, options)
