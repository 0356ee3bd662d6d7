"""Tables of numbers in columns: many rows of a few ints as a few long tuples, which are packed and checked at once.

A call has the random paths of each piece of user code, a record the fingerprints of what each returned. Rows have parts
(a path each), and most rows of a table have parts of the same lengths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, islice, repeat
from typing import Any, Final, NamedTuple, TypeAlias

from raygrad.errors import ProtocolError

from .checks import integers, many, of, opaque, row, sequence

Row: TypeAlias = tuple[tuple[Any, ...], ...]
"""Its parts."""


class Columns(NamedTuple):
    """The rows of a table whose parts have certain lengths."""

    places: tuple[int, ...]
    """Where these rows are in the table."""
    lengths: tuple[int, ...]
    """Of the parts of each row."""
    columns: tuple[Sequence[Any], ...]
    """Part by part, the items at each position: one of each row."""

    def rows(self) -> Iterable[Row]:
        """Return the rows, in the order of `places`."""
        count = len(self.places)
        parts = [zip(*columns, strict=True) if columns else repeat((), count) for columns in self.parts()]
        return zip(*parts, strict=True) if parts else repeat((), count)

    def parts(self) -> list[tuple[Sequence[Any], ...]]:
        """Return the columns of each part."""
        columns = iter(self.columns)
        return [tuple(islice(columns, length)) for length in self.lengths]

    def starts(self) -> Iterable[int]:
        """Return which columns hold the first items of parts."""
        return accumulate((0, *self.lengths[:-1])) if self.lengths else ()


def in_columns(table: Sequence[Row]) -> tuple[Columns, ...]:
    """Return a table in columns."""
    places: dict[tuple[int, ...], list[int]] = {}
    for place, parts in enumerate(table):
        places.setdefault(tuple(map(len, parts)), []).append(place)
    return tuple([_columns(table, lengths, among) for lengths, among in places.items()])


def _columns(table: Sequence[Row], lengths: tuple[int, ...], places: Sequence[int]) -> Columns:
    items = tuple(chain.from_iterable(chain.from_iterable([table[place] for place in places])))
    width = sum(lengths)
    return Columns(tuple(places), lengths, tuple([items[at::width] for at in range(width)]))


def in_rows(found: Iterable[Columns]) -> list[Row]:
    """Return the table that is in these columns."""
    table: dict[int, Row] = {}
    for one in found:
        table.update(zip(one.places, one.rows(), strict=True))
    return [table[place] for place in range(len(table))]


_COLUMNS: Final = many(
    "columns",
    row("columns", of(integers, "places of rows", 0), of(integers, "lengths of parts", 0), opaque, make=Columns._make),
)


def read_columns(raw: Any, what: str, low: int, high: int) -> tuple[Columns, ...]:
    """Return the columns of a table in which all is an int, low <= i < high.

    Raises:
        ProtocolError: it is none.
    """
    found: tuple[Columns, ...] = _COLUMNS(raw)
    places = sorted(chain.from_iterable([one.places for one in found]))
    if places != list(range(len(places))) or not all([one.places for one in found]):
        raise ProtocolError(f"the places of the rows of {what} are not one each from 0 to below {len(places)}")
    for one in found:
        for column in sequence(one.columns, f"columns of {what}"):
            if len(integers(column, what, low, high)) != len(one.places):
                raise ProtocolError(f"there are {len(one.places)} rows of {what}, and {len(column)} items in a column")
        if sum(one.lengths) != len(one.columns):
            raise ProtocolError(
                f"the rows of {what} have {sum(one.lengths)} items, and there are {len(one.columns)} columns"
            )
    return found
