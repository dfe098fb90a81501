"""An evaluator of MIL programs in numpy, written from the definition of the operations and not from the product.

    evaluate(text, blob, {"x0": array}, numerics="fp16") -> {"y0": array}

Every operation is computed in float64 and its results are rounded once, to fp16 (numerics "fp16") or fp32 ("fp32"). The
types that the text declares are compared with what came out; anything outside the definitions raises MilError.
"""

from collections.abc import Mapping
from typing import Literal as OneOf

import numpy as np

from . import packed, pointwise, shaping, spatial
from .mil_text import BY_ATTRIBUTE, MilError, Program, Statement, Type, read
from .mil_text import Literal as Spelled
from .registry import OPERATIONS, PARAMETERS, Refusal, Takes

__all__ = ["MilError", "evaluate", "evaluate_program", "read"]
assert packed and pointwise and shaping and spatial  # imported for the operations that they register

_ROUND = {"fp16": np.float16, "fp32": np.float32}


def evaluate(
    text: str, blob: bytes, inputs: Mapping[str, np.ndarray], numerics: OneOf["fp16", "fp32"] = "fp16"
) -> dict[str, np.ndarray]:
    """Runs the program on arrays named by its inputs.

    Float inputs of another width, and integers of 8 bits, are converted as a port does it: finite values saturate, then
    one rounding. With numerics "fp16" the program's float type must be fp16; with "fp32" it may be either, and values
    keep fp32.

    Returns:
        The outputs by name: float16 or float32 arrays.

    Raises:
        MilError: the program is not valid, or an operation is outside what the evaluator defines.
    """
    return evaluate_program(read(text, blob), inputs, numerics)


def evaluate_program(
    program: Program, inputs: Mapping[str, np.ndarray], numerics: OneOf["fp16", "fp32"] = "fp16"
) -> dict[str, np.ndarray]:
    """As `evaluate`, for a program already read."""
    float_type = _float_type(program)
    if float_type == "fp32" and numerics == "fp16":
        raise MilError("an fp32 program has no fp16 numerics")
    if set(inputs) != {name for name, _ in program.inputs}:
        raise MilError(f"inputs {sorted(inputs)}; the program has {[n for n, _ in program.inputs]}")
    held = _ROUND[numerics]
    values: dict[str, np.ndarray | str] = {}
    types: dict[str, Type] = {}
    constant: set[str] = set()
    for name, kind in program.inputs:
        values[name] = _port(np.asarray(inputs[name]), kind, held, name)
        types[name] = kind
    for statement in program.statements:
        if statement.kind == "const":
            name, kind = statement.results[0]
            values[name], types[name] = statement.attributes["val"].value, kind
            constant.add(name)
            continue
        try:
            results = _run(statement, values, types, constant, float_type)
        except (Refusal, ValueError, TypeError, IndexError) as error:
            raise MilError(f"{statement.kind} {statement.results[0][0]!r}: {error}") from error
        if len(results) != len(statement.results):
            raise MilError(f"{statement.kind}: {len(results)} results, {len(statement.results)} declared")
        for (name, kind), result in zip(statement.results, results, strict=True):
            got = float_type if result.dtype == np.float64 else str(result.dtype)
            if Type(got, result.shape) != kind:
                raise MilError(f"{statement.kind} {name!r} is {got}{list(result.shape)}, declared {kind}")
            with np.errstate(over="ignore", under="ignore"):
                values[name] = result.astype(held) if result.dtype == np.float64 else result
            types[name] = kind
            if statement.kind.startswith("constexpr_"):
                constant.add(name)
    for name in program.outputs:
        if types[name].dtype != float_type:
            raise MilError(f"output {name!r} is {types[name].dtype}: ports are floats")
    return {name: np.asarray(values[name]) for name in program.outputs}


def _float_type(program: Program) -> str:
    """The one float type that the whole program uses."""
    kinds = [kind for _, kind in program.inputs]
    for statement in program.statements:
        kinds += [kind for _, kind in statement.results]
        kinds += [a.type for a in statement.arguments.values() if isinstance(a, Spelled)]
        kinds += [a.type for a in statement.attributes.values()]
    found = {kind.dtype for kind in kinds} & {"fp16", "fp32"}
    if len(found) != 1:
        raise MilError(f"a program has one float type, not {sorted(found)}")
    return found.pop()


def _port(array: np.ndarray, kind: Type, held: type, name: str) -> np.ndarray:
    if array.shape != kind.shape:
        raise MilError(f"input {name!r} is {list(array.shape)}, declared {list(kind.shape)}")
    if kind.dtype == "uint8":
        if array.dtype != np.uint8:
            raise MilError(f"input {name!r} takes uint8")
        return array
    if kind.dtype not in _ROUND:
        raise MilError(f"input {name!r}: {kind.dtype} cannot be a port")
    if array.dtype.kind not in "fb" and array.dtype.itemsize > 1:
        raise MilError(f"input {name!r}: {array.dtype} cannot become a float")
    wide = array.astype(np.float64)
    limit = float(np.finfo(held).max)
    return np.where(np.isfinite(wide), np.clip(wide, -limit, limit), wide).astype(held)


def _run(statement: Statement, values: dict, types: dict, constant: set, float_type: str) -> tuple[np.ndarray, ...]:
    if statement.kind not in OPERATIONS:
        raise Refusal("unknown operation")
    parameters = PARAMETERS[statement.kind]
    arguments: dict = statement.arguments
    if statement.kind in BY_ATTRIBUTE:
        if arguments:
            raise Refusal("its operands are attributes")
        arguments = {k: v for k, v in statement.attributes.items() if k != "name"}
    unknown = set(arguments) - set(parameters)
    if unknown:
        raise Refusal(f"unknown arguments {sorted(unknown)}")
    given = {}
    for name, parameter in parameters.items():
        if name not in arguments:
            if parameter.default is parameter.empty:
                raise Refusal(f"argument {name!r} is missing")
            continue
        argument = arguments[name]
        takes: Takes = parameter.annotation
        parts = argument if isinstance(argument, tuple) else (argument,)
        if isinstance(argument, tuple) != takes.many:
            raise Refusal(f"argument {name!r}: a tuple {'is' if takes.many else 'is not'} wanted")
        arrays = []
        for part in parts:
            kind, value = (part.type, part.value) if isinstance(part, Spelled) else (types[part], values[part])
            allowed = {float_type if d == "float" else d for d in takes.dtypes}
            if kind.dtype not in allowed or (takes.rank is not None and len(kind.shape) != takes.rank):
                raise Refusal(f"argument {name!r} is {kind}, which it does not take")
            if takes.constant and not isinstance(part, Spelled) and part not in constant:
                raise Refusal(f"argument {name!r} must be a constant")
            if not isinstance(value, str) and value.dtype.kind == "f":
                value = value.astype(np.float64)
            arrays.append(value.item() if takes.rank == 0 and not isinstance(value, str) else value)
        given[name] = tuple(arrays) if takes.many else arrays[0]
    with np.errstate(all="ignore"):
        out = OPERATIONS[statement.kind](**given)
    return tuple(np.asarray(o) for o in (out if isinstance(out, tuple) else (out,)))
