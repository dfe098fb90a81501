"""The arrays of a Model that runs in place: written by the caller, read by the caller, copied by nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .backends import Executable, PortEvents
from .backends.protocol import numpy_type

Array = NDArray[Any]


class Buffers:
    """One array for each input and output, by name.

    Floats have the program's own type (fp16; fp32 with numerics "fp32"), others that of the model.
    """

    def __init__(
        self,
        executable: Executable | None,
        inputs: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]],
        fed: Sequence[tuple[str, tuple[int, ...]]],
        outputs: Mapping[str, tuple[int | str | Array, tuple[int, ...], np.dtype[Any]]],
    ) -> None:
        """
        Args:
            inputs: name -> shape and dtype in the model.
            fed: for each port of the program, the input that it takes, and in which shape.
            outputs: name -> which of the program's outputs it is, or which input it repeats, or its value; shape and
                dtype in the model.
        """
        self._executable = executable
        float_: np.dtype[Any] = np.dtype(np.float16)
        if executable is not None:
            kinds = {numpy_type(port) for port in (*executable.inputs, *executable.outputs)}
            float_ = next((kind for kind in kinds if kind.kind == "f"), float_)

        def held(dtype: np.dtype[Any]) -> np.dtype[Any]:
            return float_ if dtype.kind == "f" else dtype

        self.inputs = {name: np.zeros(shape, held(dtype)) for name, (shape, dtype) in inputs.items()}
        self._given = [self.inputs[name].reshape(shape) for name, shape in fed]
        self.outputs: dict[str, Array] = {}
        self._repeats: list[tuple[Array, Array]] = []
        made: dict[int, Array] = {}
        for name, (source, shape, dtype) in outputs.items():
            if isinstance(source, int):
                assert executable is not None
                if source not in made:
                    made[source] = np.zeros(executable.outputs[source].type.shape, held(dtype))
                self.outputs[name] = made[source].reshape(shape)
            elif isinstance(source, str):
                self.outputs[name] = np.zeros(shape, held(dtype))
                self._repeats.append((self.outputs[name], self.inputs[source]))
            else:
                self.outputs[name] = source.astype(held(dtype))
        self._wanted = [made[i] for i in sorted(made)]

    def execute(self) -> PortEvents:
        """Runs the program from the input arrays into the output arrays."""
        for output, source in self._repeats:
            np.copyto(output, source)
        if self._executable is None:
            return PortEvents()
        return self._executable.execute(self._given, self._wanted)[1]
