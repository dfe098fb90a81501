"""What every backend offers: a compiled program with named, typed ports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..mil import Port

ANE = "ANE"
HOST = "host emulation"
COREML = "Core ML (CPU and ANE)"
CPU = "CPU"
"""Who computes, in the words of reports: the engine, the host backend, Core ML, which divides a program as it likes, or
whoever takes what none of them takes."""


@dataclass(frozen=True)
class PortEvents:
    """What the ports saw in one run: positions of inputs that held finite values beyond the range of the program's
    type, and of outputs that hold an infinity or NaN although every input was finite."""

    saturated_inputs: tuple[int, ...] = ()
    nonfinite_outputs: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.saturated_inputs or self.nonfinite_outputs)


class Executable(Protocol):
    """A compiled program. `run` and `execute` may be called from many threads at once."""

    @property
    def inputs(self) -> tuple[Port, ...]: ...

    @property
    def outputs(self) -> tuple[Port, ...]: ...

    @property
    def word(self) -> str:
        """Who computes: ANE, host emulation or COREML."""

    @property
    def handle(self) -> int:
        """Address of the native object (AfExecutable*), valid as long as this object lives."""

    def run(
        self, arrays: Sequence[NDArray[Any]], out_dtypes: Sequence[DTypeLike] | None = None, *, threads: int = 0
    ) -> list[NDArray[Any]]:
        """Computes the outputs for arrays in the order of `inputs`.

        Args:
            arrays: of exactly the ports' shapes; float32 and float64 are rounded to the program's type (finite values
                saturate), bool counts as 0 and 1.
            out_dtypes: element type of each output; by default that of the program.
            threads: 0 as many as the machine has, 1 the calling thread alone.

        Raises:
            ValueError: a wrong number of arrays, a wrong shape, or an element type that does not convert.
        """

    def execute(
        self,
        arrays: Sequence[NDArray[Any]],
        out_dtypes: Sequence[DTypeLike | NDArray[Any]] | None = None,
        *,
        threads: int = 0,
    ) -> tuple[list[NDArray[Any]], PortEvents]:
        """As `run`, and what the ports saw. An array in the place of an element type is written to, and returned."""

    def describe(self) -> str:
        """One line for reports."""

    def release(self) -> None:
        """Frees the program now instead of with the object. It cannot be run afterwards."""


def numpy_type(port: Port) -> np.dtype[Any]:
    """Element type of a port in its program."""
    return np.dtype({"fp16": "f2", "fp32": "f4", "uint8": "u1"}[port.type.dtype])
