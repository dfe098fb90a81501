"""The distribution named `aneforge` in the same place, before or after ours: a clear ImportError on every door."""

import subprocess
import sys
from pathlib import Path

import pytest

import aneforge
import aneforge.partitioner
import aneforge.provider
from aneforge import _collision


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder like site-packages, with this package in it (by links)."""
    package = tmp_path / "aneforge"
    package.mkdir()
    for entry in Path(aneforge.__file__).parent.iterdir():
        (package / entry.name).symlink_to(entry)
    for part in (aneforge.partitioner, aneforge.provider):
        folder = Path(str(part.__file__)).parent
        if not (package / folder.name).exists():
            (package / folder.name).symlink_to(folder)
    return tmp_path


def python(site: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(site)!r}); {code}"],
        capture_output=True, text=True, check=False, timeout=120, cwd=site,
    )  # fmt: skip


DOORS = ["import aneforge.provider", "import aneforge.cli; sys.exit(aneforge.cli.main(['ops']))"]


@pytest.mark.parametrize("door", [*DOORS, "import aneforge"])
def test_undisturbed(site: Path, door: str) -> None:
    done = python(site, door)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("door", [*DOORS, "import aneforge"])
def test_ours_came_last(site: Path, door: str) -> None:
    (site / "aneforge" / "_runtime.py").write_text("")
    done = python(site, door)
    assert done.returncode != 0
    assert "holds two packages" in done.stderr
    assert "pip uninstall -y aneforge" in done.stderr


@pytest.mark.parametrize("door", DOORS)
def test_theirs_came_last(site: Path, door: str) -> None:
    (site / "aneforge" / "__init__.py").unlink()
    (site / "aneforge" / "__init__.py").write_text("def load_onnx(path): ...\n")
    done = python(site, door)
    assert done.returncode != 0
    assert "was installed over onnxruntime-ep-aneforge" in done.stderr
    assert "pip uninstall -y aneforge" in done.stderr


def test_none_of_their_files_is_ours() -> None:
    folder = Path(aneforge.__file__).parent
    assert not [name for name in _collision._FOREIGN if (folder / name).exists()]
