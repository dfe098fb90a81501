"""The table of handlers: one function for one ONNX operator, all its versions.

    @onnx_op("LeakyRelu", since=(1, 6, 16))
    def leaky_relu(node: Node, x: Tensor, *, alpha: float = 0.01) -> Tensor:
        return ops.leaky_relu(x, alpha=alpha)

The signature *is* the declaration. Parameters after the node are the operator's inputs in order, and their annotation
says in what form the handler takes them (the forms are listed at `FORMS`); keyword-only parameters are the attributes
with their defaults. From it come the conversions, the refusals ("its 'shape' must be known at import"), and the
documentation.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from onnx import AttributeProto

from ..errors import Refused
from ..ir import Tensor
from . import folding
from .inference import newest_opset
from .inference import since as since_version
from .tensors import Array

if TYPE_CHECKING:
    from .node import Node

Known = Array  # a constant, in its ONNX dtype
Mask = Tensor  # an ONNX bool as fp16 0 or 1
Bool = Tensor  # an ONNX bool as a bool of the program
Data = Tensor  # floats, bools as a Mask, or integers proved small: for operators that only move elements
Raw = Tensor  # as Data, but an unsigned byte as it came in through a port
Number = Tensor  # floats, or integers proved small; the handler says what it proves of the result (`Node.follow`)
Value = Tensor | Array  # a constant as it is, anything else as Tensor
Any_ = Any  # not converted; the handler asks the node

FORMS = ("Tensor", "Known", "Mask", "Bool", "Data", "Raw", "Number", "Value", "Any_")
"""Any_: the input is not converted and need not be known; the handler asks the node about it (its shape, for one)."""

HINT = "consumed_inputs"
"""An attribute of many operators before opset 6: which inputs may be overwritten. It says nothing about the result."""

Result = Tensor | Array | Sequence[Tensor | Array | None]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Parameter:
    """One declared input."""

    name: str
    form: str
    optional: bool
    variadic: bool


@dataclass(frozen=True)
class Handler:
    """One row of the table."""

    op: str
    domain: str
    since: tuple[int, ...]
    function: Callable[..., Any]
    inputs: tuple[Parameter, ...]
    attributes: Mapping[str, Any]  # name -> default; `inspect.Parameter.empty` where the operator demands it
    layout: bool  # moves elements and computes nothing
    own_shape: bool  # ONNX's inference is known to be wrong here; the handler's shape stands
    ignores: frozenset[str]  # attributes that change nothing at inference

    @property
    def constant(self) -> tuple[int, ...]:
        """Positions of the inputs that must be known at import."""
        return tuple(i for i, p in enumerate(self.inputs) if p.form == "Known")


_TABLE: dict[tuple[str, str], Handler] = {}


def onnx_op(
    op: str,
    since: tuple[int, ...],
    domain: str = "",
    *,
    layout: bool = False,
    own_shape: bool = False,
    ignores: tuple[str, ...] = (),
) -> Callable[[Function], Function]:
    """Registers the function below it for an operator.

    Args:
        op: the operator's name.
        since: the versions that the function knows: those at which the operator changed (its "since" versions).
        domain: "" for ai.onnx.
        layout: it only moves elements; a region of nothing else is not worth a dispatch.
        own_shape: the shape that ONNX infers is known to be wrong for some attributes.
        ignores: attributes without meaning here (training, hints).
    """

    def register(function: Function) -> Function:
        key = (domain, op)
        if key in _TABLE:
            raise ValueError(f"{op} has two handlers")
        inputs, attributes = _declaration(function)
        _TABLE[key] = Handler(
            op, domain, tuple(sorted(since)), function, inputs, attributes, layout, own_shape, frozenset(ignores)
        )
        return function

    return register


def _declaration(function: Callable[..., Any]) -> tuple[tuple[Parameter, ...], dict[str, Any]]:
    parameters = list(inspect.signature(function).parameters.values())[1:]  # the first is the node
    inputs, attributes = [], {}
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY:
            attributes[p.name] = p.default
            continue
        words = [word.strip() for word in str(p.annotation).split("|")]
        form = words[0]
        if form not in FORMS:
            raise TypeError(
                f"{function.__name__}: parameter {p.name!r} is annotated {p.annotation!r}; forms: {', '.join(FORMS)}"
            )
        inputs.append(Parameter(p.name, form, p.default is None or "None" in words, p.kind is p.VAR_POSITIONAL))
    return tuple(inputs), attributes


def handlers() -> Mapping[tuple[str, str], Handler]:
    """(domain, operator) -> handler; every handler module is loaded."""
    from . import handlers as _  # noqa: F401, PLC0415 - the modules register themselves; they import this one

    return _TABLE


def find(op: str, domain: str, version: int) -> tuple[Handler, int]:
    """The handler of an operator and the "since" version that it must follow.

    Raises:
        Refused: no handler, or none for this version.
    """
    handler = handlers().get((domain, op))
    name = f"{domain}::{op}" if domain else op
    if handler is None:
        if domain == "" and op in folding.SHAPED:
            raise Refused(
                "computed parameter", f"{name} is computed at import only, and its inputs are computed at run time"
            )
        raise Refused("operator", f"there is no handler for {name}")
    if version == 0:
        raise Refused("operator", f"the model imports no version of the domain {domain!r} of {name}")
    meant = since_version(op, domain, version)
    if meant is None:  # not an operator of ONNX, or not at this opset: ONNX Runtime's own, or one too new for this onnx
        if domain == "" and (version > newest_opset() or 1 not in handler.since):
            raise Refused("operator", f"{name} of opset {version} is not known here")
        meant = max((v for v in handler.since if v <= (version if domain else 1)), default=0)
    if meant not in handler.since:
        versions = ", ".join(map(str, handler.since))
        raise Refused(
            "operator", f"{name} version {meant} (opset {version}) has no handler; versions {versions} have one"
        )
    return handler, meant


def attributes_of(handler: Handler, node: Node) -> dict[str, Any]:
    """The node's attributes as keyword arguments.

    Raises:
        Refused: an attribute that the handler does not know, or one that is missing.
    """
    given = dict(node.view.attributes)
    if node.since < 6:
        given.pop(HINT, None)
    unknown = [name for name in given if name not in handler.attributes and name not in handler.ignores]
    if unknown:
        raise Refused("attribute form", f"the attribute {unknown[0]!r} has no engine form")
    raw = [name for name, value in given.items() if isinstance(value, (bytes, AttributeProto))]
    if raw:
        raise Refused("attribute form", f"the attribute {raw[0]!r} is neither a number nor text nor a tensor")
    for name, value in given.items():
        if any(isinstance(v, float) and math.isnan(v) for v in (value if isinstance(value, tuple) else (value,))):
            raise Refused("attribute form", f"the attribute {name!r} is NaN")
    missing = [n for n, default in handler.attributes.items() if default is inspect.Parameter.empty and n not in given]
    if missing:
        raise Refused("attribute form", f"the attribute {missing[0]!r} is missing")
    return {name: value for name, value in given.items() if name in handler.attributes}


def call(handler: Handler, node: Node) -> Any:
    """Runs a handler on a node: converts the inputs to the declared forms, passes the attributes.

    Raises:
        Refused: from the conversions, or from the handler.
    """
    keywords = attributes_of(handler, node)
    arguments: list[Any] = []
    declared = handler.inputs
    variadic = declared[-1] if declared and declared[-1].variadic else None
    if variadic is None and any(node.has(i) for i in range(len(declared), node.n_inputs)):
        raise Refused("attribute form", f"it has {node.n_inputs} inputs; only {len(declared)} have an engine form")
    for i, p in enumerate(declared):
        if p.variadic:
            arguments += [node.take(k, p) for k in range(i, node.n_inputs)]
        elif node.has(i):
            arguments.append(node.take(i, p))
        elif p.optional:
            arguments.append(None)
        else:
            raise Refused("attribute form", f"the input {p.name!r} is missing")
    return handler.function(node, *arguments, **keywords)
