"""The call sequencer of a worker: a lock that admits one call at a time, each after the calls that it names (H13).

The actor acquires it before each call. Calls come in any order, each on a thread of its own, which waits here; a late
call holds up only those that name it. The sender numbers calls upwards from 0. Each number has to end once, whether
its call runs or not: else those that name it would wait for ever."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

UNSEQUENCED = -1
"""The number of a call for which no other waits."""


class _Ticket(NamedTuple):
    """A waiting call."""

    number: int
    after: tuple[int, ...]
    last: bool
    gate: Lock
    """Held until this call is admitted."""


class CallSequencer:
    """A lock over calls. Of the waiting calls that can start it admits the one that was sent first, and those that come
    `last` only if there is no other."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._taken = False
        self._waiting: list[_Ticket] = []
        self._below = 0
        """All numbers below this have ended."""
        self._ended: set[int] = set()
        """Other numbers that have ended."""

    def acquire(self, number: int = UNSEQUENCED, after: tuple[int, ...] = (), *, last: bool = False) -> None:
        """Wait until no call runs and all calls `after` have ended; `release` admits the next."""
        with self._lock:
            if not self._taken and self._all_ended(after):
                self._taken = True
                return
            gate = Lock()
            gate.acquire()
            self._waiting.append(_Ticket(number, after, last, gate))
        gate.acquire()

    def release(self, number: int = UNSEQUENCED) -> None:
        """End the running call `number`, and admit the next."""
        with self._lock:
            self._taken = False
            self._end(number)

    def end(self, number: int) -> None:
        """End call `number`, which was cancelled before it arrived."""
        with self._lock:
            self._end(number)

    def _end(self, number: int) -> None:
        if number == self._below:
            self._below += 1
            while self._below in self._ended:
                self._ended.remove(self._below)
                self._below += 1
        elif number > self._below:
            self._ended.add(number)
        if self._waiting and not self._taken:
            ready = [one for one in self._waiting if self._all_ended(one.after)]
            if ready:
                first = min(ready, key=lambda one: (one.last, one.number))
                self._waiting.remove(first)
                self._taken = True
                first.gate.release()

    def _all_ended(self, after: tuple[int, ...]) -> bool:
        for number in after:
            if number >= self._below and number not in self._ended:
                return False
        return True
