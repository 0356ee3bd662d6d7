"""Deadlines of nodes, segments and runs: the limits, what passed one, and the thread that looks for it.

The driver starts the thread only if there is a limit, so that other sessions have none. Workers are asked how far they
are, beside what they run; the machine stops a run that has taken too long."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ..process.host import CallProgress

LOOKS_PER_LIMIT: Final = 8
"""How often the watch looks within the shortest limit."""

MIN_INTERVAL, MAX_INTERVAL = 0.005, 0.5
"""Seconds between two looks."""


class Limits(NamedTuple):
    """The most seconds that each node, each segment and each run may take; None for no limit."""

    node: float | None = None
    segment: float | None = None
    run: float | None = None

    @property
    def interval(self) -> float:
        """Seconds between two looks; 0 if nothing has a limit."""
        limits = [limit for limit in self if limit is not None]
        return min(max(min(limits) / LOOKS_PER_LIMIT, MIN_INTERVAL), MAX_INTERVAL) if limits else 0.0


NO_LIMITS: Final = Limits()


class WorkerProgress(NamedTuple):
    """What a worker says of the call that it runs."""

    worker: int
    call: CallProgress | None
    silent: float = 0.0
    """For how many seconds it has not answered, because its interpreter is busy in a call outside of Python."""


class Expired(NamedTuple):
    """What has passed its deadline."""

    scope: str
    """"node", "segment" or "run"."""
    seconds: float
    limit: float
    worker: str = ""
    segment: int = -1
    node: int = -1
    """The index in the graph of the node that was running, or -1."""


def expired_call(limits: Limits, worker: str, call: CallProgress) -> Expired | None:
    """Return what of a call that is running has passed its deadline."""
    if limits.node is not None and call.node >= 0 and call.node_seconds > limits.node:
        return Expired("node", call.node_seconds, limits.node, worker, call.segment, call.node)
    if limits.segment is not None and call.seconds > limits.segment:
        return Expired("segment", call.seconds, limits.segment, worker, call.segment, call.node)
    return None


class DeadlineWatch:
    """A thread that calls `look` at intervals.

    Args:
        look: a bound method, held weakly: after its object has died the thread ends.
        interval: the seconds between two calls.
    """

    def __init__(self, look: Callable[[], None], interval: float) -> None:
        self._closed = threading.Event()
        arguments = (weakref.WeakMethod(look), interval, self._closed)
        self._thread = threading.Thread(target=_watch, args=arguments, name="raygrad-deadlines", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread. Not to be called while holding what `look` waits for."""
        self._closed.set()
        if self._thread is not threading.current_thread():
            self._thread.join()


def _watch(look: Any, interval: float, closed: threading.Event) -> None:
    while not closed.wait(interval):
        call = look()
        if call is None:
            return
        call()
        del call
