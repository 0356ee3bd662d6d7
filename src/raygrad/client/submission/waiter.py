"""Waiter: waits on the driver until something is done, and raises what went wrong meanwhile.

Sync points of the session and handles of runs wait here; while it waits, the run listener is called.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from .wait_progress import WaitProgress

if TYPE_CHECKING:
    from raygrad.workers.executors.session_driver import SessionDriver

    from ..recording.garbage_collection import GarbageCollectorTuning
    from .failures import Failures
    from .remote_warnings import RemoteWarnings
    from .run_table import RunTable


class Waiter:
    """Waits for the runs of one session."""

    def __init__(
        self,
        driver: SessionDriver,
        failures: Failures,
        warnings: RemoteWarnings,
        runs: RunTable,
        collector: GarbageCollectorTuning,
        timeout: float | None,
        unlocked: Callable[[], AbstractContextManager[None]] | None,
    ) -> None:
        """`unlocked` opens a block in which other threads may use the session, where workers run code on such."""
        self.timeout = timeout
        """Seconds that a wait may take, None for no limit."""
        self._unlocked = nullcontext if unlocked is None else unlocked
        self.progress = WaitProgress(runs)
        """Shows how far the runs are while it waits."""
        self._driver = driver
        self._failures = failures
        self._warnings = warnings
        self._runs = runs
        self._collector = collector

    def unlocked(self) -> AbstractContextManager[None]:
        """Return a block around a wait of this session: other threads may use the session meanwhile, where workers run
        code on such, and a long one shows how far it is."""
        return self.progress.around(self._unlocked())

    def poll(self) -> None:
        """Process what has arrived, without waiting."""
        self._collector.collect_if_due()
        self._driver.poll(0.0)

    def wait_until(self, done: Callable[[], bool], timeout: float | None = None) -> None:
        """Wait until `done()`, or until there is an error, which is raised.

        Raises:
            WaitTimeout: `timeout` seconds, or those of the session, have passed.
            The oldest error of the session's work that was not raised before.
        """
        limit = self.timeout if timeout is None else timeout
        deadline = None if limit is None else time.monotonic() + limit
        with self.unlocked():
            self._driver.wait(lambda: done() or bool(self._failures.unraised), deadline)
        self.raise_errors()

    def wait_for_everything(self) -> None:
        """Wait for every run."""
        self.wait_until(lambda: all(s.finished or s.error is not None for s in self._runs.history))

    def cancel(self, run: int | None = None) -> bool:
        """Cancel a run, or all, and wait until nothing of them runs; return whether one had not ended."""
        with self.unlocked():
            return self._driver.cancel_all() if run is None else self._driver.cancel((run,))

    def error_of(self, run: int) -> BaseException | None:
        """Return the error for waiting for a run, if it was cancelled."""
        return self._failures.of_run(run)

    def deadline(self) -> float | None:
        """Return when a wait that begins now passes its deadline."""
        return None if self.timeout is None else time.monotonic() + self.timeout

    def raise_errors(self) -> None:
        """Issue the warnings of workers, and raise the oldest error that was not raised, if there is one."""
        self._warnings.issue()
        self._failures.raise_next()
