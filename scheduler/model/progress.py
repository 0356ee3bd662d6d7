"""The progress of a run as frozen data: by it the planner plans again what of the run has not started.

The state machine makes it. Workers and segments are indices, as in plans; times are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class RunProgress(NamedTuple):
    """How far a run has come."""

    done: tuple[tuple[int, float, float], ...]
    """(segment, seconds of its nodes, seconds since it ended) of each segment that has ended well."""
    running: tuple[tuple[int, float], ...]
    """(segment, seconds since it could begin) of each that has begun, or could not be withdrawn; in order of priority
    on each worker."""
    rest: tuple[int, ...]
    """Segments that have not begun, ascending: they may be planned again."""
    fixed: frozenset[int] = frozenset()
    """Values of the rest that runs submitted later read: each is to be made on the worker of the plan."""
    lost: frozenset[int] = frozenset()
    """Workers that are lost or about to leave: nothing is planned there, unless it is tied to what cannot leave."""
    kept: frozenset[int] = frozenset()
    """Kept values that somebody may still read."""
    run: int = -1
    """Its number: plans that go on after equal progress of two runs are told apart by it."""


class RunRemains(NamedTuple):
    """What is left of a run after something of it was lost: by it the planner finds what has to run again."""

    run: int
    progress: RunProgress
    """All that has not begun is its rest, and so is what was lost on the way."""
    exports: frozenset[tuple[int, int]]
    """(segment, export) of the objects that are there, or will be made by what is running."""
    pins: Mapping[int, tuple[int, int]]
    """By value that is pinned, or will be: the segment that pins it, and its worker; -1 for a value whose worker is
    gone and of which there is an object."""
    alive: frozenset[int]
    """Kept values that are there, or will be."""
    wanted: frozenset[int]
    """Kept values that are lost and needed now."""
    owned: frozenset[int]
    """Kept values that are not there and that the client, or a segment, may read: those that are made again are kept
    again."""
    gone: frozenset[int]
    """Segments that have run on workers that have died since: what they pinned is lost."""
    dead: frozenset[int]
    """Workers that have died, and in whose place no other process has come."""
    damaged: bool
    """Something of its rest was lost, so that the rest must be planned again."""
    void: frozenset[int] = frozenset()
    """Those of `gone` whose results count no more: nothing that was computed from them does."""
    unrepeatable: bool = False
    """Nothing of it can run again: what it has read may be gone."""


class PlanRevision(NamedTuple):
    """A time that the rest of a run was planned again."""

    at: float
    """When, by the session's clock."""
    replaced: tuple[int, ...]
    """The segments that were planned again; none of them has begun."""
    new: int
    """The number of segments that have taken their place, the last of the plan then."""
    remade: tuple[int, ...] = ()
    """Nodes that had run, or were running, and run again: what they had made was lost."""
    lost: tuple[str, ...] = ()
    """The workers with which it was lost."""
