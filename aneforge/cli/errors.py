"""From exceptions to one line on stderr and an exit code. A traceback only with --debug."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..errors import (
    BackendUnavailableError,
    CompileError,
    DynamicShapeError,
    InternalError,
    ModelError,
    OptionError,
    UnsupportedModelError,
)

OK, MODEL, USAGE, CHECK = 0, 1, 2, 3


class UsageError(Exception):
    """The command was given something that it cannot use."""


class CheckError(Exception):
    """The model ran, and a check of its results failed."""


@dataclass
class Outcome:
    code: int = OK


# The first that fits decides; NotImplementedError and ValueError come after their children.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (UnsupportedModelError, MODEL),
    (ModelError, MODEL),
    (DynamicShapeError, MODEL),
    (CompileError, MODEL),
    (CheckError, CHECK),
    (FloatingPointError, CHECK),
    (OptionError, USAGE),
    (UsageError, USAGE),
    (BackendUnavailableError, USAGE),
    (NotImplementedError, USAGE),
    (ImportError, USAGE),
    (OSError, USAGE),
)


@contextmanager
def explained(debug: bool) -> Iterator[Outcome]:
    """Runs a command; whatever it raises becomes the outcome's code and a line on stderr."""
    outcome = Outcome()
    try:
        yield outcome
    except KeyboardInterrupt:
        outcome.code = 130
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone: nothing more to say
    except Exception as error:
        if debug:
            raise
        outcome.code, text = _explain(error)
        print(f"aneforge: error: {text}", file=sys.stderr)


def _explain(error: Exception) -> tuple[int, str]:
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code, str(error)
    if type(error).__module__.startswith("onnxruntime"):
        return MODEL, f"onnxruntime: {error}"
    if isinstance(error, InternalError):
        return MODEL, f"a bug of aneforge: {error}"
    return USAGE, f"a bug of aneforge: {type(error).__name__}: {error} (--debug shows where)"
