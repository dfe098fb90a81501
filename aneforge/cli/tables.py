"""Tables: fitted to the width of a terminal, whole where the output goes elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def show(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table. In a file or a pipe nothing is cut, and a row is a line."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for name in header:
            table.add_column(name, overflow="fold")
        for row in rows:
            table.add_row(*row)
        Console(highlight=False, markup=False).print(table)
        return
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    for row in [header, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
