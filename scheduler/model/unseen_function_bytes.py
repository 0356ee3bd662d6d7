"""The estimate of the bytes that a Function makes and saves which was not observed: the one for planner and workers.

A plan leaves memory for it (`memory_spaces`), calls are cut by it (`memory_ledger`), and workers evict for it before
such a step runs. It errs high: a value that was evicted for nothing costs a read from disk, one byte too little passes
the limit.
"""

from __future__ import annotations

from typing import Final

FACTOR: Final = 8
"""Bytes that such a Function makes and saves at most, for each byte that it reads."""


def estimated_bytes(read: int) -> int:
    """Return the bytes that a Function makes and saves which reads so many bytes, and was never observed."""
    return FACTOR * read


class UnseenFunctions:
    """What Functions made on a worker, by name, that no plan has known yet: it replaces the estimate."""

    def __init__(self) -> None:
        self._factors: dict[str, float] = {}
        """The most bytes made for each byte that was read."""

    def estimate(self, name: str, read: int) -> int:
        """Return the bytes that a Function makes which reads so many bytes."""
        factor = self._factors.get(name)
        return estimated_bytes(read) if factor is None else int(factor * read)

    def observe(self, name: str, read: int, made: int) -> None:
        """Note what a run of a Function read and made, in bytes."""
        self._factors[name] = max(self._factors.get(name, 0.0), made / max(read, 1))
