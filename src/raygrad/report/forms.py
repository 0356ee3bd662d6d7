"""The four forms of what is reported: text, rich text, HTML and a file.

What is reported says only what stands in it: a picture, a summary and tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .drawing import fragment, save
from .shown import as_plain_data
from .table_rendering import Table, as_rich, as_text

if TYPE_CHECKING:
    from rich.console import Group

    from .picture import Picture


class Report(ABC):
    """Something to print, to show in a notebook, or to `save`."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, texts and numbers."""
        return as_plain_data(self)

    @abstractmethod
    def picture(self) -> Picture:
        """Return the drawing: node by node where they are few, else by segment."""

    @abstractmethod
    def summary(self) -> list[str]:
        """Return what matters most, in lines."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """Return the tables that have something to say."""

    def save(self, path: str | Path) -> Path:
        """Write it to a file that needs nothing else: a drawing (`.svg`), the drawing with the tables (`.html`), or
        the data (`.json`). Returns the path.

        Raises:
            ValueError: the path ends in none of these.
        """
        return save(path, self.picture(), self.summary(), self.tables(), self.as_dict)

    def __rich__(self) -> Group:
        return as_rich(self.summary(), self.tables())

    def __str__(self) -> str:
        return as_text(self.summary(), self.tables())

    def _repr_html_(self) -> str:
        return fragment(self.picture(), self.summary(), self.tables())
