"""What rewrite rules say about a program at rest, when somebody asks: where they nearly fired, and blocks that they
know by name.

A rule says so in passing, with `miss` or `recognize`, and returns None as ever. Nothing is kept, and nothing but a look
at one variable is spent, unless `rewrite` was given a `Notes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .core import Op, Origin, Tensor
from .program import Program

if TYPE_CHECKING:
    from .rewrite import Rule

Said = list[tuple[str, tuple[Tensor, ...]]]
_said: ContextVar[Said | None] = ContextVar("aneforge_said", default=None)
_KNOWN = ""


def miss(condition: str, *where: Tensor) -> Tensor | None:
    """Says why the rule that is looking does not fire although its pattern is nearly there; returns None.

    Args:
        condition: what failed, as a sentence about the model: "the sigmoid has another reader".
        where: results of the operations that are meant, beside the one that the rule is anchored at.
    """
    said = _said.get()
    if said is not None:
        said.append((condition, where))
    return None


def recognize(*where: Tensor) -> Tensor | None:
    """Says that the operations that make `where`, with the rule's anchor, are the block that the rule is named after;
    returns None."""
    said = _said.get()
    if said is not None:
        said.append((_KNOWN, where))
    return None


@dataclass(frozen=True)
class Near:
    """A rule that nearly fired: the condition that failed, and the nodes of the model that are meant."""

    rule: Rule
    condition: str
    origin: Origin


@dataclass
class Notes:
    """Filled by `rewrite`, of the program as it leaves it."""

    near: list[Near] = field(default_factory=list)
    blocks: list[tuple[Rule, Origin]] = field(default_factory=list)
    _said: Said = field(default_factory=list)

    @contextmanager
    def listening(self) -> Iterator[None]:
        token = _said.set(self._said)
        try:
            yield
        finally:
            _said.reset(token)

    def forget(self) -> None:
        """The program has changed: what was said of it no longer holds."""
        self.near.clear()
        self.blocks.clear()

    @property
    def heard(self) -> bool:
        """Whether a rule has said something since the last `take`."""
        return bool(self._said)

    def take(self, rule: Rule, op: Op, program: Program, fired: bool) -> None:
        """Files what `rule` said while it looked at `op`; a rule that fired did not miss."""
        for condition, where in () if fired else self._said:
            origin = program.origins(op).union(*(program.origins(tensor.op) for tensor in where))
            if condition == _KNOWN:
                self.blocks.append((rule, origin))
            elif (near := Near(rule, condition, origin)) not in self.near:
                self.near.append(near)
        self._said.clear()
