from __future__ import annotations

import gc
import threading
from typing import Any

from raygrad.workers.executors.ray.flush_timer import FlushTimer


class Owner:
    def __init__(self) -> None:
        self.reminded: list[str] = []
        self.event = threading.Event()
        self.overdue = FlushTimer(self.remind, 0.001)

    def remind(self) -> None:
        self.reminded.append(threading.current_thread().name)
        self.event.set()


def test_a_reminder_comes_on_a_thread_of_its_own_and_once_for_all_that_has_begun():
    owner = Owner()
    assert owner.overdue._thread is None, "no thread where nothing waits"
    owner.overdue.schedule()
    assert owner.event.wait(10)
    owner.event.clear()
    owner.overdue.schedule()
    assert owner.event.wait(10)
    assert owner.reminded == ["raygrad-flush-timer"] * 2
    owner.overdue.close()
    assert owner.overdue._thread is not None
    assert not owner.overdue._thread.is_alive()
    owner.overdue.close()


def test_closing_ends_a_reminder_that_is_far_off():
    owner = Owner()
    owner.overdue = FlushTimer(owner.remind, 1000.0)
    owner.overdue.schedule()
    owner.overdue.close()
    assert owner.reminded == []


def test_the_thread_keeps_nobody_alive_and_ends_after_its_owner():
    owner: Any = Owner()
    overdue = owner.overdue
    owner.overdue = None
    del owner
    gc.collect()
    overdue.schedule()
    thread: Any = overdue._thread
    thread.join(10)
    assert not thread.is_alive()


def test_closing_while_a_reminder_begins_ends_the_thread():
    owner = Owner()

    class ClosedInBetween(threading.Event):
        """Is cleared just after somebody has closed."""

        def clear(self) -> None:
            owner.overdue._closed.set()
            owner.overdue._begun.set()
            super().clear()

    owner.overdue._begun = ClosedInBetween()
    owner.overdue.schedule()
    thread = owner.overdue._thread
    assert thread is not None
    thread.join(10)
    assert not thread.is_alive()
