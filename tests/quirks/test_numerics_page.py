"""docs/numerics.md is made from the quirk table: current, and every row and every rule that names one stands in it."""

from pathlib import Path

from aneforge.cli import main
from aneforge.cli.numerics import REGENERATE, markdown
from aneforge.passes import RULES, rules_of
from aneforge.targets import quirk_table, resolve

PAGE = Path(__file__).parents[2] / "docs" / "numerics.md"


def test_current(capsys):
    assert PAGE.read_text(encoding="utf-8") == markdown(), f"run: {REGENERATE}"
    assert main(["ops", "--numerics"]) == 0
    assert capsys.readouterr().out == markdown()


def test_every_row_and_every_rule():
    rows = [line for line in markdown().splitlines() if line.startswith("| Q")]
    assert sorted(line.split()[1] for line in rows) == sorted(quirk_table())
    assert {line.replace("\\|", "").count("|") for line in rows} == {9}
    for rule in (*rules_of(resolve("m1")), *rules_of(resolve("m5")), *RULES):
        for quirk in rule.quirks:
            (line,) = [one for one in rows if one.startswith(f"| {quirk} ")]
            assert f"`{rule.name}`" in line


def test_no_page_for_one_operator():
    assert main(["ops", "Conv", "--numerics"]) == 2
