"""Counters of changes in place (CX-13, CX-14)."""

from __future__ import annotations

import raygrad as rg
from raygrad.autograd.versions import CLOCK, bump, new_counter


def test_a_counter_knows_when_it_last_moved():
    first, second = new_counter(), new_counter()
    bump(first)
    then = CLOCK[0]
    bump(second)
    bump(second)
    assert (first[0], second[0]) == (1, 2)
    assert first[1] == then < second[1]


def test_the_clock_moves_with_each_change_in_place_alone():
    x = rg.ones(3)
    before = CLOCK[0]
    _ = x * 2
    assert CLOCK[0] == before
    x.add_(1)
    x[0] = 2
    assert CLOCK[0] == before + 2
