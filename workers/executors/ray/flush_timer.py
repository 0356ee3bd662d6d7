"""A flush timer: a thread that calls back once, some time after the first of several requests.

The Ray executor sends batches by it that nothing else sent. The thread starts when first needed, sleeps while nothing
is scheduled, and keeps its owner alive by no reference."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any


class FlushTimer:
    """A timer that calls `remind` some time after `schedule`, once for all calls of `schedule` since the last time.

    Args:
        remind: a bound method, held weakly: after its object has died nothing is called.
        seconds: the delay.
    """

    def __init__(self, remind: Callable[[], None], seconds: float) -> None:
        self._remind: Any = weakref.WeakMethod(remind)
        self._seconds = seconds
        self._begun = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def schedule(self) -> None:
        """Start the timer, unless it is running."""
        if self._thread is None:
            arguments = (self._remind, self._seconds, self._begun, self._closed)
            self._thread = threading.Thread(target=_run_timer, args=arguments, name="raygrad-flush-timer", daemon=True)
            self._thread.start()
        if not self._begun.is_set():
            self._begun.set()

    def close(self) -> None:
        """End the thread; closing again does nothing. Not to be called while holding what `remind` waits for."""
        self._closed.set()
        self._begun.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()


def _run_timer(remind: Any, seconds: float, begun: threading.Event, closed: threading.Event) -> None:
    while True:
        begun.wait()
        if closed.wait(seconds):
            return
        begun.clear()
        if closed.is_set():  # `close` was called just now: its `set` was cleared, and nobody would set it again
            return
        call = remind()
        if call is None:
            return
        call()
        del call
