"""Registering the native library with ONNX Runtime, and the names that its packaging guide asks for."""

from __future__ import annotations

import threading
from typing import Any

import aneforge
from aneforge.backends import native

NAME = "ANEForgeProvider"
MINIMUM = (1, 26)  # the first with providers=[(name, options)] for plugins and an honest get_provider_options()

_lock = threading.Lock()


def get_library_path() -> str:
    """Absolute path of the native library, for `onnxruntime.register_execution_provider_library`. Any program can load
    it; without this module in the process it claims no node, and says so."""
    return str(native.library_path().resolve())


def get_ep_name() -> str:
    """The provider's name in `providers=[...]`."""
    return NAME


def get_ep_names() -> list[str]:
    """The names of all providers in the library: one."""
    return [NAME]


def version() -> str:
    """Version of this package."""
    return aneforge.__version__


def register() -> None:
    """Makes "ANEForgeProvider" known to ONNX Runtime. Importing `aneforge.provider` does it; again does nothing.

    Raises:
        ImportError: no onnxruntime, or one older than 1.26.
        BackendUnavailableError: the native library is missing or does not load here.
    """
    with _lock:
        onnxruntime = _onnxruntime()
        module = native.load()
        module.install(_capability)
        if NAME not in onnxruntime.get_available_providers():
            onnxruntime.register_execution_provider_library(NAME, get_library_path())


def unregister() -> None:
    """Takes the provider away from ONNX Runtime again. There is hardly a reason to.

    Never while a session with the provider lives: ONNX Runtime would crash when that session ends. So that is refused.

    Raises:
        RuntimeError: such a session is alive.
    """
    with _lock:
        onnxruntime = _onnxruntime()
        if live := native.load().live_eps():
            raise RuntimeError(f"{len(live)} session(s) with {NAME} are alive; delete them before unregistering it")
        if NAME in onnxruntime.get_available_providers():
            onnxruntime.unregister_execution_provider_library(NAME)


def _onnxruntime() -> Any:
    needed = ".".join(map(str, MINIMUM))
    try:
        import onnxruntime  # noqa: PLC0415 - so that its absence is our message
    except ImportError as error:
        raise ImportError(
            f"aneforge.provider needs onnxruntime >= {needed}: pip install 'onnxruntime>={needed}'"
        ) from error
    found = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
    if found < MINIMUM:
        raise ImportError(
            f"aneforge.provider needs onnxruntime >= {needed}, and this is {onnxruntime.__version__}: "
            f"pip install -U 'onnxruntime>={needed}'"
        )
    return onnxruntime


def _capability(ep: int, parent_op: str, model_path: str, model: bytes, options: dict[str, str]) -> dict[str, Any]:
    from .capability import capability  # noqa: PLC0415 - imports onnx and all the rest, not before a session needs it

    return capability(ep, parent_op, model_path, model, options)
