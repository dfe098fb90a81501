"""The stand-in of the engine's runtime for a test: clean before, and after it nothing alive, misused, or left in a folder."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from standin import Standin

from aneforge.backends import guard, pace, probe


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Standin.build(tmp_path_factory.mktemp("standin"))


@pytest.fixture
def guarded(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Standin]:
    """The whole road: the probe, and a child process for each unknown program. Nobody waits after a failure."""
    for key, value in Standin.environment(built, tmp_path).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr(pace, "SECONDS", 0.0)
    control = Standin(built)
    control.reset()
    yield control
    gc.collect()
    assert control.misuse() == ""
    assert control.live() == 0
    assert control.files(tmp_path) == []


@pytest.fixture
def standin(guarded: Standin, monkeypatch: pytest.MonkeyPatch) -> Standin:
    """Compiles in this process alone, so that what is told to go wrong goes wrong here."""
    monkeypatch.setattr(probe, "trouble", lambda house: "")
    monkeypatch.setattr(guard, "admit", lambda mil, target, how, house: None)
    return guarded
