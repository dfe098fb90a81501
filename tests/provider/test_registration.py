"""Registering, and the names of the packaging guide."""

import os
import subprocess
import sys
from pathlib import Path

import onnxruntime as ort
import pytest

import aneforge
import aneforge.provider
from aneforge.provider import registration
from tests.provider.graphs import cnn, session


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)


def test_names() -> None:
    assert aneforge.provider.get_ep_name() == "ANEForgeProvider"
    assert aneforge.provider.get_ep_names() == ["ANEForgeProvider"]
    assert aneforge.provider.version() == aneforge.__version__
    path = aneforge.provider.get_library_path()
    assert os.path.isabs(path)
    assert Path(path).is_file()
    assert "ANEForgeProvider" in ort.get_available_providers()


def test_registering_again_does_nothing() -> None:
    aneforge.provider.register()
    aneforge.provider.register()
    assert sum(d.ep_name == "ANEForgeProvider" for d in ort.get_ep_devices()) == 1


def test_importing_does_not_change_what_sessions_use_by_default() -> None:
    made = ort.InferenceSession(cnn().SerializeToString())
    assert "ANEForgeProvider" not in made.get_providers()


def test_import_is_light() -> None:
    """Registering takes neither onnx nor the importer; those come with the first session."""
    done = python(
        "import sys, aneforge.provider; print([m for m in sys.modules if m in ('onnx', 'rich', 'aneforge.ops')])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_unregister_is_refused_while_a_session_lives() -> None:
    kept = session(cnn())
    with pytest.raises(RuntimeError, match="alive"):
        aneforge.provider.unregister()
    assert kept.get_providers()[0] == "ANEForgeProvider"


def test_unregister_and_register() -> None:
    done = python(
        "import onnxruntime as ort, aneforge.provider as p\n"
        "p.unregister(); print('ANEForgeProvider' in ort.get_available_providers())\n"
        "p.unregister(); p.register(); p.register(); print('ANEForgeProvider' in ort.get_available_providers())"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "True"]


def test_a_session_alive_at_exit() -> None:
    done = python(
        "import onnxruntime as ort, aneforge.provider, builtins\n"
        "from tests.provider.graphs import *\n"
        "builtins.kept = session(cnn()); kept.run(None, {'x': floats(1, 3, 8, 8)}); print('ran')"
    )
    assert (done.returncode, done.stdout.strip()) == (0, "ran"), done.stderr


@pytest.mark.parametrize("version", ["1.25.1", "1.9.0"])
def test_old_onnxruntime(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(ort, "__version__", version)
    with pytest.raises(ImportError, match=rf"needs onnxruntime >= 1\.26, and this is {version}.*pip install"):
        registration.register()


def test_no_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"needs onnxruntime >= 1\.26: pip install"):
        registration.register()


def test_the_library_without_python_hooks_claims_nothing_and_says_why() -> None:
    done = python(
        "import onnxruntime as ort\n"
        "from aneforge.backends import native\n"
        "from tests.provider.graphs import *\n"
        "ort.register_execution_provider_library('ANEForgeProvider', str(native.library_path()))\n"
        "s = ort.InferenceSession(cnn().SerializeToString(), providers=['ANEForgeProvider'], enable_fallback=False)\n"
        "print(s.run(None, {'x': floats(1, 3, 8, 8)})[0].shape)"
    )
    assert done.stdout.strip() == "(1, 5)", done.stderr
    assert done.stderr.count("claims no node") == 1
