"""Execution interface: what recording user code asks of the session above it.

The first run of a user Function, and reading a context or an object, submit what is recorded and wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..recording.records import NodeRecord


class Execution(Protocol):
    """A session's way to run what is recorded and to read its values."""

    saved_policy: str
    """The session's policy for what forward saves."""

    @property
    def sync(self) -> bool:
        """Whether each application waits for its run."""
        ...

    def submit(self, *, open_ended: bool = False) -> None:
        """Submit the records that are needed; `open_ended`: the last one is waited for to learn its outputs."""

    def hold(self, record: NodeRecord) -> None:
        """Remember a submitted record whose values may have to be fetched when the session is closed."""

    def wait_for(self, record: NodeRecord, done: Callable[[], bool]) -> None:
        """Wait until `done()`, which the end of the record's run brings about."""

    def wait_for_everything(self) -> None:
        """Wait for every run."""

    def read(self, record: NodeRecord, index: int) -> Any:
        """Return output `index` of a record, None for an undefined gradient; waits."""
        ...

    def is_defined(self, record: NodeRecord, index: int) -> bool:
        """Tell whether output `index` of a record is a defined gradient; waits."""
        ...
