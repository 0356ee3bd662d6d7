"""Output of reports and tables to the terminal, in colour where there is one.

The console prints with it. rich is imported when something is printed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .forms import Report
from .table_rendering import Table, as_rich, as_text


def print_tables(summary: Sequence[str], tables: Sequence[Table]) -> None:
    """Print lines and tables on standard output: in colour on a terminal, else as plain text without line breaks by
    width."""
    if not sys.stdout.isatty():
        print(as_text(summary, tables))
        return
    from rich.console import Console

    Console().print(as_rich(summary, tables))


def print_report(report: Report) -> None:
    """Print a report on standard output."""
    print_tables(report.summary(), report.tables())
