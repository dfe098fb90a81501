"""Runs over_the_standin.py where no other test has opened a runtime library yet."""

import subprocess
import sys
from pathlib import Path

import pytest
from standin import COMPILER

pytestmark = pytest.mark.skipif(not COMPILER or sys.platform != "linux", reason="needs a C++ compiler on Linux")


def test_over_the_standin():
    file = Path(__file__).with_name("over_the_standin.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, cwd=file.parents[2])
    assert done.returncode == 0, done.stdout + done.stderr  # 5 would mean that nothing was collected
