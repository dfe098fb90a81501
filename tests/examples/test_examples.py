"""The examples run as a reader runs them, and say what they promise."""

import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.provider.graphs import cnn, interrupted

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str | Path) -> tuple[int, str]:
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"import_and_check.py", "new_head.py"}


class TestImportAndCheck:
    def test_its_own_model(self) -> None:
        code, out = run("import_and_check.py")
        assert code == 0
        (cosine,) = re.findall(r"probabilities \[1, 10\]: cosine with ONNX Runtime's CPU (\S+)", out)
        assert float(cosine) > 0.9999

    @pytest.mark.parametrize(("made", "code", "says"), [(cnn, 0, "cosine"), (interrupted, 1, "'Det' not supported")])
    def test_a_given_model(self, tmp_path: Path, made: object, code: int, says: str) -> None:
        onnx.save(made(), tmp_path / "m.onnx")  # type: ignore[operator]
        got, out = run("import_and_check.py", tmp_path / "m.onnx")
        assert (got, says in out) == (code, True)


def test_new_head() -> None:
    code, out = run("new_head.py")
    assert code == 0
    assert "(1, 1, 24, 24) -> (1, 48)" in out
    (right,) = re.findall(r"([\d.]+)% of 60 new pictures are right", out)
    assert float(right) >= 95
