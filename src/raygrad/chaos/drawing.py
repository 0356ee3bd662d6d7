"""Faults drawn from a seed: the same seed gives the same fault."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from raygrad.client.options import whole
from raygrad.workers.process.fault_points import POINTS, PointName

from .faults import Delay, DropReply, Fault, Kill, Point, Raise, Stop

RECOVERABLE: Final[tuple[type[Fault], ...]] = (Kill, Stop, Delay, DropReply)
"""Faults after which a session ends with the same bits. `Raise` is an error of the program, and stays one."""


def draw(
    seed: int, *, workers: int = 1, kinds: Sequence[type[Fault]] = RECOVERABLE, most: int = 20, seconds: float = 0.5
) -> Fault:
    """Return a fault for one of so many workers.

    Args:
        seed: what it is drawn from.
        workers: the fault is one of the workers 0 to `workers` - 1.
        kinds: the classes to choose from.
        most: the highest occurrence of a point. "node" counts up to ten times as many, since calls have several.
        seconds: how long a `Stop` or a `Delay` lasts.

    Raises:
        TypeError, ValueError: numbers that are none, or below 1.
    """
    drawn = random.Random(whole("chaos.draw(seed)", seed))
    workers = whole("chaos.draw(workers=...)", workers, 1)
    most = whole("chaos.draw(most=...)", most, 1)
    if not kinds:
        raise ValueError("chaos.draw(kinds=...) takes at least one class of faults")
    kind = drawn.choice(list(kinds))
    worker = drawn.randrange(workers)
    names: list[PointName] = [name for name in POINTS if name != "reply" or kind is not Raise]
    name: PointName = "stored" if kind is DropReply else drawn.choice(names)
    at = Point(name, drawn.randint(1, most * 10 if name == "node" else most))
    if kind is Stop or kind is Delay:
        return kind(worker, at, seconds)
    return kind(worker, at)
