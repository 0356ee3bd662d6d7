"""Tables of numbers in columns, there and back, and what is refused of those that are damaged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from raygrad.errors import ProtocolError
from raygrad.proto.codec.columns import Columns, in_columns, in_rows, read_columns

PARTS = st.lists(st.integers(-9, 9), max_size=3).map(tuple)
TABLES = st.lists(st.lists(PARTS, max_size=3).map(tuple))


@given(TABLES)
def test_a_table_comes_back_from_columns(table: list[tuple[tuple[int, ...], ...]]):
    columns = in_columns(table)
    assert in_rows(columns) == table
    assert read_columns(tuple(map(tuple, columns)), "numbers", -9, 10) == columns


def test_rows_with_parts_of_the_same_lengths_share_columns():
    assert in_columns([((1, 2), (3,)), ((4,),), ((5, 6), (7,))]) == (
        Columns((0, 2), (2, 1), ((1, 5), (2, 6), (3, 7))),
        Columns((1,), (1,), ((4,),)),
    )


def test_first_items_of_parts_are_told():
    (columns,) = in_columns([((1, 2), (3,), (4, 5, 6))])
    assert list(columns.starts()) == [0, 2, 3]


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ([], "the columns is not a sequence"),
        (((),), "the columns is not 3 fields"),
        ((((0, 0), (1,), ((1, 2),)),), "not one each from 0 to below 2"),
        ((((0, 2), (1,), ((1, 2),)),), "not one each from 0 to below 2"),
        ((((), (1,), ((),)),), "not one each from 0 to below 0"),
        ((((0,), (1,), ((1, 2),)),), "1 rows of numbers, and 2 items in a column"),
        ((((0,), (2,), ((1,),)),), "have 2 items, and there are 1 columns"),
        ((((0,), (1,), ((99,),)),), "the numbers are not integers from 0 to below 10"),
        ((((0,), (1,), ((1.0,),)),), "the numbers are not integers from 0 to below 10"),
        ((((0,), (-1, 2), ((1,),)),), "the lengths of parts are not integers from 0"),
    ],
)
def test_damaged_columns_are_refused(raw: Any, why: str):
    with pytest.raises(ProtocolError, match=why):
        read_columns(raw, "numbers", 0, 10)
