"""The hand-over format: the text of a MIL program, its weight blob, and what its ports stand for."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir import Program, Type
from .emit import Function, emit
from .text import render

_FLOAT = {"engine": "fp16", "fp16": "fp16", "fp32": "fp32"}


@dataclass(frozen=True)
class Port:
    """One input or output. `mil` is the identifier in the text, `name` what the caller calls it (an ONNX value)."""

    mil: str
    name: str
    type: Type


@dataclass(frozen=True, eq=False)
class MilFile:
    """What every backend is given. The types of ports are those of the text: fp16 (uint8 for some inputs), or fp32."""

    text: str = field(repr=False)
    blob: memoryview = field(repr=False)
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    numerics: str
    function: Function = field(repr=False)
    """The statements that the text spells, for the other ways to write them."""


def write(program: Program, numerics: str = "engine", function: str = "main") -> MilFile:
    """The hand-over form of a program. Deterministic: the same program gives the same bytes.

    Constants are narrowed here and only here: to fp16 (finite values beyond ±65504 become ±65504; infinities and NaN
    stay), or, with numerics "fp32", to fp32. Inputs are called x0, x1 … and outputs y0, y1 … in the text, in the
    program's order. An output that is an input, or that is listed twice, gets a multiplication with 1 of its own.

    Raises:
        InternalError: the program cannot be spelled: a constant or a bool as an output, a list or an extent of zero.
        ValueError: an unknown numerics mode.
    """
    if numerics not in _FLOAT:
        raise ValueError(f"numerics is one of {', '.join(_FLOAT)}; not {numerics!r}")
    made = emit(program, _FLOAT[numerics], function)
    return MilFile(
        text=render(made),
        blob=made.blob,
        inputs=_ports(made.inputs, [name for name, _ in program.inputs]),
        outputs=_ports(made.outputs, [name for name, _ in program.outputs]),
        numerics=numerics,
        function=made,
    )


def _ports(variables: tuple[tuple[str, Type], ...], names: list[str]) -> tuple[Port, ...]:
    return tuple([Port(mil, name, kind) for (mil, kind), name in zip(variables, names, strict=True)])
