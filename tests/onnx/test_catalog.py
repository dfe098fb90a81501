"""The tables about operators: current, true of what handlers really make and refuse, and read by ONNX Runtime's tool."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from onnx_harness import imported, refusals
from onnx_rows import Row, c, rows
from onnx_rows_sequence import sequence_rows
from test_onnx_handlers import build

from aneforge.onnx import catalog
from aneforge.onnx.registry import handlers

DOCS = Path(__file__).parents[2] / "docs"
ENTRIES = {(e.domain, e.op): e for e in catalog.entries()}


@pytest.mark.parametrize(
    ("file", "make"), [("operators.md", catalog.markdown), ("usability_checker_ops.md", catalog.usability)]
)
def test_docs_are_current(file: str, make: object) -> None:
    assert (DOCS / file).read_text(encoding="utf-8") == make(), f"run: {catalog.REGENERATE}"  # type: ignore[operator]


def test_every_handler_stands_in_it() -> None:
    assert set(ENTRIES) == set(handlers())
    table = (DOCS / "operators.md").read_text(encoding="utf-8")
    for domain, op in handlers():
        assert f"| **{domain}::{op}**" in table or f"| **{op}**" in table


def test_tables_are_tables() -> None:
    for file, columns in (("operators.md", 6), ("usability_checker_ops.md", 2)):
        lines = [n for n in (DOCS / file).read_text(encoding="utf-8").splitlines() if n.startswith("|")]
        assert len(lines) == len(ENTRIES) + 2
        assert {n.count("|") for n in lines} == {columns + 1}


ROWS = [row for row in (*rows(), *sequence_rows()) if (row.domain, row.op) in ENTRIES]


@pytest.mark.parametrize("op", sorted({(row.domain, row.op) for row in ROWS}), ids="::".join)
def test_what_it_becomes_is_among_what_the_table_names(op: tuple[str, str]) -> None:
    """Every operation of the imported rows is one that the code was seen to name."""
    for row in [row for row in ROWS if (row.domain, row.op) == op]:
        made = imported(build(row)[0])
        program = made.program() if made.nodes[0].status == "engine" else None
        kinds = {o.kind for o in program.ops if not o.is_leaf} if program is not None else set()
        assert kinds <= set(ENTRIES[op].engine) | _ports(row), str(row)


def _ports(row: Row) -> set[str]:
    """What conversions at a region's borders and of inputs may add: a bool as a mask, a byte as a float."""
    return {"not_equal", "select", "cast", "reshape", "expand_dims", "squeeze"}


def test_a_refusal_that_it_names_is_given() -> None:
    row = Row("CumSum", 14, ((2, 5000), c(1)))
    (text,) = refusals(imported(build(row)[0]))
    said = [sentence for _, sentence in ENTRIES["", "CumSum"].refusals]
    assert any(all(part in text for part in sentence.split("…")) for sentence in said), (text, said)


def test_known_inputs() -> None:
    assert ENTRIES["", "BatchNormalization"].constant == ("scale", "shift", "mean", "variance")
    assert ENTRIES["", "Relu"].constant == ()


def test_the_usability_checker_reads_it(tmp_path: Path) -> None:
    """In a process of its own: the tool imports much."""
    code = (
        "import sys\n"
        "from onnx import helper\n"
        "from onnxruntime.tools.mobile_helpers import usability_checker as u\n"
        "checker = u._SupportedOpsChecker(sys.argv[1])\n"
        "print(len(checker._ops))\n"
        "nodes = [helper.make_node('Relu', ['x'], ['a']), helper.make_node('Unique', ['a'], ['b']),\n"
        "         helper.make_node('BatchNormalization', ['b', 's', 't', 'm', 'v'], ['y'])]\n"
        "print([checker.is_op_supported(n) for n in nodes])\n"
        "print(checker.get_caveats())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(DOCS / "usability_checker_ops.md")],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300,
        env={**os.environ, "PYTHONUTF8": "1"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    count, supported, caveats = ran.stdout.splitlines()
    assert int(count) == len(ENTRIES)
    assert supported == "[True, False, True]"
    assert "ai.onnx:BatchNormalization:Constant: scale, shift, mean, variance." in caveats
