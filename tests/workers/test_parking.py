"""Which pinned values make way for a call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from raygrad.workers.contexts import LARGE
from raygrad.workers.parking import in_the_way

EACH = LARGE // 8
"""Items of an array that is just large."""


def pins(*sizes: int, run: int = 1) -> dict[tuple[int, int], Any]:
    return {(run, value): np.zeros(size) for value, size in enumerate(sizes)}


@pytest.mark.parametrize(("room", "gone"), [(-1, 0), (4 * LARGE, 0), (4 * LARGE - 1, 1), (LARGE, 3), (0, 4)])
def test_the_oldest_go_until_the_rest_fits(room: int, gone: int) -> None:
    held = pins(EACH, EACH, EACH, EACH)
    assert in_the_way(held, 2, (), (("cpu", room),)) == list(held)[:gone]


def test_what_the_call_reads_and_what_its_own_run_made_does_not_go_nor_count() -> None:
    held = {**pins(EACH, EACH), **pins(EACH, EACH, run=2)}
    assert in_the_way(held, 2, {(1, 0)}, (("cpu", LARGE),)) == []
    assert in_the_way(held, 2, {(1, 0)}, (("cpu", 0),)) == [(1, 1)]


def test_small_values_go_only_if_no_large_ones_are_left() -> None:
    held = pins(10, EACH, 10)
    assert in_the_way(held, 2, (), (("cpu", 160),)) == [(1, 1)]
    assert in_the_way(held, 2, (), (("cpu", 100),)) == [(1, 1), (1, 0)]


def test_what_shares_memory_goes_together_or_stays() -> None:
    base = np.zeros(EACH)
    held = {(1, 0): base[1:], (1, 1): np.zeros(EACH), (1, 2): base[:-1]}
    assert in_the_way(held, 2, (), (("cpu", LARGE),)) == [(1, 0), (1, 2)]
    assert in_the_way(held, 2, {(1, 2)}, (("cpu", 0),)) == [(1, 1)]


def test_each_memory_is_for_itself_and_what_has_no_bytes_stays() -> None:
    held = {**pins(EACH), (1, 5): None, (1, 6): 3.0}
    assert in_the_way(held, 2, (), (("cuda:0", 0),)) == []
    assert in_the_way(held, 2, (), (("cuda:0", 0), ("cpu", 0))) == [(1, 0)]
    assert in_the_way(held, 2, (), ()) == []
