"""The one ordered list of rewrites, and the switch that says which of them run."""

from __future__ import annotations

import difflib
from functools import lru_cache
from typing import Protocol

from ..errors import OptionError
from ..ir import Fired, Notes, Program, Rule, RuleSet, rewrite
from . import arithmetic, attention, blocks, folding, functions, layout, masks, movement, norms

RULES: tuple[Rule, ...] = (
    *masks.RULES,
    *attention.RULES,
    *norms.RULES,
    *functions.RULES,
    *folding.RULES,
    *layout.RULES,
    *movement.RULES,
    *arithmetic.RULES,
    *blocks.RULES,
    *movement.MOVES,
)
"""Where two rules match one Op, the earlier wins: what must be kept safe, then whole functions, then folding, then
tidying.
"""


@lru_cache(maxsize=64)
def chosen(opt: str, fused: bool | None = None) -> RuleSet:
    """The rules that `opt` leaves on: all for routes, max, 1, 2; the required ones for 0; all but the named ones for
    "-name,…", where a name may be that of a group. `fused`: see `optimize`.

    Raises:
        OptionError: no rule has a name that is switched off, or it is required.
    """
    word = opt.strip().lower()
    if word in ("routes", "max", "1", "2", ""):
        return RuleSet(_offered(fused))
    if word == "0":
        return RuleSet(r for r in RULES if r.required)
    names = {r.name: r for r in RULES}
    groups = {r.group: {each.name for each in RULES if each.group == r.group} for r in RULES if r.group}
    off = set()
    for part in filter(None, word.split(",")):
        name = part.strip().removeprefix("-")
        if part.strip().startswith("-") and name in groups:
            off |= groups[name]
            continue
        if name not in names or not part.strip().startswith("-"):
            all_names = [*names, *groups]
            near = difflib.get_close_matches(name, all_names, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(all_names)}"
            raise OptionError(f"option 'opt': no rewrite {name!r}; {hint}")
        if names[name].required:
            raise OptionError(f"option 'opt': {name!r} keeps programs right and cannot be switched off")
        off.add(name)
    return RuleSet(r for r in _offered(fused) if r.name not in off)


def _offered(fused: bool | None) -> list[Rule]:
    """RULES, with attention's as asked for."""
    own = {} if fused is None else {attention.RULES[0]: attention.sdpa_rule(fused)}
    return [own.get(r, r) for r in RULES if r in own or r not in attention.RULES]


class HasOpt(Protocol):
    """Options, as far as they matter here."""

    @property
    def opt(self) -> str: ...


def optimize(
    program: Program, options: str | HasOpt = "routes", notes: Notes | None = None, fused: bool | None = None
) -> tuple[Program, list[Fired]]:
    """Rewrites a program into one that computes the same, faster or safer.

    In two steps: all rules but those that move transposes, to the end; then all, which is kept if it leaves less to
    transpose, and nothing longer than every engine takes.

    `options` is the option table's `opt`, or an object that carries it. `notes` is filled with what the rules say of the
    result: where they nearly fired, and blocks that they know.

    `fused`: attention may become one operation, with a mask (True) or without (False); None: it stays as it is.

    Returns the program, and for each firing the rule and the origins of what it replaced.
    """
    opt = options if isinstance(options, str) else options.opt
    program, fired = rewrite(program, _settled(opt, fused), notes)
    before = movement.moved_elements(program)
    if before:
        said = None if notes is None else Notes()
        moved, more = rewrite(program, chosen(opt, fused), said)
        if movement.moved_elements(moved) < before and (movement.fits(moved) or not movement.fits(program)):
            if notes is not None and said is not None:
                notes.near, notes.blocks = said.near, said.blocks
            return moved, fired + more
    return program, fired


@lru_cache(maxsize=64)
def _settled(opt: str, fused: bool | None) -> RuleSet:
    """`chosen` without the rules that move transposes."""
    return RuleSet(r for r in chosen(opt, fused).rules if r not in movement.MOVES)
