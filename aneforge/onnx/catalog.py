"""What the handlers say of themselves: for `aneforge ops`, docs/operators.md and the table that ONNX Runtime's mobile
usability checker reads.

Nothing is written down twice. Versions, inputs and attributes come from a handler's declaration; the operations of the
engine, and the refusals, from what its code, and the code it calls, names.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any

from ..ops.base import DECLARATIONS
from .registry import Handler, handlers

_LOOKED_THROUGH = ("aneforge.ops.", "aneforge.onnx.handlers.", "aneforge.onnx.windows", "aneforge.onnx.resample")
_NOT = ("aneforge.ops.base",)
REGENERATE = "aneforge ops --markdown > docs/operators.md; aneforge ops --usability > docs/usability_checker_ops.md"


@dataclass(frozen=True)
class Entry:
    """One operator.

    Attributes:
        constant: names of the inputs that must be known at import.
        engine: MIL operations that it may become.
        refusals: (kind, sentence); what stands in braces in the code is … here.
        summary: the handler's docstring.
    """

    op: str
    domain: str
    since: tuple[int, ...]
    inputs: tuple[str, ...]
    constant: tuple[str, ...]
    attributes: tuple[str, ...]
    engine: tuple[str, ...]
    refusals: tuple[tuple[str, str], ...]
    summary: str

    @property
    def name(self) -> str:
        return f"{self.domain or 'ai.onnx'}:{self.op}"


def entries() -> list[Entry]:
    """Every operator that has a handler, ONNX's own first, by name."""
    return [_entry(h) for h in sorted(handlers().values(), key=lambda h: (h.domain, h.op))]


def _entry(handler: Handler) -> Entry:
    engine: set[str] = set()
    refusals: dict[tuple[str, str], None] = {}
    for function in _reached(handler.function):
        found = _facts(function)
        engine |= found.engine
        refusals |= dict.fromkeys(found.refusals)
    return Entry(
        handler.op,
        handler.domain,
        handler.since,
        tuple(p.name for p in handler.inputs),
        tuple(p.name for p in handler.inputs if p.form == "Known"),
        tuple(handler.attributes),
        tuple(sorted(engine)),
        tuple(refusals),
        " ".join((inspect.getdoc(handler.function) or "").split()),
    )


# ---------------------------------------------------------------- reading code


@dataclass(frozen=True)
class _Facts:
    engine: frozenset[str]
    refusals: tuple[tuple[str, str], ...]
    callees: tuple[FunctionType, ...]


def _reached(function: Callable[..., Any]) -> Iterator[FunctionType]:
    """A function, and those of ours that it may call, in the order in which they are met."""
    todo: list[Any] = [function]
    seen: set[Any] = set()
    while todo:
        here = todo.pop(0)
        if here in seen or not isinstance(here, FunctionType):
            continue
        seen.add(here)
        yield here
        todo.extend(_facts(here).callees)


