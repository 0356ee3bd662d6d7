"""Progress of waits: what is shown while a session waits, and when.

The waiter asks it at each wait. A bar appears where a wait is long and standard error is a terminal, or in a block of
`session.progress()`; RAYGRAD_PROGRESS=0 shows none, RAYGRAD_PROGRESS=1 shows one for each long wait, wherever it goes.
Where none can appear a wait costs nothing more.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from raygrad.report.progress_bar import ProgressBar, ProgressFacts

    from .run import Run
    from .run_table import RunTable

LONG_WAIT: Final = 2.0
"""Seconds after which a wait shows its progress unasked."""

UPDATE_SECONDS: Final = 0.1
"""The time between two updates of what is shown: facts are counted from all records of the runs."""

IDLE_SECONDS: Final = 5.0
"""How long the thread that shows them outlives the last wait, for the next."""


class WaitProgress:
    """Shows how far the runs of one session are while it waits, from a thread that ends when nothing waits."""

    def __init__(self, table: RunTable) -> None:
        self._table = table
        self._blocks = 0
        self._stream: TextIO | None = None
        self._terminal = False
        """Whether `_stream` is a terminal: asked once, since that is a call of the system."""
        self._lock = threading.Lock()
        self._since: list[float] = []
        """When the waits began that go on, the outermost first."""
        self._runs: dict[int, Run] = {}
        """The runs that were seen under way during these waits."""
        self._bar: ProgressBar | None = None
        self._thread: threading.Thread | None = None

    @contextmanager
    def requested(self) -> Generator[None]:
        """Show a bar at once in each wait of a block, wherever standard error goes."""
        self._blocks += 1
        try:
            yield
        finally:
            self._blocks -= 1

    def around(self, wait: AbstractContextManager[None]) -> AbstractContextManager[None]:
        """Return the block around a wait, which shows how far it is if anybody can see that."""
        setting = os.environ.get("RAYGRAD_PROGRESS", "")
        sees = setting != "0" and (self._blocks or setting == "1" or self._is_terminal())
        return self._shown(wait) if sees else wait

    @contextmanager
    def _shown(self, wait: AbstractContextManager[None]) -> Generator[None]:
        with self._lock:
            self._since.append(time.monotonic())
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="raygrad-progress", daemon=True)
                self._thread.start()
        try:
            with wait:
                yield
        finally:
            with self._lock:
                self._since.pop()
                if not self._since:
                    self._runs.clear()
                    if self._bar is not None:
                        self._bar.close()  # before the program writes on
                        self._bar = None

    def _is_terminal(self) -> bool:
        if sys.stderr is not self._stream:
            self._stream = sys.stderr
            self._terminal = self._stream is not None and self._stream.isatty()
        return self._terminal

    def _watch(self) -> None:
        """Bring the bar up to date until nothing has waited for a while."""
        idle = 0.0
        while idle < IDLE_SECONDS:
            time.sleep(UPDATE_SECONDS)
            with self._lock:
                idle = 0.0 if self._since else idle + UPDATE_SECONDS
                if self._since:
                    self._update(time.monotonic())
                elif idle >= IDLE_SECONDS:
                    self._thread = None

    def _update(self, now: float) -> None:
        self._runs.update(self._table.active.copy())
        if self._bar is None:
            if not self._blocks and now - self._since[0] < LONG_WAIT:
                return
            from raygrad.report.progress_bar import ProgressBar

            self._bar = ProgressBar()
        self._bar.show(facts_of(list(self._runs.values()), now))


def facts_of(runs: list[Run], now: float) -> ProgressFacts:
    """Return how far some runs are at a time, by `time.monotonic`."""
    from raygrad.report.progress_bar import ProgressFacts

    done = stored = segments = 0
    left: float | None = None
    for run in runs:
        ended = {record.segment: sum([size for size, _ in record.exports]) for record in tuple(run.records)}
        total = len(run.plan.segments)
        segments += total
        done += total if run.finished else min(len(ended), total)
        stored += sum(ended.values())
        if not (run.finished or run.failed):
            rest = run.submitted + run.plan.predicted_seconds - now
            left = rest if left is None else max(left, rest)
    return ProgressFacts(len(runs), done, segments, stored, None if left is None or left <= 0 else left)
