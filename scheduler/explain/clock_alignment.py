"""Clock alignment: the offset between a worker's clock and the session's, bounded by the calls between them.

A call cannot begin before it was sent, nor can its answer arrive before it has ended, so each call narrows the bounds.
The session updates the offsets, `actual_run` applies them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..model.measured_costs import TimedRecord


@dataclass(slots=True)
class ClockOffset:
    """The seconds to add to one worker's times for the session's clock, known to be between `low` and `high`."""

    low: float = float("-inf")
    high: float = float("inf")

    def saw(self, called: TimedRecord) -> None:
        """Enter a call: sent and answered by the session's clock, begun and ended by the worker's."""
        self.low = max(self.low, called.sent - called.record.timing.began)
        self.high = min(self.high, called.came - called.ended)

    @property
    def seconds(self) -> float:
        """The offset: none where none is needed, as on one machine, else the middle of what is possible."""
        if self.low <= 0.0 <= self.high:
            return 0.0
        return (self.low + self.high) / 2
