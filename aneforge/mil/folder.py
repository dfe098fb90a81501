"""A folder that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from .file import MilFile

TEXT, WEIGHTS = "model.mil", "weights.bin"
"""The two files of `save_text`; the text calls the second one `@model_path/weights.bin`."""


def replace(target: Path, fill: Callable[[Path], None]) -> None:
    """Makes a folder beside `target` with `fill`, and moves it there; one that was there is replaced, or stays when
    anything fails. Nothing else is left behind."""
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        fresh, old = work / "new", work / "old"
        fill(fresh)
        if target.exists():
            target.rename(old)
        try:
            fresh.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def save_text(mil: MilFile, path: str | os.PathLike[str]) -> Path:
    """Writes text and blob as the engine's compiler takes them: a folder with model.mil and weights.bin.

    Raises:
        FileExistsError: something is there that is no such folder.
    """
    target = Path(path)
    if target.exists() and not (target.is_dir() and {p.name for p in target.iterdir()} <= {TEXT, WEIGHTS}):
        raise FileExistsError(f"{target} is there and is no folder of a program")

    def fill(folder: Path) -> None:
        folder.mkdir()
        (folder / TEXT).write_text(mil.text, encoding="utf-8")
        (folder / WEIGHTS).write_bytes(mil.blob)

    replace(target, fill)
    return target
