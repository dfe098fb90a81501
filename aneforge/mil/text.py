"""MIL text, dialect 1.3 (ios18), as the engine's compiler reads it.

Spelling follows ANEForge 0.4.0's emitter and compiled programs of Core ML: arguments sorted by name, floats in C99 hex,
scalars without `tensor<>`. `buildInfo` must be present; its values are not matched against the system.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import Type
from .emit import Argument, Function, Literal, Statement

BLOB_PATH = "@model_path/weights.bin"
BUILD_INFO = {"coremlc-component-MIL": "3520.4.1", "coremlc-version": "3520.5.1"}


def render(function: Function) -> str:
    """The text of a program that holds this one function."""
    info = ", ".join(f"{{{_quoted(k)}, {_quoted(v)}}}" for k, v in BUILD_INFO.items())
    parameters = ", ".join(f"{_type(kind)} {name}" for name, kind in function.inputs)
    lines = [
        "program(1.3)",
        f"[buildInfo = dict<string, string>({{{info}}})]",
        "{",
        f"    func {function.name}<ios18>({parameters}) {{",
    ]
    lines += [_statement(statement) for statement in function.statements]
    lines += [f"    }} -> ({', '.join(name for name, _ in function.outputs)});", "}"]
    return "\n".join(lines) + "\n"


def _statement(statement: Statement) -> str:
    left = ", ".join([f"{_type(kind)} {name}" for name, kind in statement.results])
    arguments = ", ".join([f"{name} = {_argument(given)}" for name, given in statement.arguments])
    name = f"string({_quoted(statement.results[0][0])})"
    attributes = {"name": name, **{key: _literal(value) for key, value in statement.attributes}}
    if statement.value is not None:
        attributes["val"] = _literal(statement.value)
    listed = ", ".join([f"{key} = {value}" for key, value in sorted(attributes.items())])
    return f"        {left} = {statement.kind}({arguments})[{listed}];"


def _argument(given: Argument) -> str:
    if isinstance(given, str):
        return given
    return f"({', '.join(given)})" if isinstance(given, tuple) else _literal(given)


def _type(kind: Type) -> str:
    return f"tensor<{kind.dtype}, [{', '.join(map(str, kind.shape))}]>" if kind.shape else kind.dtype


def _literal(value: Literal) -> str:
    head = _type(value.type)
    if value.offset is not None:
        return f"{head}(BLOBFILE(path = string({_quoted(BLOB_PATH)}), offset = uint64({value.offset})))"
    if isinstance(value.data, str):
        return f"{head}({_quoted(value.data)})"
    assert value.data is not None
    return f"{head}({_nested(value.data)})"


def _nested(array: NDArray[Any]) -> str:
    if array.ndim:
        return f"[{', '.join(map(_nested, array))}]"
    item = array.item()
    if isinstance(item, bool):
        return "true" if item else "false"
    return str(item) if isinstance(item, int) else number(item)


def number(value: float) -> str:
    """A float as the compiler prints it: hexadecimal, without trailing zeros; `-inf` as it does, `inf` and `nan` alike.

    >>> number(0.5), number(-10000.0), number(0.0)
    ('0x1p-1', '-0x1.388p+13', '0x0p+0')
    """
    if not np.isfinite(value):
        return str(value)
    mantissa, _, exponent = value.hex().partition("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
