"""The engine itself, through Apple's E5 runtime. Not in this release."""

from __future__ import annotations

from typing import NoReturn

from ..errors import BackendUnavailableError
from ..mil import MilFile
from ..targets import Target
from .machine import on_apple_silicon


def compile(mil: MilFile, target: Target) -> NoReturn:
    """Raises BackendUnavailableError: what is missing, and what to use meanwhile."""
    raise BackendUnavailableError(reason())


def reason() -> str:
    """Why the engine cannot be used here."""
    if not on_apple_silicon():
        return "backend 'e5rt' needs macOS on Apple silicon; use backend='host' for emulation"
    return (
        "backend 'e5rt': the engine road lands in a later release; "
        "use backend='host' for emulation, which computes on the CPU"
    )
