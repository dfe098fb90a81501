"""Under ANEFORGE_POISON what the engine gets wrong is NaN: the plain form shows it, and what is lowered has no such place."""

import pytest
from place_rows import POISON
from quirk_rows import CASES

from aneforge.backends import native
from aneforge.errors import BackendUnavailableError
from aneforge.targets import quirk_table

try:
    native.load()
except (BackendUnavailableError, ImportError, OSError):  # pragma: no cover - a checkout without the native library
    pytest.skip("the native library is not built", allow_module_level=True)


@pytest.mark.parametrize("place", POISON, ids=str)
def test_poison(place):
    place.poisons()


def test_every_row_with_poison_is_here():
    assert {place.row for place in POISON} == {row for row, quirk in quirk_table().items() if quirk.poisoned}


def test_the_lowering_of_every_case_is_free_of_poison(monkeypatch):
    monkeypatch.setenv("ANEFORGE_POISON", "1")
    for case in CASES:
        if case.workarounds:
            case.mends()
