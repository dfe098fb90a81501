"""The rewrite engine: rules anchored at one Op, applied operands first, until nothing fires.

A rule is a name, a reason, the kinds of Op it looks at, and a function that returns the replacement of the Op's
results, or None. Replaced Ops hand their origins to what replaces them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .core import Op, Origin, Tensor, only_origin
from .notes import Notes
from .program import Program, topological

Replacement = Tensor | Sequence[Tensor] | None
Fired = tuple["Rule", Origin]

_ROUNDS = 50
_CHAIN = 20
_DEPTH = 12


def _never(tensor: Tensor) -> int:
    return 0


class Uses:
    """How often a tensor is read, as known while a program is being rewritten."""

    def __init__(self, program: Program | None = None) -> None:
        self._count = program.uses if program is not None else _never
        self._counts: dict[Tensor, int] = {}
        self._program = program
        self._readers: dict[Tensor, list[Op]] | None = None

    def readers(self, tensor: Tensor) -> tuple[Op, ...]:
        """The Ops that read a tensor of the program as it was before this round of rewriting."""
        if self._readers is None:
            found: dict[Tensor, list[Op]] = {}
            for op in self._program.ops if self._program is not None else ():
                for source in dict.fromkeys(op.sources):
                    found.setdefault(source, []).append(op)
            self._readers = found
        return tuple(self._readers.get(tensor, ()))

    def moved(self, old: Tensor, new: Tensor) -> None:
        if new is not old:
            self._counts[new] = self._counts.get(new, 0) + self._count(old)

    def __call__(self, tensor: Tensor) -> int:
        """1 for a tensor that a rule just made and nobody else can know."""
        return self._counts.get(tensor, 0) + self._count(tensor) or 1


@dataclass(frozen=True)
class Rule:
    """`apply(op, uses)` returns what replaces the results of `op` (same types), or None to leave it.

    `required` rules keep a program right or compilable, and are not switched off with the optimizations.
    """

    name: str
    reason: str
    kinds: frozenset[str]
    apply: Callable[[Op, Uses], Replacement] = field(compare=False)
    required: bool = False
    quirks: tuple[str, ...] = ()
    """Rows of the quirk table that the rule works around."""
    group: str = ""
    """A word that switches several rules off together."""


def rule(
    name: str, kinds: str | Iterable[str], reason: str, *, required: bool = False, quirks: str = "", group: str = ""
) -> Callable[[Callable[[Op, Uses], Replacement]], Rule]:
    """Makes a Rule of the function below it. `kinds` and `quirks`: words separated by blanks."""
    anchors = frozenset(kinds.split() if isinstance(kinds, str) else kinds)

    def make(apply: Callable[[Op, Uses], Replacement]) -> Rule:
        return Rule(name, reason, anchors, apply, required, tuple(quirks.split()), group)

    return make


class RuleSet:
    """Rules in order, found by the kind that they look at."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self.by_kind: dict[str, list[Rule]] = {}
        for each in self.rules:
            for kind in each.kinds:
                self.by_kind.setdefault(kind, []).append(each)

    def fires(self, op: Op, uses: Uses) -> bool:
        """Whether some rule would replace `op`."""
        return any(each.apply(op, uses) is not None for each in self.by_kind.get(op.kind, ()))


def rewrite(
    program: Program, rules: Iterable[Rule] | RuleSet, notes: Notes | None = None
) -> tuple[Program, list[Fired]]:
    """Applies `rules` (the earlier wins where two match) until none fires.

    Returns the program and, for each firing, the rule and the origins of what it replaced. `notes`, if given, is filled
    with what the rules say of the program in the end.

    Raises:
        TypeError: a rule returned another type than what it replaced.
        RuntimeError: the rules never come to rest.
    """
    by_kind = (rules if isinstance(rules, RuleSet) else RuleSet(rules)).by_kind
    fired: list[Fired] = []
    for _ in range(_ROUNDS):
        if notes is None:
            program, news = _sweep(program, by_kind, None)
        else:
            notes.forget()
            with notes.listening():
                program, news = _sweep(program, by_kind, notes)
        fired += news
        if not news:
            return program, fired
    names = sorted({each.name for each, _ in news})
    raise RuntimeError(f"rewriting does not come to rest; still firing: {', '.join(names)}")


