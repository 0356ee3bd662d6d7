"""Sessions in forked processes: each belongs to the process that opened it, and a child made by `os.fork` only refuses.

The child has a copy of the session without its threads, and with locks that they may have held. Every use of it there
raises SessionError; what the session holds stays the parent's, also when the child ends.
"""

from __future__ import annotations

import os
import weakref
from typing import Final, Protocol


class PartOfSession(Protocol):
    """A part of a session that has locks."""

    def leave_to_parent(self, why: str) -> None:
        """End in a process that was forked from the session's: every later use there says `why`."""


_parts: Final[weakref.WeakSet[PartOfSession]] = weakref.WeakSet()


def leave_to_parent_in_forks(*parts: PartOfSession) -> None:
    """Have parts of a session end in each process that is forked from this one."""
    _parts.update(parts)


def _after_fork() -> None:
    why = (
        f"this session belongs to process {os.getppid()}, and this is process {os.getpid()}, forked from it: the "
        "session's workers and values are there. Read values before the fork, send results back to that process, or "
        "open a session of this process's own (on Ray: in a process that is started, not forked, by "
        "multiprocessing.get_context('spawn'))"
    )
    for part in list(_parts):
        part.leave_to_parent(why)
    _parts.clear()


os.register_at_fork(after_in_child=_after_fork)
