"""The collector runs rarely while a segment runs, and as before afterwards."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.workers.process.garbage_collection import PAUSE, RECORDING, YOUNG, CollectorSchedule, fewer_collections


class Knot:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def as_it_was() -> Generator[None]:
    before, enabled = gc.get_threshold(), gc.isenabled()
    yield
    gc.set_threshold(*before)
    (gc.enable if enabled else gc.disable)()


def test_the_collector_is_as_before_also_after_an_error() -> None:
    gc.enable()
    gc.set_threshold(700, 9, 11)
    seen: list[Any] = []

    def fails() -> None:
        seen.append((gc.isenabled(), gc.get_threshold()))
        raise KeyError

    with pytest.raises(KeyError), fewer_collections():
        fails()
    assert seen == [(True, (YOUNG, 9, 11))]
    assert gc.get_threshold() == (700, 9, 11)


@pytest.mark.parametrize("threshold", [0, YOUNG + 1])
def test_who_wants_it_rarer_still_is_left_alone(threshold: int) -> None:
    gc.enable()
    gc.set_threshold(threshold)
    with fewer_collections():
        assert gc.get_threshold()[0] == threshold
    assert gc.get_threshold()[0] == threshold


def test_what_user_code_sets_meanwhile_stays() -> None:
    gc.enable()
    gc.set_threshold(700)
    with fewer_collections():
        gc.set_threshold(123)
    assert gc.get_threshold()[0] == 123


def test_a_collector_that_its_user_switched_off_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.disable()
    knot = weakref.ref(Knot())
    now = [0.0]
    monkeypatch.setattr("raygrad.workers.process.garbage_collection.time.perf_counter", lambda: now[0])
    with fewer_collections() as collector:
        now[0] = 1e9 * PAUSE
        assert now[0] < collector.due
    assert knot() is not None


def test_garbage_of_a_slow_step_goes_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("raygrad.workers.process.garbage_collection.time.perf_counter", lambda: now[0])
    gc.collect()
    collector = CollectorSchedule(True)
    knot = weakref.ref(Knot())
    assert collector.due == PAUSE
    assert knot() is not None
    now[0] = 2 * PAUSE
    assert collector.look() == now[0]
    assert knot() is None
    assert collector.due == 3 * PAUSE


def test_user_code_of_a_session_runs_under_it() -> None:
    seen: list[Any] = []

    class Looks(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            seen.append(gc.get_threshold()[0])
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2.0

    gc.enable()
    gc.set_threshold(700)
    with rg.Session(workers=1), pytest.warns(UserWarning, match="captures 'seen'"):
        Looks.apply(rg.tensor(np.ones(2))).numpy()
    assert seen == [RECORDING]
    assert gc.get_threshold()[0] == 700
