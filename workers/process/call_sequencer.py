"""The call sequencer of a worker: a lock that admits one call at a time, each after the calls that it names (H13).

The actor acquires it before each call. Calls come in any order, each on a thread of its own, which waits here; a late
call holds up only those that name it. Of those that can start the lowest rank goes first: calls of the earliest run,
and of these the one with the highest priority, for which others wait longest. The sender numbers calls upwards from 0.
Each number has to end once, whether its call runs or not: else those that name it would wait for ever. A call that was
not admitted yet can be withdrawn, also before it arrives; that it is admitted and that it is withdrawn exclude each
other, under one lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import NamedTuple

UNSEQUENCED = -1
"""The number of a call for which no other waits."""

FIRST_RANK = (-1, 0.0)
"""The rank of what goes before all runs: programs that calls wait for, values that other workers or the client read."""


LAST_RANK = (1 << 62, 0.0)
"""The rank of what goes after all runs: copies for which there is no time (`copy_budget`)."""


class _Ticket(NamedTuple):
    """A waiting call."""

    rank: tuple[int, float]
    number: int
    after: tuple[int, ...]
    gate: Lock
    """Held until this call is admitted or withdrawn."""


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
        self._admitted: set[int] = set()
        """Numbers that are running."""
        self._withdrawn: dict[int, frozenset[int]] = {}
        """By number of a call that has not arrived, or waits, the parts of it that were withdrawn."""
        self._skipped: set[int] = set()
        """Numbers of calls that read what was withdrawn, and are yet to be withdrawn."""

    def acquire(
        self, number: int = UNSEQUENCED, after: tuple[int, ...] = (), rank: tuple[int, float] = FIRST_RANK
    ) -> bool:
        """Wait until no call runs and all calls `after` have ended; `release` admits the next. A rank is the number of
        the run and the priority with its sign changed. Return False at once if the call was withdrawn as a whole: then
        it is not admitted, and not to be released."""
        with self._lock:
            if self._is_withdrawn(number):
                del self._withdrawn[number]
                return False
            if not self._taken and self._all_ended(after):
                self._admit(number)
                return True
            gate = Lock()
            gate.acquire()
            self._waiting.append(_Ticket(rank, number, after, gate))
        gate.acquire()
        with self._lock:
            if number in self._admitted or number == UNSEQUENCED:
                return True
            self._withdrawn.pop(number, None)
            return False

    def withdraw(self, calls: Iterable[tuple[int, Sequence[int], bool]]) -> list[int]:
        """Withdraw parts of calls: each is (number, parts, whether these are all). Return the numbers of those that had
        not been admitted nor ended; what is withdrawn as a whole has ended. No call is admitted in between, so that
        one that comes after another is never admitted because that was withdrawn before it."""
        with self._lock:
            found: list[int] = []
            whole: list[int] = []
            for number, parts, all_parts in calls:
                if number in self._admitted or number < self._below or number in self._ended:
                    continue
                found.append(number)
                if number in self._skipped:
                    self._skipped.discard(number)
                else:
                    self._withdrawn[number] = self._withdrawn.get(number, frozenset()).union(parts)
                if all_parts:
                    whole.append(number)
                    for one in [one for one in self._waiting if one.number == number]:
                        self._waiting.remove(one)
                        one.gate.release()
            for number in whole:
                self._end(number)
            return found

    def skip(self, number: int) -> None:
        """Enter that a call will not acquire, because it reads what was withdrawn. It ends when it is withdrawn itself,
        which may have been or will be: what comes after it is withdrawn with it."""
        with self._lock:
            if self._is_withdrawn(number):
                del self._withdrawn[number]
            else:
                self._skipped.add(number)

    def withdrawn_parts(self, number: int) -> frozenset[int]:
        """Return the parts of an admitted call that were withdrawn before it was admitted."""
        with self._lock:
            return self._withdrawn.pop(number, frozenset())

    def _is_withdrawn(self, number: int) -> bool:
        return number in self._withdrawn and (number < self._below or number in self._ended)

    def _admit(self, number: int) -> None:
        self._taken = True
        if number != UNSEQUENCED:
            self._admitted.add(number)

    def release(self, number: int = UNSEQUENCED) -> None:
        """End the running call `number`, and admit the next."""
        with self._lock:
            self._taken = False
            self._admitted.discard(number)
            self._end(number)

    def hurry(self) -> None:
        """Have what waits with the last rank go first."""
        with self._lock:
            self._waiting = [one._replace(rank=FIRST_RANK) if one.rank == LAST_RANK else one for one in self._waiting]

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
                self._admit(first.number)
                first.gate.release()

    def _all_ended(self, after: tuple[int, ...]) -> bool:
        for number in after:
            if number >= self._below and number not in self._ended:
                return False
        return True
