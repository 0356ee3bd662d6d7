"""Tables of text cells with a title, rendered by rich to text, or by a template into HTML.

Explanations and reports make them. rich is imported when a table is rendered.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from rich.console import Group

T = TypeVar("T")

MIN_WIDTH: Final = 120
"""Columns of text where no terminal says how many it has, and at least: the tables need about as many."""

MAX_ROWS: Final = 60
"""Rows that are shown; how many more there are is said below."""


@dataclass(frozen=True, slots=True)
class Table:
    """Titles and cells."""

    title: str
    columns: tuple[str, ...]
    """A title that ends in ">" is that of a column of figures, which are set to the right."""
    rows: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(title: str, items: Iterable[T], *columns: tuple[str, Callable[[T], str]]) -> Table:
        """Return a table with one row per item; a column is its title and a function from an item to the cell."""
        rows = tuple([tuple([cell(item) for _, cell in columns]) for item in items])
        return Table(title, tuple([column for column, _ in columns]), rows)

    @property
    def shown(self) -> tuple[tuple[str, ...], ...]:
        """The rows that are shown."""
        return self.rows if len(self.rows) <= MAX_ROWS else self.rows[: MAX_ROWS - 1]

    @property
    def more(self) -> str:
        """What is said of the others, or ""."""
        left = len(self.rows) - len(self.shown)
        return f"and {left:,} more, which `as_dict()` has" if left else ""


def as_rich(summary: Sequence[str], tables: Sequence[Table]) -> Group:
    """Return lines and tables as something that rich prints."""
    from rich import box
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    parts: list[Text | RichTable] = [Text(line, style="bold" if not at else "") for at, line in enumerate(summary)]
    for table in tables:
        made = RichTable(box=box.SIMPLE_HEAD)
        for column in table.columns:
            figures = column.endswith(">")
            made.add_column(column.rstrip(">"), justify="right" if figures else "left", no_wrap=figures)
        for row in table.shown:
            made.add_row(*[Text(cell) for cell in row])
        parts += [Text("\n" + table.title, style="bold"), made]
        if table.more:
            parts.append(Text(table.more))
    return Group(*parts)


def as_text(summary: Sequence[str], tables: Sequence[Table]) -> str:
    """Return lines and tables as plain text."""
    from rich.console import Console

    width = max(MIN_WIDTH, shutil.get_terminal_size((MIN_WIDTH, 24)).columns)
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, legacy_windows=False).print(as_rich(summary, tables))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
