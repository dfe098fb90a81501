"""The host backend: the same program text and weights that the engine is given, computed on this machine's CPU.

With numerics "engine" it also imitates the quirks of the target that the quirk table marks as simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import DTypeLike, NDArray

from ..errors import CompileError
from ..mil import MilFile, Port
from ..targets import Target
from . import native
from .protocol import HOST, PortEvents, numpy_type


def compile(mil: MilFile, target: Target) -> HostExecutable:
    """Compiles a program.

    Raises:
        CompileError: the program is not one that the backend takes, with its reason.
        BackendUnavailableError: the native library does not load.
    """
    options = {"numerics": mil.numerics}
    if mil.numerics == "engine":
        options["quirks"] = ",".join(target.simulated_quirks)
    module = native.load()
    try:
        program = module.compile("host", mil.text, mil.blob, options)
    except (ValueError, NotImplementedError, RuntimeError) as error:
        raise CompileError(f"the host backend did not compile the program: {error}") from error
    return HostExecutable(mil.inputs, mil.outputs, program)


class HostExecutable:
    """See `protocol.Executable`."""

    word = HOST

    def __init__(self, inputs: tuple[Port, ...], outputs: tuple[Port, ...], program: Any) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self._program = program
        self._types = [numpy_type(port) for port in outputs]

    @property
    def handle(self) -> int:
        return int(self._program.address)

    def run(
        self, arrays: Sequence[NDArray[Any]], out_dtypes: Sequence[DTypeLike] | None = None, *, threads: int = 0
    ) -> list[NDArray[Any]]:
        return self.execute(arrays, out_dtypes, threads=threads)[0]

    def execute(
        self,
        arrays: Sequence[NDArray[Any]],
        out_dtypes: Sequence[DTypeLike | NDArray[Any]] | None = None,
        *,
        threads: int = 0,
    ) -> tuple[list[NDArray[Any]], PortEvents]:
        wanted = list(self._types if out_dtypes is None else out_dtypes)
        results, seen = self._program.run(list(arrays), wanted, threads)
        return results, PortEvents(tuple(seen["saturated_inputs"]), tuple(seen["nonfinite_outputs"]))

    def describe(self) -> str:
        return str(self._program.describe())

    def release(self) -> None:
        self._program.release()

    def __repr__(self) -> str:
        return f"<HostExecutable {len(self.inputs)} inputs, {len(self.outputs)} outputs>"
