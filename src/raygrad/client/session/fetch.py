"""Fetcher: reads the values of recorded nodes, submitting and waiting for what makes them.

Sync points of tensors come here through the session's recorder. The driver waits; `failures` says which error is raised
for a value that was dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raygrad.autograd.core.recorder import Pending
from raygrad.errors import WaitTimeout
from raygrad.workers.values.packed_values import POISON

from ..recording.records import NodeRecord

if TYPE_CHECKING:
    from raygrad.workers.executors.session_driver import SessionDriver

    from ..recording.record_log import RecordLog
    from ..submission.failures import Failures
    from ..submission.waiter import Waiter
    from .submit import Submitter


class Fetcher:
    """Fetches values for one session."""

    def __init__(
        self, log: RecordLog, submitter: Submitter, waiter: Waiter, failures: Failures, driver: SessionDriver
    ) -> None:
        self._log = log
        self._submitter = submitter
        self._waiter = waiter
        self._failures = failures
        self._driver = driver

    def wait_for(self, record: NodeRecord, done: Callable[[], bool]) -> None:
        """Wait until `done()`, which the end of the record's run brings about.

        Raises:
            WaitTimeout: it is not done before the deadline.
            DroppedError: its run failed.
        """
        try:
            self._waiter.wait_until(lambda: done() or record.run in self._failures.runs)
        except WaitTimeout as error:
            raise self._timeout(record, error) from None
        if not done():
            raise self._failures.dropped(record)

    def wait_for_facts(self, record: NodeRecord) -> None:
        """Wait until the run of a record has shown whether what is presumed of it holds, unless that is checked by the
        worker. Raises what `read` does."""
        if record.failed or record.run in self._failures.runs or not self._log.closed:
            self._ensure_submitted(record)
            if not record.learn.relied_on:
                self.wait_for(record, lambda: not record.learn.presumes)

    def read(self, record: NodeRecord, index: int) -> Any:
        """Return output `index` of a record, waiting for it; None when it is an undefined gradient.

        Raises:
            SessionError: the session is closed.
            DroppedError: its run failed; or the error of that, if it was not raised before.
            WaitTimeout: it is not here before the deadline.
        """
        if self._log.shared:
            self.bring_home()
        if record.values is not None and index in record.values:
            return record.values[index]
        self._ensure_submitted(record)
        value = self.fetch(record, index)
        self._waiter.raise_errors()
        if value is POISON:
            raise self._failures.dropped(record)
        return value

    def peek(self, record: NodeRecord, index: int) -> Any:
        """Return output `index` of a record if it is here, without waiting; else None, and of an undefined gradient."""
        if record.values is not None and index in record.values:
            return record.values[index]
        if record.run < 0 or record.failed or record.run in self._failures.runs or self._log.closed:
            return None
        return self._driver.peek(record.run, record.base + index)

    def bring_home(self) -> None:
        """Bring what was changed in place home to the memory that the program shares, and wait for that."""
        if self._log.trace is not None or self._log.closed:
            return
        self._submitter.submit()
        self._waiter.wait_for_everything()
        self._log.shared.bring_home(self._value_at_home)

    def _value_at_home(self, value: Pending) -> Any:
        record: Any = value.record
        if type(record) is not NodeRecord:
            return record.constant.value
        if record.failed or record.run < 0:
            return None
        found = self.fetch(record, value.index) if value.index not in (record.values or ()) else None
        return None if found is POISON else (record.values or {}).get(value.index)

    def is_defined(self, record: NodeRecord, index: int) -> bool:
        """Tell whether output `index` of a record is a defined gradient, waiting for it. An array stays where it
        is. Raises what `read` does."""
        if record.values is None or index not in record.values:
            self._ensure_submitted(record)
            try:
                with self._waiter.unlocked():
                    stays = self._driver.stays_on_worker(record.run, record.base + index, self._waiter.deadline())
            except WaitTimeout as error:
                raise self._timeout(record, error) from None
            if stays:
                self._waiter.raise_errors()
                return True
        return self.read(record, index) is not None

    def fetch(self, record: NodeRecord, index: int) -> Any:
        """Return output `index` of a submitted record, waiting for it, and keep it in the record; POISON if its run
        failed or it was dropped.

        Raises:
            WaitTimeout: it is not here before the deadline.
        """
        try:
            with self._waiter.unlocked():
                value = self._driver.read(record.run, record.base + index, self._waiter.deadline())
        except WaitTimeout as error:
            raise self._timeout(record, error) from None
        if value is not POISON:
            if record.values is None:
                record.values = {}
            record.values[index] = value
        return value

    def _ensure_submitted(self, record: NodeRecord) -> None:
        """Submit a record, unless it is.

        Raises:
            SessionError: the session is closed.
            DroppedError: its run failed; or the error of that, if it was not raised before.
        """
        if self._log.closed:
            raise self._log.closed_error("this value was dropped when its session was closed")
        with self._log.lock:  # another thread may be submitting it: the driver knows the run when that has ended
            if record.run < 0 and not record.failed:
                self._submitter.submit()
        if record.failed or record.run in self._failures.runs:
            self._waiter.raise_errors()
            raise self._failures.dropped(record)

    def _timeout(self, record: NodeRecord, error: WaitTimeout) -> WaitTimeout:
        """Return the error for a wait that has passed its deadline, which names what was waited for."""
        limit = self._waiter.timeout
        return WaitTimeout(f"waited {limit} s (Session(timeout=...)) for {self._failures.name(record)}: {error}")
