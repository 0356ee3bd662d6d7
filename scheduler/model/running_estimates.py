"""Running estimates of measured times: the factor of one kind of node on its prior, and the run time of one plan.

`measured_costs` enters measurements. Other work of the machine only adds time, so that slower measurements weigh less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

NEWEST_WEIGHT: Final = 0.25
"""The weight of a new measurement in the running mean: those of ten runs ago count a twentieth."""

SLOWER_WEIGHT: Final = 0.1
"""The weight of a new measurement that is slower: other work of the machine only adds time."""

MIN_FACTOR: Final = 1e-6
"""The smallest factor: every node takes time."""

MAX_NODE_FACTOR: Final = 2.0
"""One measurement of a kind of node counts at most as this many times what was known: a node of 50 µs during which the
machine did something else for 5 ms has not become a hundred times as heavy."""


@dataclass(slots=True)
class Estimate:
    """The running estimate for one kind of node."""

    factor: float = 1.0
    """Measured seconds over those of the prior."""
    spread: float = 0.0
    """By how much of `factor` measurements are off it in the mean, weighted as they are."""
    seconds: float = 0.0
    """Of one node."""
    count: int = 0
    """Runs that it was measured in, of first runs of the code in a process one at most."""
    first: bool = False
    """Only such first runs were measured, with their imports and compilation."""

    def take(self, factor: float, seconds: float, *, first: bool = False) -> None:
        """Enter a measurement; `first` says that it is of the first run of the code in a process. Such a one counts
        only until there is another; of several the shortest. The first measurement of all is replaced by the second:
        code that runs for the first time is slow."""
        if first and self.count:
            if self.first and factor < self.factor:
                self.factor, self.seconds = factor, seconds
            return
        self.count += 1
        if self.count <= 2:
            self.spread = 1.0 if self.count == 1 else abs(factor - self.factor) / max(factor, self.factor)
            self.factor, self.seconds, self.first = factor, seconds, first
            return
        weight = max(NEWEST_WEIGHT if factor < self.factor else SLOWER_WEIGHT, 1.0 / (self.count - 1))
        if factor > MAX_NODE_FACTOR * self.factor:
            factor, seconds = MAX_NODE_FACTOR * self.factor, MAX_NODE_FACTOR * self.seconds
        off = min(abs(factor - self.factor) / self.factor, 1.0)
        self.spread += weight * (off - self.spread)
        self.factor += weight * (factor - self.factor)
        self.seconds += weight * (seconds - self.seconds)


@dataclass(slots=True)
class PlanTimes:
    """The running mean of a plan's run time, from the first call to the last record."""

    seconds: float = 0.0
    count: int = 0
    """Runs that were measured."""
    ended: int = 0
    """Runs, of which not all are measured."""
    measured: int = 0
    """Runs whose parts were measured, whatever was in their way."""

    def take(self, seconds: float) -> None:
        """Enter a run. The first is replaced by the second, as in `Estimate`."""
        self.count += 1
        weight = 1.0 if self.count <= 2 else max(NEWEST_WEIGHT, 1.0 / (self.count - 1))
        self.seconds += weight * (seconds - self.seconds)


def estimates_data(estimates: Mapping[str, Estimate]) -> dict[str, list[Any]]:
    """Return estimates as plain data, for `estimates_of`."""
    return {
        name: [one.factor, one.spread, one.seconds, one.count, one.first] for name, one in sorted(estimates.items())
    }


def estimates_of(data: Any) -> dict[str, Estimate]:
    """Return the estimates that `estimates_data` returned as data.

    Raises:
        AttributeError, TypeError, ValueError: they are none.
    """
    return {
        str(name): Estimate(finite(factor) or MIN_FACTOR, finite(spread), finite(seconds), int(count), bool(first))
        for name, (factor, spread, seconds, count, first) in data.items()
    }


def finite(raw: Any) -> float:
    """Return a time, rate or factor that was read.

    Raises:
        TypeError, ValueError: it is none.
    """
    number = float(raw)
    if number < 0.0 or not isfinite(number):
        raise ValueError(f"{raw!r} is no time, rate or factor")
    return number
