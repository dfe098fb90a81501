"""Runs ep_cases.py in a process of its own: hooks belong to the process, and other tests install the real one."""

import subprocess
import sys
from pathlib import Path


def test_provider_library_with_hooks_of_its_own() -> None:
    cases = Path(__file__).with_name("ep_cases.py")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(cases.parent),
        str(cases),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
