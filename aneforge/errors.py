"""Every exception of this package.

    AneforgeError
    ├── ModelError (ValueError)                      the file is missing, corrupt, or not a valid ONNX graph
    ├── UnsupportedModelError (NotImplementedError)  valid, but some nodes have no engine form; lists every one
    ├── DynamicShapeError (ValueError)               an input's extent is not fixed; says how to fix it
    ├── OptionError (ValueError)                     an unknown option, or a value that an option does not take
    │   └── ReportError                              a file is no report of `aneforge doctor`
    ├── CompileError (RuntimeError)                  a backend did not compile a program
    ├── BackendUnavailableError (RuntimeError)       the backend asked for is not on this machine
    ├── InternalError (RuntimeError)                 a bug of ours, with the node that showed it
    └── Refused                                      raised by a handler: this node stays on the CPU, and why

and every warning: PrecisionWarning, DispatchFloorWarning (UserWarning). A message says what, where, why, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ReasonKind = Literal[
    "operator",  # no handler for this operator (domain, name, version)
    "computed parameter",  # an input that must be known at import is computed at run time
    "dynamic shape",  # an extent is not known
    "data type",  # a type that the engine does not compute in
    "attribute form",  # an attribute or combination of attributes without an engine form
    "rank",  # outside 1..5
    "limit",  # a limit of the target (extent, kernel, count)
    "no engine form",  # the engine has nothing for it
    "policy",  # could run, but is not worth it or not wanted (partition rules, options)
    "compile",  # the backend refused the compiled region
    "bug",  # our fault
]


@dataclass(frozen=True)
class Reason:
    """Why a node is not on the engine: a kind from a short list and a sentence for the user."""

    kind: ReasonKind
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class RefusedNode:
    """One node that has no engine form."""

    name: str
    op: str
    domain: str
    reason: Reason


class AneforgeError(Exception):
    """Root of all exceptions raised on purpose by this package."""


class ModelError(AneforgeError, ValueError):
    """The model cannot be read, or is not valid ONNX."""


class OptionError(AneforgeError, ValueError):
    """An unknown option, or a value that the option does not take."""


class ReportError(OptionError):
    """A file is no report of `aneforge doctor`, or one that cannot be taken over. Says what is wrong with it."""


class DynamicShapeError(AneforgeError, ValueError):
    """An extent that must be fixed is not."""


class CompileError(AneforgeError, RuntimeError):
    """A backend refused or failed to compile a program."""


class BackendUnavailableError(AneforgeError, RuntimeError):
    """The backend asked for does not exist on this machine, or not yet in this release."""


class InternalError(AneforgeError, RuntimeError):
    """A bug of this package."""


class Refused(AneforgeError):
    """Raised by a handler or by a composition: the node stays on the CPU, for this reason."""

    def __init__(self, kind: ReasonKind, text: str) -> None:
        super().__init__(text)
        self.reason = Reason(kind, text)


class UnsupportedModelError(AneforgeError, NotImplementedError):
    """A model that does not load strictly. `nodes` lists every refused node.

    The text for a single unknown operator reads ``ONNX op 'X' not supported``.
    """

    def __init__(self, nodes: Sequence[RefusedNode], model: str = "") -> None:
        self.nodes = tuple(nodes)
        super().__init__(_describe(self.nodes, model))


def _describe(nodes: Sequence[RefusedNode], model: str) -> str:
    def head(node: RefusedNode) -> str:
        op = f"{node.domain}::{node.op}" if node.domain not in ("", "ai.onnx") else node.op
        if node.reason.kind == "operator":
            return f"ONNX op '{op}' not supported"
        return f"ONNX op '{op}' not supported here: {node.reason.text}"

    def line(node: RefusedNode) -> str:
        return f"{head(node)} (node {node.name!r})" if node.name else head(node)

    if len(nodes) == 1:
        return line(nodes[0])
    where = f" of {model}" if model else ""
    return f"{len(nodes)} nodes{where} have no engine form:\n" + "\n".join(f"  {line(n)}" for n in nodes)


class PrecisionWarning(UserWarning):
    """A compiled graph may lose what matters in fp16 for some inputs, by the ranges of its values. `validate=True` makes
    it a ValueError."""


class DispatchFloorWarning(UserWarning):
    """A program for the engine is so small that the fixed cost of a call is nearly all of it: more work in a call (a
    larger batch, a longer program) costs next to nothing."""
