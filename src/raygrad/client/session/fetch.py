"""Reading: the values of what was recorded, which are waited for, and why they may not come.

Rules of this file: the methods of `Session` that wait for a record and read its outputs; waiting itself is the
driver's, and which error is raised `failures` says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raygrad.errors import SessionError, WaitTimeout
from raygrad.workers.values.packed_values import POISON

from ..recording.records import NodeRecord

if TYPE_CHECKING:
    from .session import Session


def wait_for_record(self: Session, record: NodeRecord, done: Callable[[], bool]) -> None:
    """Wait until `done()`, which the end of the record's run brings about."""
    try:
        self.wait_until(lambda: done() or record.run in self._failures.runs)
    except WaitTimeout as error:
        raise _too_long(self, record, error) from None
    if not done():
        raise self._failures.dropped(record)


def read_output(self: Session, record: NodeRecord, index: int) -> Any:
    """Return output `index` of a record, waiting for it; None when it is an undefined gradient."""
    if record.values is not None and index in record.values:
        return record.values[index]
    _see_to_it(self, record)
    value = fetched(self, record, index)
    self._raise_errors()
    if value is POISON:
        raise self._failures.dropped(record)
    return value


def is_output_defined(self: Session, record: NodeRecord, index: int) -> bool:
    """Tell whether output `index` of a record is no undefined gradient, waiting for it. An array stays where it
    is."""
    if record.values is None or index not in record.values:
        _see_to_it(self, record)
        try:
            stays = self._driver.stays_on_worker(record.run, record.base + index, self._limit())
        except WaitTimeout as error:
            raise _too_long(self, record, error) from None
        if stays:
            self._raise_errors()
            return True
    return self.read(record, index) is not None


def _see_to_it(self: Session, record: NodeRecord) -> None:
    """See to it that a record is submitted.

    Raises:
        SessionError: the session is closed.
        DroppedError: its run failed; or the error of that, if it was not raised before.
    """
    if self._recorder.closed:
        raise SessionError("this value was dropped when its session was closed")
    if record.run < 0 and not record.failed:
        self.submit()
    if record.failed or record.run in self._failures.runs:
        self._raise_errors()
        raise self._failures.dropped(record)


def _too_long(self: Session, record: NodeRecord, error: WaitTimeout) -> WaitTimeout:
    """Return the error for a wait that has passed its deadline, which says for what it was."""
    return WaitTimeout(f"waited {self.timeout} s (Session(timeout=...)) for {self._failures.name(record)}: {error}")


def fetched(self: Session, record: NodeRecord, index: int) -> Any:
    """Return output `index` of a record that is submitted, waiting for it, and keep it there.

    It is POISON where its run failed or it was dropped.

    Raises:
        WaitTimeout: it is not here before the deadline.
    """
    try:
        value = self._driver.read(record.run, record.base + index, self._limit())
    except WaitTimeout as error:
        raise _too_long(self, record, error) from None
    if value is not POISON:
        if record.values is None:
            record.values = {}
        record.values[index] = value
    return value
