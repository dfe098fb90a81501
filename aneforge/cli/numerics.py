"""The page docs/numerics.md, made from the quirk table and from the rules that name its rows."""

from __future__ import annotations

from collections.abc import Iterable

REGENERATE = "aneforge ops --numerics > docs/numerics.md"

_HEAD = """# Numerics

Made by `{regenerate}` from `aneforge/targets/quirks.json`; do not edit.

Values are fp16 between operations (Q01). Products of convolutions and matrix products are added in a wide accumulator and rounded
once (Q02); other sums round at every addition (Q06). Where the engine departs from that, the table has a row. "Measured" is the
source's word: this project has measured nothing. **Host** says what the host backend does with `numerics="engine"`: *imitates* the
row; *poison*: makes the result NaN when `ANEFORGE_POISON=1`, because the engine's value there is wrong in a way that nobody can
predict; *natural*: fp16 arithmetic already behaves so, or nothing is done. **Rules** are those of `passes` that keep the form out of
a program; compositions in `ops` do so, too. `tests/quirks` shows each row, and takes each simulation and each workaround away.

Families: A13 is M1, A14 is M2, A15 is M3, A16 is M4 and M5. A row is applied to more families than it was seen on where sources
conflict or a family was never measured.
"""


def markdown() -> str:
    """The whole page."""
    from ..targets import quirk_table

    rules = _rules()
    rows = list(quirk_table().values())
    host = {row.id: "imitates" if row.simulated else "poison" if row.poisoned else "natural" for row in rows}
    parts = [_HEAD.format(regenerate=REGENERATE)]
    for kind, title in (
        ("numeric", "Other values"),
        ("compile", "The compiler fails"),
        ("process", "Its process, and time"),
    ):
        chosen = [row for row in rows if row.kind == kind]
        parts.append(f"\n## {title}\n\n")
        parts.append("| row | trigger | effect | families | workaround | rules | host | measured |\n")
        parts.append("| --- | --- | --- | --- | --- | --- | --- | --- |\n")
        for row in chosen:
            named = ", ".join(f"`{name}`" for name in rules.get(row.id, ()))
            families = "all" if len(row.families) == 4 else ", ".join(row.families)
            cells = (
                row.id,
                row.trigger,
                row.effect,
                families,
                row.workaround,
                named,
                host[row.id],
                "yes" if row.measured else "no",
            )
            parts.append(f"| {' | '.join(_cell(cell) for cell in cells)} |\n")
    parts.append("\n## Where each row comes from\n\n")
    for row in rows:
        note = f" ({row.note})" if row.note else ""
        parts.append(f"* **{row.id}** {row.source}{note}. Imitation: {row.simulation}.\n")
    counts = [sum(what == word for what in host.values()) for word in ("imitates", "poison", "natural")]
    parts.append(
        f"\n{len(rows)} rows: {counts[0]} imitated, {counts[1]} as poison, {counts[2]} natural or nothing to imitate.\n"
    )
    return "".join(parts)


def _rules() -> dict[str, list[str]]:
    """Row -> names of the rules that name it, for any engine."""
    from ..passes import RULES, rules_of
    from ..targets import resolve, words

    found: dict[str, set[str]] = {}
    for word in words():
        for rule in (*rules_of(resolve(word)), *RULES):
            for row in rule.quirks:
                found.setdefault(row, set()).add(rule.name)
    return {row: sorted(names) for row, names in found.items()}


def _cell(text: str | Iterable[str]) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")
