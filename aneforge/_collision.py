"""Two distributions install a package folder `aneforge/`: this one, `onnxruntime-ep-aneforge`, and one named
`aneforge`. In one environment they overwrite each other's files, and what is left works by accident, if at all.
So both orders are an ImportError that says what to do. The checks look at names of files only.
"""

from __future__ import annotations

import os
from types import ModuleType

OURS = "onnxruntime-ep-aneforge"
# Files of the distribution `aneforge` 0.4.0 directly in the folder, none of which exists here.
_FOREIGN = ("_compile.py", "_runtime.py", "_targets.py", "_capabilities.py", "_op_catalog.py", "graph.py")
_REMEDY = f"pip uninstall -y aneforge && pip install --force-reinstall --no-deps {OURS}"


def check_folder(folder: str) -> None:
    """Raises ImportError if files of the other distribution stand beside this package's own (ours came last)."""
    found = [name for name in _FOREIGN if os.path.exists(os.path.join(folder, name))]
    if found:
        raise ImportError(
            f"{folder} holds two packages: {OURS}, and the distribution named 'aneforge' ({', '.join(found)}). They "
            "have overwritten each other's files and cannot live in one environment. Keep one of them; for this one: "
            f"{_REMEDY}"
        )


def check_package(package: ModuleType) -> None:
    """Raises ImportError if `aneforge/__init__.py` is the other distribution's (theirs came last), or see above."""
    folder = os.path.dirname(__file__)
    if getattr(package, "__distribution__", None) != OURS:
        where = getattr(package, "__file__", None) or folder
        raise ImportError(
            f"{where} belongs to the distribution named 'aneforge', which was installed over {OURS}: both have a "
            f"package of this name and cannot live in one environment. Keep one of them; for this one: {_REMEDY}"
        )
    check_folder(folder)
