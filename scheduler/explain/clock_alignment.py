"""Clocks of several machines as one.

Rules of this file: no clock is read here. A call cannot begin before it was sent, nor its answer come before it has
ended: each call that is told of narrows down how far a worker's clock is from the session's.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ClockOffset:
    """What is to be added to one worker's times to have them by the session's clock."""

    low: float = float("-inf")
    high: float = float("inf")

    def saw(self, *, sent: float, began: float, ended: float, came: float) -> None:
        """Enter a call: sent and answered by the session's clock, begun and ended by the worker's."""
        self.low = max(self.low, sent - began)
        self.high = min(self.high, came - ended)

    @property
    def seconds(self) -> float:
        """The offset: none where none is needed, as on one machine, else the middle of what is possible."""
        if self.low <= 0.0 <= self.high:
            return 0.0
        return (self.low + self.high) / 2
