"""The time of a worker that recovery copies may take.

Copies are of use only if a worker dies (`scheduler.machine.recovery_copies`), and a training that submits its steps
ahead leaves no worker idle. So a worker makes them between two calls as long as they have taken less than `SHARE` of
its work; then they wait until it is idle, or has worked enough.
"""

from __future__ import annotations

from typing import Final

SHARE: Final = 0.02
"""The part of a worker's time that copies may take."""


class CopyBudget:
    """What copies may take of the time of one worker. It may be overdrawn by one command: how long copies take is not
    known before."""

    def __init__(self) -> None:
        self._seconds = 0.0

    @property
    def open(self) -> bool:
        """Whether copies may take the worker's time now."""
        return self._seconds >= 0.0

    def worked(self, seconds: float) -> bool:
        """Enter seconds of work; return whether the budget has been opened by them."""
        before = self.open
        self._seconds += SHARE * seconds
        return self.open and not before

    def copied(self, seconds: float) -> None:
        """Enter seconds that copies have taken."""
        self._seconds -= seconds
