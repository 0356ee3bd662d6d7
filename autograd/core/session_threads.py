"""Threads beside a session: the sessions that are open in this process, and the warning for a thread that computes
outside of them though it was started meanwhile (DR-16).

A session belongs to the threads that have entered it. Another one records only what reads the session's tensors.
"""

from __future__ import annotations

import warnings
import weakref
from typing import Final

from raygrad.tracebacks import users_level

SEGMENTS: Final[list[None]] = []
"""One entry per segment that a worker runs in this process, on any thread, and per deferred operation that is recorded
now: such a thread has a default dtype of its own (`Modes.default_dtype`)."""


class OpenSession:
    """A session that a thread has entered.

    Attributes:
        thread: the name of that thread.
        told: whether the user was warned of a thread that computes outside of it.
    """

    __slots__ = ("__weakref__", "thread", "told")

    def __init__(self, thread: str) -> None:
        self.thread = thread
        self.told = False


OPEN_SESSIONS: Final[weakref.WeakSet[OpenSession]] = weakref.WeakSet()
"""Those that have been entered and not closed. One that is dropped without being closed holds nobody up."""


def warn_of_thread(session: OpenSession, thread: str) -> None:
    """Warn, once per session, that a thread which was started while it was open computes outside of it. Threads that
    user code starts on a worker do so rightly: those that begin while a segment runs here are taken to be such."""
    if session.told or SEGMENTS or session not in OPEN_SESSIONS:
        return
    session.told = True
    warnings.warn(
        f"the thread {thread!r} computes at once, outside of the session that is open in the thread "
        f"{session.thread!r}: a session belongs to the threads that enter it, and what they start does not inherit it. "
        "To have this thread record as well, enter the same session in it (`with session:`), which does not close it "
        "at the end; the values are the same either way",
        UserWarning,
        stacklevel=users_level(),
    )


def warn_of_draw() -> None:
    """Warn that a thread which is in no session, and runs no segment, draws random numbers while one runs here: user
    code has started it, nearly always, and streams of user code do not reach it."""
    warnings.warn(
        "a thread draws random numbers while code of a session runs: in threads that a forward, a backward or a hook "
        "starts, these come from a generator of the process, and so depend on where and when that code runs. Draw "
        "before the thread is started, or hand it a generator that rg.generator() made there",
        UserWarning,
        stacklevel=users_level(),
    )
