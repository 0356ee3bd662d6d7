"""The collector is paused and comes back."""

from __future__ import annotations

import gc

import pytest

from raygrad.autograd.core.collector_pause import collector_paused


def test_the_collector_comes_back_also_after_an_error() -> None:
    seen: list[bool] = []

    def fails() -> None:
        seen.append(gc.isenabled())
        raise KeyError

    with pytest.raises(KeyError), collector_paused():
        fails()
    assert seen == [False]
    assert gc.isenabled()


def test_a_collector_that_its_user_switched_off_stays_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