def _sweep(program: Program, by_kind: Mapping[str, list[Rule]], notes: Notes | None) -> tuple[Program, list[Fired]]:
    moved: dict[Tensor, Tensor] = {}
    known: set[Op] = set(program.ops)
    uses = Uses(program)
    fired: list[Fired] = []
    for op in program.ops:
        current = op
        if moved:
            sources = [moved.get(source, source) for source in op.sources]
            if any(new is not old for new, old in zip(sources, op.sources, strict=True)):
                current = op.with_sources(sources, program.origins(op))
                known.add(current)
                for old, new in zip(op.outputs, current.outputs, strict=True):
                    moved[old] = new
                    uses.moved(old, new)
        # Rules may chain on one Op: what replaced it may itself be the anchor of another.
        for _ in range(_CHAIN):
            rules = by_kind.get(current.kind)
            step = _first(rules, current, uses, program, known, notes) if rules else None
            if step is None:
                break
            each, results, marks = step
            fired.append((each, marks))
            for old, new in zip(op.outputs, results, strict=True):
                moved[old] = new
                uses.moved(old, new)
            current = results[0].op
            if current.is_leaf or results != current.outputs:
                break
    if not fired:
        return program, fired
    outputs = [(name, moved.get(tensor, tensor)) for name, tensor in program.outputs]
    return Program(program.inputs, outputs, program.origin_table), fired


def _first(
    rules: Sequence[Rule], op: Op, uses: Uses, program: Program, known: set[Op], notes: Notes | None
) -> tuple[Rule, tuple[Tensor, ...], Origin] | None:
    with only_origin(program.origins(op)):
        for each in rules:
            made = each.apply(op, uses)
            if notes is not None and notes.heard:
                notes.take(each, op, program, made is not None)
            if made is None:
                continue
            results = (made,) if isinstance(made, Tensor) else tuple(made)
            if tuple(r.type for r in results) != op.types:
                got = ", ".join(str(r.type) for r in results)
                raise TypeError(f"rule {each.name!r} replaced {op!r} by {got}")
            if results != op.outputs:
                return (each, *_adopt(op, results, program, known))
    return None


def _adopt(op: Op, results: tuple[Tensor, ...], program: Program, known: set[Op]) -> tuple[tuple[Tensor, ...], Origin]:
    """Gives the Ops that are new in `results` the origins of those that they replace: `op`, and what stood between it
    and the tensors that both the old and the new form read."""
    new = topological(results, known)
    frontier = {s for fresh in new for s in fresh.sources if s.op in known} | {r for r in results if r.op in known}
    marks = program.origins(op)
    for between in _between(op, frontier):
        marks |= program.origins(between)
    moved: dict[Tensor, Tensor] = {}
    for fresh in new:
        made = fresh.with_sources([moved.get(s, s) for s in fresh.sources], marks)
        moved.update(zip(fresh.outputs, made.outputs, strict=True))
        known.add(made)
    return tuple([moved.get(r, r) for r in results]), marks


def _between(op: Op, frontier: set[Tensor]) -> list[Op]:
    """Ops below `op` (itself left out) on a way to a tensor of `frontier`. Bounded in depth, as what a rule looks at
    is.
    """
    found: list[Op] = []
    reaches: dict[Op, bool] = {}
    stack: list[tuple[Op, bool, int]] = [(op, False, 0)]
    while stack:
        here, done, depth = stack.pop()
        if done:
            reaches[here] = any(s in frontier or reaches.get(s.op, False) for s in here.sources)
            if reaches[here] and here is not op:
                found.append(here)
        elif here not in reaches:
            reaches[here] = False
            stack.append((here, True, depth))
            if depth < _DEPTH:
                stack.extend(
                    (s.op, False, depth + 1) for s in here.sources if s not in frontier and s.op not in reaches
                )
    return found
