"""Which pinned values of other runs make way for a call: they wait on disk until somebody reads them.

Rules of this file: which, and no more; they are written and read where values are kept (`host`). What is pinned first
goes first: backward reads it last. Values that share memory go together, or nothing is won.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from .contexts import LARGE
from .weighing import owner_of


def in_the_way(
    pins: Mapping[tuple[int, int], Any],
    run: int,
    reads: Container[tuple[int, int]],
    rooms: Sequence[tuple[str, int]],
) -> list[tuple[int, int]]:
    """Return, by their names, the pinned values that have to go so that those which stay take no more than `rooms` say.

    Args:
        pins: what is pinned on the worker, the oldest first.
        run: the run of the call; its own values are its plan's affair, and so is what the call `reads`.
        reads: see there.
        rooms: see `Call.beside`.
    """
    over = {memory: -room for memory, room in rooms if room >= 0}
    if not over:
        return []
    groups: dict[int, tuple[str, int, list[tuple[int, int]]]] = {}
    stays: set[int] = set()
    for name, value in pins.items():
        owner, memory, size = owner_of(value)
        if not size or memory not in over:
            continue
        if name[0] == run or name in reads:
            stays.add(owner)
        else:
            groups.setdefault(owner, (memory, size, []))[2].append(name)
    others = [group for owner, group in groups.items() if owner not in stays]
    for memory, size, _ in others:
        over[memory] += size
    gone: list[tuple[int, int]] = []
    for is_large in (True, False):  # of small ones many have to go before anything is won
        for memory, size, names in others:
            if over[memory] > 0 and (size >= LARGE) is is_large:
                over[memory] -= size
                gone.extend(names)
    return gone
