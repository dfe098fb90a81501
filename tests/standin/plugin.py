"""pytest -p standin.plugin …: every test that leaves the backend to `auto` walks the engine's road over the stand-in.

    python -m pytest -p standin.plugin tests/strict tests/provider

See road.py. A call that the runtime would not take fails the session, and so does a session in which nothing ran there.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from standin import Standin, road

_folder = Path(tempfile.mkdtemp(prefix="standin-"))

# About the host's own words and warnings, or about there being no engine.
HOSTS_OWN = (
    "test_one_output_comes_bare",
    "test_every_node_has_a_place_and_a_reason",
    "test_silence",
    "test_error_and_ignore",
    "test_auto_on_apple_is_never_the_host_in_silence",
    "test_the_engines_allowance_is_used_up",
    "test_options_as_session_config_entries",
)


def pytest_configure(config: pytest.Config) -> None:
    road.take(
        _folder, os.environ.get("STANDIN_FAMILY", "A13")
    )  # of h13, which target="auto" means where there is no chip
    config.addinivalue_line("filterwarnings", "ignore::aneforge.errors.DispatchFloorWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name in HOSTS_OWN or item.name.endswith("-e5rt]"):
            item.add_marker(pytest.mark.skip(reason="about the host, or about a machine without an engine"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    control = Standin(_folder / "libstandin.so")
    compiled, runs = control.calls("e5_compiler_compile"), control.calls("execution_stream_execute_sync")
    terminalreporter.write_line(f"stand-in: {compiled} programs compiled, {runs} runs")


def pytest_sessionfinish(session: pytest.Session) -> None:
    gc.collect()
    control = Standin(_folder / "libstandin.so")
    wrong = control.misuse()
    if not control.calls("execution_stream_execute_sync"):
        wrong = "nothing ran on the stand-in"
    if wrong:
        print(f"\nstand-in: {wrong}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure() -> None:
    shutil.rmtree(_folder, ignore_errors=True)
