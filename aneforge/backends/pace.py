"""After a failed compilation the service behind the engine's compiler starts anew, for seconds. Failures that come faster than
that stall every process of the machine; so the next compilation waits (docs/engine.md)."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from pathlib import Path

from ..cache import Cache

log = logging.getLogger("aneforge.backends")

SECONDS = 15.0
"""Between a failure and the next compilation; a success in between ends it."""


def wait(house: Cache) -> None:
    """Returns when the next compilation may start."""
    try:
        since = time.time() - _mark(house).stat().st_mtime
    except OSError:
        return
    left = min(SECONDS, SECONDS - since)
    if left > 0:
        log.info("a compilation for the engine failed %.0f s ago; the next starts in %.0f s", since, left)
        time.sleep(left)


def failed(house: Cache) -> None:
    with suppress(OSError):  # a folder that cannot be written is another one's complaint
        _mark(house).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _mark(house).touch(mode=0o600)


def succeeded(house: Cache) -> None:
    with suppress(OSError):
        _mark(house).unlink()


def _mark(house: Cache) -> Path:
    """An empty file whose time is that of the last failure; one for each machine that shares the folder."""
    return house.root / "locks" / f"e5rt-failed-{house.work.name}"
