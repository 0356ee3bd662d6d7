from __future__ import annotations

from typing import Any

import pytest

from raygrad.workers.process import gil_wait as module
from raygrad.workers.process.gil_wait import GilWaitClock


class Clocks:
    """Of a thread in a process, set by hand."""

    def __init__(self) -> None:
        self.wall = self.own = self.whole = 5.0

    def perf_counter(self) -> float:
        return self.wall

    def thread_time(self) -> float:
        return self.own

    def process_time(self) -> float:
        return self.whole

    def pass_by(self, wall: float, own: float, others: float) -> None:
        self.wall += wall
        self.own += own
        self.whole += own + others


@pytest.fixture
def clocks(monkeypatch: Any) -> Clocks:
    made = Clocks()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.mark.parametrize(
    ("wall", "own", "others", "waited"),
    [
        (1.0, 1.0, 0.0, 0.0),  # computes
        (1.0, 0.25, 0.75, 0.75),  # stands still while others compute
        (1.0, 0.0, 0.0, 0.0),  # sleeps: its own time
        (1.0, 0.0, 0.25, 0.25),  # others compute for a part of it
        (1.0, 1.0, 3.0, 0.0),  # others compute, outside of the lock, and it does not wait
        (1.0, 1.125, 0.0, 0.0),  # clocks that do not quite agree
    ],
)
def test_what_is_stood_still_while_others_compute_is_waiting(
    clocks: Clocks, wall: float, own: float, others: float, waited: float
):
    waits = GilWaitClock()
    clocks.pass_by(wall, own, others)
    assert waits.since() == waited
    assert waits.since() == 0.0
    clocks.pass_by(wall, own, others)
    waits.since()
    assert waits.seconds == 2 * waited
