"""Input and output of a simulation as frozen data: submissions, links and failures go in, traces of the runs come out.

`simulate` is the entry, `virtual_event_loop` fills in the traces. Times are virtual seconds from the start of the
simulation; workers and segments are indices, as in plans; bytes are predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..machine.commands import FailRun
from ..planning.planner import Planned


class VirtualLink(NamedTuple):
    """The link between two workers: an object takes `latency` + bytes / `bandwidth` seconds."""

    latency: float
    bandwidth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualSubmission:
    """A planned graph handed in at a time."""

    planned: Planned
    at: float = 0.0
    sources: tuple[tuple[int, int] | None, ...] = ()
    """Per external, the (number of an earlier submission, value) that it is; None if it comes from elsewhere. Empty
    if all do."""
    residency: tuple[int, ...] = ()
    """Per external, the worker that holds it from the start, or -1 if it is with every call. Empty if all are."""
    external_bytes: tuple[int, ...] = ()
    """Per external, its bytes; needed where `residency` names a worker."""


class WorkerLoss(NamedTuple):
    """A worker dies."""

    worker: int
    at: float | None = None
    """When; None for a time drawn evenly from the predicted time of all submissions."""


class WorkerDrain(NamedTuple):
    """A worker is to leave: it is emptied, and ends then."""

    worker: int
    at: float


class ObjectLoss(NamedTuple):
    """Objects are lost from the store, without the workers that made them."""

    at: float
    share: float
    """The part of them that is lost, each drawn by itself."""


class SegmentRaise(NamedTuple):
    """The code of a segment raises at its end."""

    run: int
    segment: int


Failure = WorkerLoss | WorkerDrain | ObjectLoss | SegmentRaise


class SegmentTrace(NamedTuple):
    """One attempt at a segment."""

    run: int
    segment: int
    attempt: int
    worker: int
    commanded: float
    ready: float
    """When all that it reads had come; its worker may have been busy still. -1 if that never was."""
    start: float
    """-1 if it never started."""
    finish: float
    """When it ended, or its worker was lost."""
    status: str
    """"done", "failed", "skipped" (as in `SegmentFinished`), "lost", or "withdrawn" before it began."""


class VirtualTransfer(NamedTuple):
    """The transfer of an object between two workers."""

    start: float
    finish: float
    source: int
    target: int
    size: int
    run: int
    """The run that made it; -1 for an external that was there before."""
    name: str
    """"segment 3, export 0", "value 17" or "external 2"."""


class FailureTrace(NamedTuple):
    """One failure, with the segments and runs that failed by it."""

    at: float
    failure: Failure
    segments: tuple[tuple[int, int], ...]
    """(run, segment) of each segment that was lost or raised."""
    runs: tuple[FailRun, ...]
    """The runs that failed, causes before effects."""


class IdleWait(NamedTuple):
    """Time that a worker was idle before a segment because its inputs had not arrived."""

    worker: int
    start: float
    finish: float
    run: int
    segment: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """The result of a simulation, all lists in order of time."""

    makespan: float
    """When the last segment ended."""
    busy: tuple[float, ...]
    """Per worker, seconds at work, calls included."""
    segments: tuple[SegmentTrace, ...]
    """In order of their ends."""
    transfers: tuple[VirtualTransfer, ...]
    waits: tuple[IdleWait, ...]
    saved: tuple[tuple[tuple[float, int], ...], ...]
    """Per worker, (time, bytes from then on) of contexts and residuals that its segments made and somebody will read
    in another segment."""
    stored: tuple[tuple[tuple[float, int], ...], ...]
    """Per worker, the same of everything that its segments left: objects and pinned values."""
    failures: tuple[FailureTrace, ...]
    finished: tuple[tuple[int, float], ...]
    """(run, when it had finished) of each that did."""
    revisions: tuple[tuple[int, float], ...] = ()
    """(run, when) of each time that the rest of a run was planned again."""
    recoveries: tuple[tuple[int, float, tuple[int, ...]], ...] = ()
    """(run, when, nodes that had run and run again) of each time that what was lost of a run was planned again."""
    lost_values: tuple[tuple[int, int], ...] = ()
    """(run, value) of each that the client held and that could not be made again."""
    drained: tuple[tuple[int, float], ...] = ()
    """(worker, when) of each worker that was emptied and has ended."""
    planned: tuple[Planned, ...] = field(default=(), compare=False, repr=False)
    """Per submission, its plan as it was in the end."""
    commands: int = field(default=0)
    """Commands that the machine gave."""
    events: int = field(default=0)
    """Events that the machine handled."""

    @property
    def peak_saved(self) -> tuple[int, ...]:
        """Per worker, the most bytes saved at once."""
        return tuple(max((size for _, size in series), default=0) for series in self.saved)

    @property
    def peak_stored(self) -> tuple[int, ...]:
        """Per worker, the most bytes stored at once."""
        return tuple(max((size for _, size in series), default=0) for series in self.stored)

    @property
    def utilisation(self) -> float:
        """The share of all workers' time until the end that was work."""
        return sum(self.busy) / (self.makespan * len(self.busy)) if self.makespan and self.busy else 0.0

    @property
    def transferred_bytes(self) -> int:
        """Bytes that went from worker to worker."""
        return sum(one.size for one in self.transfers)


class WhatIf(NamedTuple):
    """A plan for other machines, and how it would run there."""

    planned: Planned
    simulated: SimulatedRun


def as_submissions(what: Planned | VirtualSubmission | Sequence[VirtualSubmission]) -> tuple[VirtualSubmission, ...]:
    """Return one or several submissions as several."""
    if isinstance(what, Planned):
        return (VirtualSubmission(planned=what),)
    return (what,) if isinstance(what, VirtualSubmission) else tuple(what)
