"""How the evaluator declares an operation: a function of its name, its parameters annotated with what they take."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass


class Refusal(Exception):
    """The operation, called like this, is outside the definition that the evaluator follows."""


@dataclass(frozen=True)
class Takes:
    """What a parameter takes. `dtypes`: in the words of the text, "float" being the program's float type."""

    dtypes: frozenset[str]
    rank: int | None = None  # None: any
    constant: bool = False
    many: bool = False  # a tuple of tensors


def _takes(*dtypes: str, rank: int | None = None, constant: bool = False, many: bool = False) -> Takes:
    return Takes(frozenset(dtypes), rank, constant, many)


Float = _takes("float")
FloatConst = _takes("float", constant=True)
FloatVector = _takes("float", rank=1, constant=True)
Scalar = _takes("float", rank=0, constant=True)
Mask = _takes("bool")
Any = _takes("float", "bool")
Wide = _takes("float", "bool", "uint8")
Many = _takes("float", "bool", many=True)
Ints = _takes("int32", rank=1, constant=True)
IntTable = _takes("int32", rank=2, constant=True)
Int = _takes("int32", rank=0, constant=True)
UInt = _takes("uint32", rank=0, constant=True)
Flags = _takes("bool", rank=1, constant=True)
Flag = _takes("bool", rank=0, constant=True)
Word = _takes("string", rank=0, constant=True)

OPERATIONS: dict[str, Callable] = {}
PARAMETERS: dict[str, dict[str, inspect.Parameter]] = {}


def operation(function: Callable) -> Callable:
    """Registers a function under its name; a trailing underscore keeps Python's own names free."""
    name = function.__name__.rstrip("_")
    OPERATIONS[name] = function
    PARAMETERS[name] = dict(inspect.signature(function).parameters)
    return function


def require(condition: object, why: str) -> None:
    if not condition:
        raise Refusal(why)


def declare(names: dict[str, Callable], **takes: Takes) -> None:
    """Registers plain functions that all take the same parameters, by keyword, in the order given."""
    parameters = {k: inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY, annotation=v) for k, v in takes.items()}
    for name, function in names.items():
        OPERATIONS[name] = lambda f=function, **given: f(*(given[k] for k in takes))
        PARAMETERS[name] = parameters
