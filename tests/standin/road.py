"""Makes "auto" the engine's road over the stand-in, in this process and those that it starts.

numerics="fp32", which the engine has not, stays on the host.
"""

from __future__ import annotations

import os
from pathlib import Path

from standin import Standin


def take(folder: Path, family: str = "A16", guarded: bool = True) -> None:
    """Builds the stand-in in `folder`, which is the user's cache folder from now on.

    Args:
        family: of the chip, as in families.py.
        guarded: compile unknown programs in a child process first; without, thousands of them are done in a minute.
    """
    os.environ.update(Standin.environment(Standin.build(folder), folder), STANDIN_FAMILY=family)
    from aneforge import backends  # noqa: PLC0415 - after the environment is set

    backends.pace.SECONDS = 0.0  # some programs are meant not to compile; nobody wants to wait after them
    if not guarded:
        backends.guard.admit = lambda *given: None
    choose = backends.choose
    backends.on_apple_silicon = lambda: True
    backends.choose = lambda options: (
        "host" if options.backend == "auto" and options.numerics == "fp32" else choose(options)
    )
