"""Takes each simulation, poison, workaround and refusal of a quirk away, and says which check notices.

    python tests/quirks/mutate.py

Prints a table; exit status 1 if something can be taken away unnoticed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from place_rows import HAZARDS, POISON
from quirk_rows import CASES, NO_SIMULATION

from aneforge import ops
from aneforge.errors import AneforgeError
from aneforge.ir import RuleSet
from aneforge.targets import Target, quirk_table, resolve


@contextmanager
def without_simulation(row: str) -> Iterator[None]:
    """The host backend no longer imitates a row."""
    real = Target.simulated_quirks.fget
    left = property(lambda self: tuple(q for q in real(self) if q != row))
    with mock.patch.object(Target, "simulated_quirks", left):
        yield


@contextmanager
def without_poison(row: str) -> Iterator[None]:
    """The host backend no longer makes a row NaN."""
    real = Target.poisoned_quirks.fget
    left = property(lambda self: tuple(q for q in real(self) if q != row))
    with mock.patch.object(Target, "poisoned_quirks", left):
        yield


@contextmanager
def without_look(kind: str) -> Iterator[None]:
    """Programs are no longer refused for a form of this operation that is known to be wrong."""
    if kind == "output":
        with mock.patch.object(legalize, "hazard_at_output", lambda name, tensor: None):
            yield
    else:
        with mock.patch.dict(hazards._LOOKS, {kind: lambda op, target: None}):
            yield


@contextmanager
def without(workaround: str) -> Iterator[None]:
    """A workaround is gone. "rule:NAME", from both passes; "composition:NAME", by the form that one would write first;
    "ports", the factor of 1 at outputs."""
    what, _, name = workaround.partition(":")
    if what == "rule":
        rules = legalize._rules
        assert any(r.name == name for t in TARGETS for r in (*rules(t).rules, *optimize.RULES)), name
        with (
            mock.patch.object(
                legalize, "_rules", lambda *given: RuleSet(r for r in rules(*given).rules if r.name != name)
            ),
            mock.patch.object(optimize, "RULES", tuple(r for r in optimize.RULES if r.name != name)),
        ):
            optimize.chosen.cache_clear()
            optimize._settled.cache_clear()
            try:
                yield
            finally:
                optimize.chosen.cache_clear()
                optimize._settled.cache_clear()
    elif what == "composition":
        with mock.patch.object(ops, name, PLAIN[name]):
            yield
    else:
        with mock.patch.object(legalize, "_ports", lambda program: program):
            yield


PLAIN = {
    "reduce_sum_wide": lambda x, axis: ops.matmul(x, [[1.0] * x.shape[-1]], False, True),
    "relu_above": lambda x, alpha: ops.thresholded_relu(x, alpha),
}
# The modules: the package gives their functions the same names.
legalize, optimize, hazards = (import_module(f"aneforge.passes.{name}") for name in ("legalize", "optimize", "hazards"))
TARGETS = [resolve(name) for name in ("m1", "m2", "m3", "m4")]


def mutations() -> Iterator[tuple[str, str, list[tuple[str, Any]]]]:
    """(row, what is taken away, checks that should notice)."""
    for row, quirk in quirk_table().items():
        own = [case for case in CASES if case.row == row]
        if quirk.simulated and row not in NO_SIMULATION:
            yield row, "simulation", [("shows", case) for case in own if case.wrong]
        for workaround in dict.fromkeys(w for case in own for w in case.workarounds):
            yield row, workaround, [("mends", case) for case in own if workaround in case.workarounds]
        if quirk.poisoned:
            yield row, "poison", [("poisons", place) for place in POISON if place.row == row]
        for place in HAZARDS:
            if place.row == row:
                yield row, f"look:{place.what}", [("named", place)]


def taken_away(row: str, what: str) -> AbstractContextManager[None]:
    if what in ("simulation", "poison"):
        return without_simulation(row) if what == "simulation" else without_poison(row)
    return without_look(what.removeprefix("look:")) if what.startswith("look:") else without(what)


def noticed(row: str, what: str, checks: list[tuple[str, Any]]) -> list[str]:
    """The checks that fail without `what`."""
    found = []
    with taken_away(row, what):
        for check, case in checks:
            try:
                getattr(case, check)()
            except (
                AssertionError,
                AneforgeError,
            ):  # another value; or the backend or the target does not take the form
                found.append(f"{check}[{case}]")
    return found


def main() -> int:
    rows = [(row, what, noticed(row, what, checks)) for row, what, checks in mutations()]
    for row, what, found in rows:
        print(f"{row}  {what:32}  {'; '.join(found) or 'NOT NOTICED'}")
    missed = sum(not found for _, _, found in rows)
    print(f"\n{len(rows)} taken away, {missed} not noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