@lru_cache(maxsize=4096)
def _facts(function: FunctionType) -> _Facts:
    tree = _tree(function)
    if tree is None:
        return _Facts(frozenset(), (), ())
    engine, callees, refusals = set(), [], []
    declared = {id(made): kind for kind, made in DECLARATIONS.items()}
    for node in ast.walk(tree):
        for named in _members(_resolve(node, function)):
            if id(named) in declared:
                engine.add(declared[id(named)])
            elif isinstance(named, FunctionType) and _ours(named):
                callees.append(named)
            elif isinstance(named, type) and _ours(named):  # what makes one may call any of its methods
                callees += [method for method in vars(named).values() if isinstance(method, FunctionType)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refused":
            kind, sentence = _text(node.args[0]), _text(node.args[1])
            if sentence.strip("… ") and kind.strip("…"):  # others hand on what was said elsewhere
                refusals.append((kind, sentence))
    return _Facts(frozenset(engine), tuple(refusals), tuple(callees))


def _members(named: Any) -> list[Any]:
    """What a name stands for; of a table of functions, the functions."""
    if isinstance(named, Mapping):
        return list(named.values())
    return list(named) if isinstance(named, (tuple, list)) else [] if named is None else [named]


def _ours(function: FunctionType | type) -> bool:
    home = f"{function.__module__}."
    return home.startswith(_LOOKED_THROUGH) and not home.startswith(_NOT)


def _tree(function: FunctionType) -> ast.Module | None:
    """The body alone: decorators and annotations call nothing."""
    try:
        source = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return None
    definition = source.body[0]
    return ast.Module(definition.body, []) if isinstance(definition, ast.FunctionDef) else source


def _resolve(node: ast.AST, function: FunctionType) -> Any:
    """What a name, or a module's attribute, stands for in a function."""
    if isinstance(node, ast.Name):
        return _look_up(node.id, function)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        home = _look_up(node.value.id, function)
        return getattr(home, node.attr, None) if isinstance(home, ModuleType) else None
    return None


def _look_up(name: str, function: FunctionType) -> Any:
    if name in function.__code__.co_freevars and function.__closure__ is not None:
        try:
            return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents
        except ValueError:  # an empty cell
            return None
    return function.__globals__.get(name)


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return "…"


# ---------------------------------------------------------------- tables

_HEAD = """# Operators

<!-- Made by `aneforge ops --markdown`; a test compares. Do not edit: change the handler. -->

{count} operators have an engine form. `aneforge ops OP` says the same of one, `aneforge explain MODEL` of the nodes of a
model.

Of all of them: float tensors (float32, float16) of static shape and rank 1 to 5; an attribute that is not listed by the
operator is refused, never ignored; so are constants with NaN, and what is beyond the limits of the target. Inputs *known
at import* are initializers, constants, and whatever is computed from such and from static shapes alone: nodes that
compute nothing else need no handler and no engine. *Engine operations* are those that some form of the operator becomes.
*Refused* leaves out what holds for all.

An operator without a row that ONNX defines by other operators (LinearAttention, CausalConvWithState, SwiGLU, FlexAttention,
the losses, the windows of signal processing) is imported as that definition, and what stands in its way is named.

| operator | versions | known at import | attributes | engine operations | refused |
| --- | --- | --- | --- | --- | --- |
"""

_USABILITY_HEAD = """<!-- Made by `aneforge ops --usability`, for onnxruntime.tools.mobile_helpers.usability_checker. Do not edit. -->
|Operator|Note|
|--------|------|
"""


def markdown() -> str:
    """docs/operators.md."""
    rows = entries()
    return _HEAD.format(count=len(rows)) + "".join(_row(entry) for entry in rows)


def _row(entry: Entry) -> str:
    title = entry.op if not entry.domain else f"{entry.domain}::{entry.op}"
    note = f"<br/>{_cell(entry.summary)}" if entry.summary else ""
    cells = [
        f"**{title}**{note}",
        ", ".join(map(str, entry.since)),
        ", ".join(entry.constant),
        ", ".join(entry.attributes),
        ", ".join(entry.engine),
        "<br/>".join(f"{_cell(sentence)} ({kind})" for kind, sentence in entry.refusals),
    ]
    return f"| {' | '.join(cells)} |\n"


def usability() -> str:
    """docs/usability_checker_ops.md: `domain:operator` and caveats, in two columns."""
    return _USABILITY_HEAD + "".join(f"|{entry.name}|{_caveats(entry)}|\n" for entry in entries())


def _caveats(entry: Entry) -> str:
    parts = []
    if entry.constant:
        parts.append(f"Constant: {', '.join(entry.constant)}.")
    if entry.refusals:
        parts.append(f"Not: {'; '.join(sentence for _, sentence in entry.refusals)}.")
    return _cell("<br/>".join(parts))


def _cell(text: str) -> str:
    """Text for a cell: a bar would end it."""
    return text.replace("|", "¦").replace("\n", " ")
