"""Each row of the quirk table: shown, worked around, and neither could be taken away unnoticed (see quirk_rows.py)."""

from __future__ import annotations

import pytest
from mutate import TARGETS, legalize, mutations, noticed
from quirk_rows import CASES, NO_CASE, NO_SIMULATION

from aneforge.backends import native
from aneforge.errors import BackendUnavailableError
from aneforge.passes import RULES
from aneforge.targets import quirk_table

try:
    native.load()
except (BackendUnavailableError, ImportError, OSError):  # pragma: no cover - a checkout without the native library
    pytest.skip("the native library is not built", allow_module_level=True)

MUTATIONS = list(mutations())


@pytest.mark.parametrize("case", [c for c in CASES if c.wrong], ids=str)
def test_shows(case):
    case.shows()


@pytest.mark.parametrize("case", [c for c in CASES if c.workarounds], ids=str)
def test_mends(case):
    case.mends()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: f"{m[0]} without {m[1]}")
def test_nothing_is_taken_away_unnoticed(mutation):
    assert noticed(*mutation)


def test_every_row_is_here_or_says_why_not():
    rows = set(quirk_table())
    assert {c.row for c in CASES} | set(NO_CASE) == rows
    assert not {c.row for c in CASES} & set(NO_CASE)
    simulated = {row for row, quirk in quirk_table().items() if quirk.simulated}
    assert {row for row, what, _ in MUTATIONS if what == "simulation"} | set(NO_SIMULATION) == simulated


def test_every_rule_that_names_a_row_is_taken_away_once():
    tried = {what.removeprefix("rule:") for _, what, _ in MUTATIONS}
    named = {r.name for t in TARGETS for r in (*legalize._rules(t).rules, *RULES) if r.quirks}
    elsewhere = {
        "moments-norm",
        "affine-norm",
        "sdpa",
    }  # they lead to unit-variance; sdpa makes what `attention` unmakes
    assert named - tried - elsewhere == set()
