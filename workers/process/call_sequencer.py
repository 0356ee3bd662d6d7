"""Whose turn it is on a worker: one call at a time, each after those that it names (H13).

Rules of this file: order only; it knows no program and no transport. Calls come in any order, each on a thread of its
own, which waits here. A late call holds up those that name it, and no other. Numbers are given by whoever sends the
calls, upwards from 0, and each has to end once, run or not: else those that name it would wait for ever.
"""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

ASIDE = -1
"""The number of what nobody waits for."""


class _Waiting(NamedTuple):
    number: int
    after: tuple[int, ...]
    gate: Lock
    """Held until it is this one's turn."""


class Turns:
    """Hands the turn from call to call: of those that can start to the one that was sent first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._taken = False
        self._waiting: list[_Waiting] = []
        self._below = 0
        """All numbers below this have ended."""
        self._ended: set[int] = set()
        """The others that have."""

    def take(self, number: int = ASIDE, after: tuple[int, ...] = ()) -> None:
        """Wait until nobody has the turn and all calls `after` have ended, and take it; `give` hands it on."""
        with self._lock:
            if not self._taken and self._over(after):
                self._taken = True
                return
            gate = Lock()
            gate.acquire()
            self._waiting.append(_Waiting(number, after, gate))
        gate.acquire()

    def give(self, number: int = ASIDE) -> None:
        """End call `number`, whose turn it is, and hand the turn on."""
        with self._lock:
            self._taken = False
            self._end(number)

    def end(self, number: int) -> None:
        """End call `number`, which never came and never will."""
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
            ready = [one for one in self._waiting if self._over(one.after)]
            if ready:
                first = min(ready, key=lambda one: one.number)
                self._waiting.remove(first)
                self._taken = True
                first.gate.release()

    def _over(self, after: tuple[int, ...]) -> bool:
        for number in after:
            if number >= self._below and number not in self._ended:
                return False
        return True
