"""The collector runs rarely while a session is ambient."""

from __future__ import annotations

import gc
import weakref

import pytest

import raygrad as rg
from raygrad.autograd.core.collector_pause import collector_paused
from raygrad.client.recording import garbage_collection
from raygrad.client.recording.garbage_collection import REST, GarbageCollectorTuning
from raygrad.workers.process.garbage_collection import RECORDING


def test_it_runs_rarely_while_a_session_is_ambient_and_then_as_before() -> None:
    before = gc.get_threshold()
    with rg.Session(workers=1):
        assert gc.get_threshold() == (RECORDING, *before[1:])
        with rg.Session(workers=1):
            assert gc.get_threshold()[0] == RECORDING
        assert gc.get_threshold()[0] == RECORDING
    assert gc.get_threshold() == before


def test_threshold_that_a_user_set_meanwhile_stays() -> None:
    before = gc.get_threshold()
    try:
        with rg.Session(workers=1):
            gc.set_threshold(1234, 5, 6)
        assert gc.get_threshold() == (1234, 5, 6)
    finally:
        gc.set_threshold(*before)


def test_garbage_is_found_in_time_all_the_same() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.me = self

    tuning = GarbageCollectorTuning()
    tuning.begin()
    try:
        gone = weakref.ref(Cycle())
        tuning._due = 0.0
        tuning.collect_if_due()
        assert gone() is None
    finally:
        tuning.end()


def test_garbage_is_left_alone_while_it_is_paused() -> None:
    tuning = GarbageCollectorTuning()
    tuning.begin()
    try:
        with collector_paused():
            tuning._due = 0.0
            tuning.collect_if_due()
            assert tuning._due == 0.0
    finally:
        tuning.end()


def test_a_look_that_took_long_is_not_soon_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    looks: list[int] = []

    def looks_for_a_second(generation: int) -> None:
        looks.append(generation)
        now[0] += 1.0

    tuning = GarbageCollectorTuning()
    tuning.begin()
    try:
        monkeypatch.setattr(garbage_collection.time, "perf_counter", lambda: now[0])
        monkeypatch.setattr(garbage_collection.gc, "collect", looks_for_a_second)
        tuning._due = 0.0
        tuning.collect_if_due()
        now[0] += REST - 1
        tuning.collect_if_due()
        assert looks == [0]
        now[0] += 2
        tuning.collect_if_due()
        assert looks == [0, 0]
    finally:
        tuning.end()
