"""Levels of forward mode: which tangents live how long."""

from __future__ import annotations

import gc
import weakref

import raygrad as rg
from raygrad.autograd.core.modes import state
from raygrad.autograd.tensor.tangent_levels import (
    SWEEP_AT,
    active_levels,
    carries_tangent,
    open_tangent_level,
    share_tangents,
)


def test_a_level_that_ends_takes_its_tangents_with_it() -> None:
    x = rg.ones(2)
    with open_tangent_level() as outer:
        with open_tangent_level() as inner:
            outer.carry(x, rg.ones(2))
            inner.carry(x, rg.ones(2))
            assert state.special
            assert state.forward == (outer, inner)
        assert inner.of(x) is None
        assert outer.of(x) is not None
        assert carries_tangent(x)
    assert outer.of(x) is None
    assert not carries_tangent(x)
    assert not state.special


def test_tangents_that_are_handed_on_end_with_their_level_too() -> None:
    x, y = rg.ones(2), rg.ones(2)
    with open_tangent_level() as level:
        level.carry(x, rg.ones(2))
        assert share_tangents(x, y) is y
        assert level.of(y) is level.of(x)
    assert level.of(y) is None


def test_a_level_does_not_keep_alive_what_carries_its_tangents() -> None:
    with open_tangent_level() as level:
        tangent = rg.ones(2)
        known = weakref.ref(tangent)
        level.carry(rg.ones(2), tangent)
        del tangent
        gc.collect()
        assert known() is None


def test_entries_of_dead_carriers_are_swept() -> None:
    with open_tangent_level() as level:
        for _ in range(8 * SWEEP_AT):
            level.carry(rg.ones(1), rg.ones(1))
        assert len(level._carriers) <= SWEEP_AT + 1


def test_levels_are_put_away_and_back_also_after_an_error() -> None:
    with open_tangent_level() as level:
        try:
            with active_levels(()):
                assert not state.special
                raise KeyError
        except KeyError:
            pass
        assert state.forward == (level,)
        level.carry(x := rg.ones(1), None)
        assert level.of(x) is None
