"""`aneforge doctor`: what is installed, what this machine has, and whether the two fit."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import sys

import aneforge

from .errors import OK, USAGE


def configure(parser: argparse.ArgumentParser) -> None:
    pass


def main(given: argparse.Namespace) -> int:
    """Prints one line a check; 2 if one failed."""
    print(
        f"{aneforge.__distribution__} {aneforge.__version__}, Python {platform.python_version()}, {platform.platform()}"
    )
    for name in ("numpy", "onnx", "onnxruntime", "rich"):
        print(f"  {name} {_version(name)}")
    failed = False
    for what, check in (("native library", _library), ("provider", _provider), ("backend", _backend)):
        try:
            print(f"  {what}: {check()}")
        except Exception as error:  # every failure is one line of the table
            failed = True
            print(f"  {what}: FAILED: {error}", file=sys.stderr)
    return USAGE if failed else OK


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _library() -> str:
    from ..backends import native

    return f"{native.library_path()} {native.load().version()}"


def _provider() -> str:
    import aneforge.provider

    return f"{aneforge.provider.NAME} is registered with onnxruntime"


def _backend() -> str:
    from ..backends import word
    from ..options import Options
    from ..targets import resolve

    target = resolve("auto")
    return f"{word(Options())}; target auto is {target.name} ({target.chips})"
