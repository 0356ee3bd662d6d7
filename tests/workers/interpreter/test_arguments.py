"""Arguments of forward on a worker: read-only, private copies of what it changes, views of one memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from raygrad.errors import GraphError
from raygrad.proto.ir.nodes import UNDEFINED
from raygrad.workers.interpreter.arguments import compile_arguments, compile_originals

NONE: frozenset[int] = frozenset()
FIRST = frozenset({0})


def place(offset: int, strides: tuple[int, ...], shape: tuple[int, ...], number: int, order: Any = (0, 1)) -> Any:
    return (order, 1, offset, strides), shape, number


WHOLE, ROW, COLUMN = place(0, (3, 1), (2, 3), 0), place(3, (1,), (3,), 2), place(1, (3,), (2,), 2)


def matrix() -> Any:
    array = np.arange(6.0).reshape(2, 3)
    array.flags.writeable = False
    return array


def test_what_is_not_changed_is_given_without_a_copy_and_read_only() -> None:
    slots = [matrix(), 2.0]
    x, factor, missing = compile_arguments((0, 1, UNDEFINED), (1, -1, -1), (), NONE)(slots)
    assert x.requires_grad
    assert np.shares_memory(x._data, slots[0])
    assert not x._data.flags.writeable
    assert (factor, missing) == (2.0, None)


@pytest.mark.parametrize("changes", [FIRST, None])
def test_what_may_be_changed_is_a_private_copy(changes: frozenset[int] | None) -> None:
    slots = [matrix(), matrix()]
    x, y = compile_arguments((0, 1), (0, 0), (), changes)(slots)
    x._data[:] = 7.0
    assert slots[0].tolist() == matrix().tolist()
    assert y._data.flags.writeable is (changes is None)


def test_what_is_given_twice_is_one_tensor_or_two_of_one_memory() -> None:
    arguments = compile_arguments((0, 0, 0), (0, 0, 1), (), FIRST)([matrix()])
    assert arguments[0] is arguments[1]
    assert arguments[2].requires_grad
    assert arguments[2]._data is arguments[0]._data


@pytest.mark.parametrize("other", [ROW, COLUMN])
def test_views_of_one_value_are_of_one_memory_and_count_its_changes_together(other: Any) -> None:
    slots: list[Any] = [matrix(), 5.0]
    x, number, y = compile_arguments((0, 1, 0), (0, -1, 1), (WHOLE, (), other), FIRST)(slots)
    x.mul_(10.0)
    assert y._data.tolist() == ([30.0, 40.0, 50.0] if other is ROW else [10.0, 40.0])
    assert y._version == 1
    assert y.requires_grad
    assert number == 5.0
    assert slots[0].tolist() == matrix().tolist()


def test_a_view_given_twice_is_one_tensor() -> None:
    where = (WHOLE, (), ROW, ROW)
    _, _, y, z = compile_arguments((0, 1, 0, 0), (0, -1, 0, 0), where, FIRST)([matrix(), None])
    assert y is z


def test_a_number_is_of_one_memory_with_its_view() -> None:
    whole = ((), 1, 0, ()), (), 0
    slots: list[Any] = [np.array(3.0)]
    x, y = compile_arguments((0, 0), (0, 0), (whole, (((), 1, 0, (0,)), (1,), 1)), FIRST)(slots)
    x.add_(1.0)
    assert y.tolist() == [4.0]


def test_a_value_is_laid_out_for_the_views_of_it() -> None:
    flat = place(0, (1,), (6,), 1)  # row by row: of what lies column by column there is no such view
    slots = [np.asfortranarray(matrix())]
    x, y = compile_arguments((0, 0), (0, 0), (WHOLE, flat), FIRST)(slots)
    x.add_(1.0)
    assert y.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    turned = place(0, (1,), (6,), 1, order=(1, 0))
    x, y = compile_arguments((0, 0), (0, 0), (WHOLE, turned), FIRST)([matrix()])
    x.add_(1.0)
    assert y.tolist() == [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]


def test_no_layout_is_of_use_to_views_that_contradict_each_other() -> None:
    where = (place(0, (1,), (6,), 0), place(0, (1,), (6,), 1, order=(1, 0)))
    with pytest.raises(GraphError, match=r"shape \(2, 3\) cannot be laid out"):
        compile_arguments((0, 0), (0, 0), where, FIRST)([matrix()])


def test_an_expanded_value_is_not_to_be_written_to() -> None:
    expanded = np.broadcast_to(np.arange(3.0), (2, 3))
    x, _ = compile_arguments((0, 0), (0, 0), (WHOLE, place(3, (1,), (3,), 1)), FIRST)([expanded])
    assert not x._data.flags.writeable
    empty = np.broadcast_to(np.zeros((0, 1)), (0, 3))
    x, _ = compile_arguments((0, 0), (0, 0), (place(0, (3, 1), (0, 3), 0), place(0, (1,), (0,), 1)), FIRST)([empty])
    assert x._data.flags.writeable


def test_the_values_before_are_told_of_views_too() -> None:
    slots = [matrix(), 2.0]
    values = compile_originals((0, 0, 1, UNDEFINED), (WHOLE, COLUMN, (), ()))(slots)
    assert values[1].tolist() == [1.0, 4.0]
    assert values[2:] == [2.0, None]
    assert compile_originals((0,), ())(slots)[0] is slots[0]


@pytest.mark.parametrize("position", [0, 1])
def test_an_argument_that_is_given_twice_may_be_changed_in_either_place(position: int) -> None:
    made = compile_arguments((0, 0), (0, 0), (), frozenset({position}))([matrix()])
    assert made[0] is made[1]
    made[position].add_(1.0)
