"""Session execution: the submitter, the fetcher and the waiter of a session as one interface for recorders.

What recorders of user Functions and compiled functions, in sub-rooms below, ask of the session: the first run of a user
Function, a replay, and reading a context or an object submit what is recorded and wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..recording.held_records import HeldRecords
    from ..submission.waiter import Waiter
    from .fetch import Fetcher
    from .submit import Submitter


class SessionExecution:
    """A session's way to run what is recorded and to read its values; its methods are those of its parts."""

    def __init__(
        self,
        submitter: Submitter,
        fetcher: Fetcher,
        waiter: Waiter,
        held: HeldRecords,
        saved_policy: str,
        *,
        limited: bool,
    ) -> None:
        self.saved_policy = saved_policy
        """The session's policy for what forward saves."""
        self.limited = limited
        """Whether workers keep a memory limit, for which plans need the sizes of values."""
        self._submitter = submitter
        self.submit = submitter.submit
        self.next_run = submitter.next_run
        self.send = submitter.send
        self.hold = held.hold
        self.read = fetcher.read
        self.peek = fetcher.peek
        self.is_defined = fetcher.is_defined
        self.wait_for = fetcher.wait_for
        self.wait_for_facts = fetcher.wait_for_facts
        self.wait_for_everything = waiter.wait_for_everything

    @property
    def sync(self) -> bool:
        """Whether each submission is waited for."""
        return self._submitter.sync
