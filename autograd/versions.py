"""Versions: how changes of a tensor's memory are counted (CX-13, CX-14).

Rules of this file: the counter that a tensor shares with its views and aliases, and the clock of all changes. A counter
is a list, since who keeps a saved value keeps it too: the version, and when it last moved.
"""

from __future__ import annotations

CLOCK = [0]
"""How many changes there have been in this process: where it stands still, nothing was changed."""


def new_counter() -> list[int]:
    """Return the counter of memory that was never changed."""
    return [0, 0]


def bump(counter: list[int]) -> None:
    """Count a change."""
    CLOCK[0] += 1
    counter[0] += 1
    counter[1] = CLOCK[0]
