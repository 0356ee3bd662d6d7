"""Tables as text."""

from __future__ import annotations

from raygrad.report.table_rendering import MAX_ROWS, Table, as_text

TABLE = Table("Title", ("name", "bytes>"), (("a", "1"), ("b", "100")))


def test_text_has_title_columns_and_cells_with_figures_to_the_right():
    text = as_text(["First line"], [TABLE]).splitlines()
    assert text[0] == "First line"
    assert "Title" in text
    rows = {line.split()[0]: line for line in text if line.strip()}
    assert rows["name"].rstrip().endswith("bytes")
    assert len(rows["a"].rstrip()) == len(rows["b"].rstrip())


def test_text_is_taken_as_it_is():
    assert "[red]<b>" in as_text([], [Table("t", ("c",), (("[red]<b>",),))])


def test_of_many_rows_it_says_how_many_are_left_out():
    long = Table("t", ("n>",), tuple((str(i),) for i in range(MAX_ROWS + 10)))
    assert len(long.shown) == MAX_ROWS - 1
    assert long.more == "and 11 more, which `as_dict()` has"
    assert long.more in as_text([], [long])
    assert TABLE.more == ""
    assert TABLE.shown == TABLE.rows
