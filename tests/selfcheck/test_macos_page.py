"""docs/macos.md says what commands print. Here each command of it is known, and each line that it promises is printed."""

import re
import shlex
from pathlib import Path

import pytest

from aneforge.cli import _parser, main
from aneforge.selfcheck import report
from aneforge.selfcheck.programs import vocabulary
from aneforge.targets import identify, resolve
from aneforge.targets.chip import Readings

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "macos.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^(?:[A-Z0-9_]+=\S+ )?\.venv/bin/aneforge (.*)$", PAGE, re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_known(command):
    given = _parser().parse_args(shlex.split(command))
    assert given.command == command.split()[0]


def test_there_are_commands():
    assert {c.split()[0] for c in COMMANDS} == {"cache", "doctor", "demo", "explain", "run", "check"}


def test_lines_that_doctor_prints(capsys):
    main(["doctor"])
    printed = capsys.readouterr()
    for line in re.findall(r"^\| `([a-z ]+)` \|", PAGE.split("## 3.")[0], re.M):
        assert f"  {line}: " in printed.out + printed.err, line


def test_words_of_chips_and_targets():
    rosetta = identify(Readings("darwin", "x86_64", "VirtualApple", 1, 1, 0))
    assert rosetta.rosetta
    assert "not a chip that this release knows" in identify(Readings("darwin", "arm64", "Apple M9", 1, 0, 0)).note
    assert identify(Readings("darwin", "arm64", "Apple M3 Pro", 1, 0, 0)).note == ""
    for generation, target in re.findall(r"(M\d) (h\d\d\w?)", PAGE):
        assert resolve(generation.lower()).name == target


def test_the_numbers_it_promises():
    for mac in ("m1", "m5"):
        assert sum(resolve(mac).supports(kind) is None for kind in vocabulary()) >= 80


def test_every_part_of_a_report_is_explained():
    for part in ("vocabulary", "quirks", "limits"):
        assert re.search(rf"^\| `{part}", PAGE, re.M), part
        assert part in report.Difference.__doc__


def test_what_it_points_to_is_there():
    decisions = (DOCS / "decisions.md").read_text(encoding="utf-8")
    (number,) = re.findall(r"`docs/decisions.md` (D\d+)", PAGE)
    assert f"## {number} What one report may change" in decisions
    for page in re.findall(r"`(docs/\w+\.md)`", PAGE):
        assert (DOCS.parent / page).is_file(), page
