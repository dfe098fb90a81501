"""A program that the native library compiled, whichever of its backends did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import DTypeLike, NDArray

from ..errors import CompileError
from ..mil import MilFile, Port
from . import native
from .protocol import PortEvents, numpy_type


def compile_native(backend: str, who: str, word: str, mil: MilFile, options: dict[str, str]) -> NativeExecutable:
    """Compiles a program with a backend of the native library; `who` is its name in messages.

    Raises:
        CompileError: the program is not one that the backend takes, with its reason.
        BackendUnavailableError: the native library does not load.
    """
    module = native.load()
    try:
        program = module.compile(backend, mil.text, mil.blob, options)
    except (ValueError, NotImplementedError, RuntimeError) as error:
        raise CompileError(f"{who} did not compile the program: {error}") from error
    return NativeExecutable(word, mil.inputs, mil.outputs, program)


class NativeExecutable:
    """See `protocol.Executable`."""

    def __init__(self, word: str, inputs: tuple[Port, ...], outputs: tuple[Port, ...], program: Any) -> None:
        self.word = word
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
        return f"<Executable ({self.word}) {len(self.inputs)} inputs, {len(self.outputs)} outputs>"
