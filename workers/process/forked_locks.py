"""Locks in forked processes: those that were held by threads that a child made by `os.fork` does not have.

Executors, drivers and sessions hold locks that other threads take. Nobody would ever release them in the child.
"""

from __future__ import annotations

from typing import Any


def renew_after_fork(lock: Any) -> None:
    """Release an RLock, just after a fork, in the child, unless the current thread holds it: that goes
    on in the child, and releases it itself. Whoever has bound its methods keeps the same lock."""
    if not lock._is_owned():
        lock._at_fork_reinit()
