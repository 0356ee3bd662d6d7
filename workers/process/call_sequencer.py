"""The call sequencer of a worker: a lock that admits one call at a time, each after the calls that it names (H13).

The actor acquires it before each call. Calls come in any order, each on a thread of its own, which waits here; a late
call holds up only those that name it. Of those that can start the lowest rank goes first: calls of the earliest run,
and of these the one with the highest priority, for which others wait longest. The sender numbers calls upwards from 0.
Each number has to end once, whether its call runs or not: else those that name it would wait for ever."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

UNSEQUENCED = -1
"""The number of a call for which no other waits."""

FIRST_RANK = (-1, 0.0)
"""The rank of what goes before all runs: programs that calls wait for, values that other workers or the client read."""


class _Ticket(NamedTuple):
    """A waiting call."""

    rank: tuple[int, float]
    number: int
    after: tuple[int, ...]
    gate: Lock
    """Held until this call is admitted."""


class CallSequencer:
    """A lock over calls. Of the waiting calls that can start it admits the one of the lowest rank, of equal ranks the
    one that was sent first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._taken = False
        self._waiting: list[_Ticket] = []
        self._below = 0
        """All numbers below this have ended."""
        self._ended: set[int] = set()
        """Other numbers that have ended."""

    def acquire(
        self, number: int = UNSEQUENCED, after: tuple[int, ...] = (), rank: tuple[int, float] = FIRST_RANK
    ) -> None:
        """Wait until no call runs and all calls `after` have ended; `release` admits the next. A rank is the number of
        the run and the priority with its sign changed."""
        with self._lock:
            if not self._taken and self._all_ended(after):
                self._taken = True
                return
            gate = Lock()
            gate.acquire()
            self._waiting.append(_Ticket(rank, number, after, gate))
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
                first = min(ready, key=lambda one: one[:2])
                self._waiting.remove(first)
                self._taken = True
                first.gate.release()

    def _all_ended(self, after: tuple[int, ...]) -> bool:
        for number in after:
            if number >= self._below and number not in self._ended:
                return False
        return True
