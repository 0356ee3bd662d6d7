"""A seeded pseudorandom generator for the search for schedules: SplitMix64 (Steele, Lea and Flood, 2014).

It gives equal numbers on every machine and with every version of NumPy, so that plans are reproducible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_MASK = (1 << 64) - 1


class SeededRandom:
    """A generator whose numbers depend on its seed alone."""

    __slots__ = ("_state",)

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def random(self) -> float:
        """Return a number in [0, 1)."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((mixed ^ (mixed >> 31)) >> 11) * 2.0**-53

    def one_of(self, some: Sequence[T]) -> T:
        """Return an element of a sequence, each equally likely."""
        return some[int(self.random() * len(some))]
