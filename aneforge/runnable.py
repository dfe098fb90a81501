"""Model: a compiled program with the ports of the model that it stands for."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from . import backends
from .buffers import Buffers
from .options import Options
from .pipeline import Compiled

Array = NDArray[Any]


@dataclass(frozen=True)
class Port:
    """An input or output of a Model: its name, the dtype that it has in the model, and its fixed shape."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Result:
    """Where an output comes from: the program, an input that it repeats, or a value known since the import."""

    port: Port
    of_program: int = -1
    of_input: int = -1
    constant: Array | None = None


class Model:
    """A compiled program. Call it with arrays in the order of `inputs`; from many threads if you like.

    One output comes bare, several as a list, in new arrays of the dtypes in `outputs`. Without copies: write to
    `input_view`, `execute`, read `output_view`; one thread at a time. Use it as a context manager, or call `release`, to
    free it before it is garbage.
    """

    def __init__(self, compiled: Compiled | None, inputs: Sequence[Port], results: Sequence[Result], options: Options):
        self.inputs = tuple(inputs)
        self.outputs = tuple(result.port for result in results)
        self._results = tuple(results)
        self._compiled = compiled
        self._released = False
        self._on_overflow = options.on_overflow
        self._warned = False
        self._buffers: Buffers | None = None
        self._lock = threading.Lock()
        executable = compiled.executable if compiled else None
        self.n_ops = compiled.n_ops if compiled else 0
        self.backend = executable.word if executable else backends.word(options)
        places = {port.name: i for i, port in enumerate(self.inputs)}
        self._fed = [(places[p.name], p.type.shape) for p in executable.inputs] if executable else []
        wanted = {result.of_program: result.port.dtype for result in results if result.of_program >= 0}
        self._dtypes = [wanted[i] for i in range(len(executable.outputs))] if executable else []

    def __call__(self, *arrays: Array) -> Array | list[Array]:
        """Runs the model.

        Args:
            arrays: one for each input, in order, of exactly its shape. A float input takes any float dtype; finite
                values beyond fp16's range saturate. Others take their own dtype.

        Raises:
            ValueError: a wrong number of arrays, a wrong shape, or the model was released.
            TypeError: a wrong dtype.
            FloatingPointError: with on_overflow="error", finite inputs gave an infinity or NaN.
        """
        outputs = self._run(arrays)
        return outputs[0] if len(outputs) == 1 else outputs

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Runs the model on arrays by name; returns every output by name. Raises as a call does."""
        names = [port.name for port in self.inputs]
        unknown, missing = [n for n in feeds if n not in names], [n for n in names if n not in feeds]
        if unknown or missing:
            what = [f"no input {n!r}" for n in unknown] + [f"input {n!r} is missing" for n in missing]
            raise ValueError(f"{'; '.join(what)}; the inputs are {', '.join(map(repr, names)) or 'none'}")
        outputs = self._run([feeds[n] for n in names])
        return {port.name: array for port, array in zip(self.outputs, outputs, strict=True)}

    def input_view(self, name: str | None = None) -> Array:
        """The array that `execute` reads an input from, to be written to; without a name, that of the only input. fp16
        for a float input (fp32 with numerics "fp32"), else the dtype in `inputs`. Valid as long as the Model.

        Raises:
            ValueError: no input of that name, or no name and several inputs; the model was released.
        """
        return self._views().inputs[_only("input", self.inputs, name)]

    def output_view(self, name: str | None = None) -> Array:
        """The array that `execute` writes an output to; without a name, that of the only output. dtypes and errors as
        for `input_view`."""
        return self._views().outputs[_only("output", self.outputs, name)]

    def execute(self) -> None:
        """Runs the model on what the input views hold; the results stand in the output views. Copies nothing.

        Raises:
            ValueError: the model was released.
            FloatingPointError: with on_overflow="error", finite inputs gave an infinity or NaN.
        """
        events = self._views().execute()
        if events.nonfinite_outputs:
            compiled = self._compiled
            assert compiled is not None
            self._overflow([compiled.executable.outputs[i].name for i in events.nonfinite_outputs], 3)

    def describe(self) -> str:
        """One line: who computes, and how."""
        if self._compiled is None:
            return f"{self.backend}: nothing to compute"
        return f"{self.backend}: {self._compiled.executable.describe()}"

    def release(self) -> None:
        """Frees the program. Calling it again does nothing; running the model afterwards is a ValueError."""
        with self._lock:
            compiled, self._compiled, self._released = self._compiled, None, True
        if compiled is not None:
            compiled.executable.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        def show(ports: Sequence[Port]) -> str:
            return ", ".join(f"{p.name} {p.dtype}{list(p.shape)}" for p in ports)

        return f"<Model {show(self.inputs)} -> {show(self.outputs)}: {self.n_ops} ops, {self.backend}>"

    def _views(self) -> Buffers:
        if self._released:
            raise ValueError("the model was released")
        with self._lock:
            if self._buffers is None:
                sources: dict[str, tuple[int | str | Array, tuple[int, ...], np.dtype[Any]]] = {}
                for result in self._results:
                    source: int | str | Array | None = result.constant
                    if result.of_program >= 0:
                        source = result.of_program
                    elif result.of_input >= 0:
                        source = self.inputs[result.of_input].name
                    assert source is not None
                    sources[result.port.name] = (source, result.port.shape, result.port.dtype)
                self._buffers = Buffers(
                    self._compiled.executable if self._compiled else None,
                    {port.name: (port.shape, port.dtype) for port in self.inputs},
                    [(self.inputs[place].name, shape) for place, shape in self._fed],
                    sources,
                )
            return self._buffers

    def _run(self, given: Sequence[Array]) -> list[Array]:
        compiled = self._compiled
        if self._released:
            raise ValueError("the model was released")
        if len(given) != len(self.inputs):
            names = ", ".join(repr(port.name) for port in self.inputs)
            raise ValueError(f"the model takes {len(self.inputs)} arrays ({names}), {len(given)} were given")
        arrays = [_checked(port, array) for port, array in zip(self.inputs, given, strict=True)]
        computed: list[Array] = []
        if compiled is not None:
            fed = [arrays[place].reshape(shape) for place, shape in self._fed]
            computed, events = compiled.executable.execute(fed, self._dtypes)
            if events.nonfinite_outputs:
                self._overflow([compiled.executable.outputs[i].name for i in events.nonfinite_outputs], 4)
        outputs = []
        for result in self._results:
            if result.of_program >= 0:
                outputs.append(computed[result.of_program].reshape(result.port.shape))
            elif result.of_input >= 0:
                outputs.append(arrays[result.of_input].astype(result.port.dtype))  # a copy
            else:
                assert result.constant is not None
                outputs.append(result.constant.copy())
        return outputs

    def _overflow(self, names: list[str], depth: int) -> None:
        text = (
            f"finite inputs gave infinities or NaN in {', '.join(map(repr, names))}: values beyond fp16's range "
            "(±65504) on the way; scale the input, or look at numerics='fp32' on the host backend for comparison"
        )
        if self._on_overflow == "error":
            raise FloatingPointError(text)
        if self._on_overflow == "warn" and not self._warned:
            self._warned = True
            warnings.warn(text, RuntimeWarning, stacklevel=depth)


def _only(role: str, ports: Sequence[Port], name: str | None) -> str:
    names = [port.name for port in ports]
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        what = f"there are {len(names)} {role}s: name one" if name is None else f"no {role} {name!r}"
        raise ValueError(f"{what}; the {role}s are {', '.join(map(repr, names)) or 'none'}")
    return name


def _checked(port: Port, given: Array) -> Array:
    array = np.asarray(given)
    if port.dtype.kind == "f":
        if array.dtype.kind != "f":
            raise TypeError(f"input {port.name!r} takes a float array, not {array.dtype}")
        if array.dtype.itemsize > 8:
            array = array.astype(np.float64)
    elif array.dtype != port.dtype:
        raise TypeError(f"input {port.name!r} takes a {port.dtype} array, not {array.dtype}")
    if array.shape != port.shape:
        raise ValueError(f"input {port.name!r} has the shape {port.shape}, not {array.shape}")
    return array
