"""`import aneforge`: the names, that they are lazy, and one version."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import aneforge as af


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_name_is_there() -> None:
    for name in af.__all__:
        assert getattr(af, name) is not None
    assert set(af.__all__) <= set(dir(af))
    assert af.__all__ == sorted(af.__all__)


def test_one_version() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert af.__version__ == project["version"]
    assert af.__distribution__ == project["name"]
    header = Path(__file__).parents[2] / "native" / "core" / "version.h"
    assert f'"{af.__version__}"' in header.read_text()


def test_import_takes_nothing_along() -> None:
    heavy = ["numpy", "onnx", "onnxruntime", "rich", "aneforge.ops"]
    assert python(f"import sys, aneforge; print([m for m in {heavy} if m in sys.modules])") == "[]"


def test_by_hand_needs_neither_onnx_nor_onnxruntime() -> None:
    code = (
        "import sys, numpy as np; sys.modules['onnx'] = sys.modules['onnxruntime'] = None\n"
        "import aneforge as af; print(af.compile(af.input((2,)).relu())(np.array([-1, 3], np.float32)).tolist())"
    )
    assert python(code) == "[0.0, 3.0]"


def test_import_is_fast() -> None:
    code = "import numpy, time; start = time.perf_counter(); import aneforge; print(time.perf_counter() - start)"
    assert min(float(python(code)) for _ in range(3)) < 0.1


@pytest.mark.parametrize("name", ["SGD", "load_resnet", "fft", "affine", "estimate", "CompileBackoffError", "op_info"])
def test_names_of_the_other_distribution_say_why_not(name: str) -> None:
    with pytest.raises(AttributeError, match=f"aneforge.{name} is of the distribution 'aneforge'"):
        getattr(af, name)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = af.nonsense
