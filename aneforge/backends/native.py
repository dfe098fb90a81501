"""The native library: one file, opened once, the same that ONNX Runtime is given."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from ..errors import BackendUnavailableError


def library_path() -> Path:
    """Where libaneforge_ep stands, whether it is there or not."""
    suffix = ".dylib" if sys.platform == "darwin" else ".so"
    return Path(__file__).parent.parent / f"libaneforge_ep{suffix}"


@cache
def load() -> ModuleType:
    """The module `aneforge._native`, with the library open.

    Raises:
        BackendUnavailableError: one of the two is missing or does not load here.
    """
    try:
        module = importlib.import_module("aneforge._native")
        module.open(str(library_path()))
    except ImportError as error:
        raise BackendUnavailableError(
            f"the native part of onnxruntime-ep-aneforge does not load here: {error}; install the package anew"
        ) from error
    return module
