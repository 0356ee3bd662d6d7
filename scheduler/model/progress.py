"""The progress of a run as frozen data: by it the planner plans again what of the run has not started.

The state machine makes it. Workers and segments are indices, as in plans; times are seconds.
"""

from __future__ import annotations

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


class PlanRevision(NamedTuple):
    """A time that the rest of a run was planned again."""

    at: float
    """When, by the session's clock."""
    replaced: tuple[int, ...]
    """The segments that were planned again; none of them has begun."""
    new: int
    """The number of segments that have taken their place, the last of the plan then."""
