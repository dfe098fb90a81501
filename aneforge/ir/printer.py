"""A program as text for people: logs, tests, error reports. Not the MIL text that backends read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .core import Op, Tensor
    from .program import Program


def render(program: Program) -> str:
    """One line for each Op: ``%4 fp16[1, 8, 5, 5] = relu(x=%3)  # conv1``."""
    names: dict[Tensor, str] = {tensor: f"%{name}" for name, tensor in program.inputs}
    lines = [f"program({', '.join(f'%{name} {tensor.type}' for name, tensor in program.inputs)})"]
    count = 0
    for op in program.ops:
        if op.kind == "input":
            continue
        for tensor in op.outputs:
            names[tensor] = f"%{count}"
            count += 1
        left = ", ".join(f"{names[tensor]} {tensor.type}" for tensor in op.outputs)
        marks = ", ".join(sorted(map(str, program.origins(op))))
        lines.append(f"  {left} = {op.kind}({_arguments(op, names)})" + (f"  # {marks}" if marks else ""))
    lines.append(f"return {', '.join(f'{name}={names[tensor]}' for name, tensor in program.outputs)}")
    return "\n".join(lines)


def _arguments(op: Op, names: dict[Tensor, str]) -> str:
    if op.kind == "const":
        value = op.params["value"]
        if value.size <= 8:
            return np.array2string(value, separator=", ", threshold=9).replace("\n", "")
        return f"{value.dtype} array"
    parts = [
        f"{name}=({', '.join(names[t] for t in given)})" if isinstance(given, tuple) else f"{name}={names[given]}"
        for name, given in op.inputs.items()
    ]
    return ", ".join(parts + [f"{name}={_plain(value)}" for name, value in op.params.items()])


def _plain(value: Any) -> str:
    return repr(value)
