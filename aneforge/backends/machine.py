"""Which machine this is."""

from __future__ import annotations

import platform
import sys


def on_apple_silicon() -> bool:
    """macOS on arm64, this process not translated."""
    return sys.platform == "darwin" and platform.machine() == "arm64"
