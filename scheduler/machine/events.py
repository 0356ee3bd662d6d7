"""Events: the input of the state machine, as frozen data in the past tense.

The driver reports what it has seen, and the machine decides what counts. Time comes in as `at`: seconds of any
monotonic clock of the driver. Runs are numbered by the driver, ascending; workers and
segments are indices as in `model.plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..model.plan import Plan, Segment, ValueLocation

Status = Literal["done", "failed", "skipped"]
"""How an attempt ended; as `Record.status`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedSegment:
    """The part of a plan's segment that the machine needs."""

    worker: int
    imports: tuple[tuple[int, int], ...] = ()
    """(segment, export) of this run: the objects that it reads."""
    after: tuple[int, ...] = ()
    """Earlier segments of this run on the same worker whose pins it reads or drops."""
    reads: tuple[tuple[int, int], ...] = ()
    """(run, value) of each kept value that it reads: of earlier runs, wherever it is; of this run, if an earlier
    segment of the same worker pinned it (another one is read by `imports`)."""
    exports: tuple[bool, ...] = ()
    """Per object that it returns, True if the object holds saved values (contexts, residuals)."""
    pins: tuple[int, ...] = ()
    """Value ids that it leaves pinned on its worker."""
    seconds: float = 0.0
    """Its predicted work."""
    priority: float = 0.0
    """Predicted work from its start to the end of the run along its longest chain of readers; see `priorities`."""
    copied_pins: tuple[int, ...] = ()
    """As `Segment.copied_pins`."""
    drops: tuple[int, ...] = ()
    """Values that earlier segments pinned and that no later one reads: the worker drops them when it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSubmitted:
    """A planned graph was handed in. `run` is larger than every run before it. Build it with `run_submitted`.

    The client holds every kept value from here on, until `ValueDropped`. Runs that are read from must be known:
    the client may not name a value that it has dropped.
    """

    at: float
    run: int
    segments: tuple[SubmittedSegment, ...]
    kept: tuple[tuple[int, ValueLocation], ...] = ()
    """(value id, where it will be)."""
    open_ended: bool = False
    """The last segment ends with a Function not seen before (H3): see `SegmentFinished.opened`."""
    workers: int = 1
    """The number of workers of its cluster."""
    replans: bool = True
    """What has not started is divided again among the workers if the plan turns out wrong, or once there are more;
    False for a plan that keeps limits of memory."""
    supplied_bytes: int = 0
    """Bytes of arrays that the client supplies, and keeps as long as something may have to be made again of them."""
    nodes: int = 0
    """The number of nodes of its graph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSubmitted:
    """A graph was handed in with its plan: the machine takes it as the `run_submitted` of these."""

    at: float
    run: int
    plan: Plan
    sources: tuple[tuple[int, int] | None, ...]
    """See `run_submitted`."""
    supplied_bytes: int = 0
    """See `RunSubmitted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFinished:
    """An attempt at a segment came back. "failed": its code raised; "skipped": an input was poisoned, so that it
    did not run. A late result of an earlier attempt may be reported; the machine counts and drops it."""

    at: float
    run: int
    segment: int
    attempt: int
    status: Status
    export_bytes: tuple[int, ...] = ()
    """Bytes of each object that it returned; empty unless done."""
    opened: tuple[int, ...] = ()
    """Value ids that an open-ended node pinned on the worker (H3): the client holds them from here on."""
    node_seconds: float = 0.0
    """What its nodes took."""
    seconds: float = 0.0
    """Seconds that its worker spent on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRequested:
    """The client reads a kept value that is pinned on a worker and too large to have come in a record.

    Not needed for a value in the store or in a record. May come before the value exists. The answer is an
    `ExportValue` (none if one was given before), or that the run fails or the value is lost.
    """

    at: float
    run: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueExported:
    """The work of an `ExportValue` command ended: the object exists, or (`ok` False) could not be made."""

    at: float
    run: int
    value: int
    ok: bool = True
    size: int = 0
    """Bytes of the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCopied:
    """A value was copied by a `CopyValues` command: the copy exists, or (`ok` False) could not be made."""

    at: float
    run: int
    value: int
    ok: bool = True
    size: int = 0
    """Bytes of the copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDropped:
    """The client no longer holds a kept value: no handle, pass or tape refers to it. Once per value.

    May come at any time after the submission; that of a failed run's value is ignored. Runs submitted before that
    read the value still get it.
    """

    at: float
    run: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDied:
    """A worker died, with all that was pinned on it. What it returned before survives."""

    at: float
    worker: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAbandoned:
    """The client abandons a run (interrupt, `close(discard=True)`): the run counts as failed, all of its values as
    dropped. Running segments end by themselves; no more are started."""

    at: float
    run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReviewed:
    """The planner has answered `ReviewPlan`."""

    at: float
    run: int
    worth: bool
    """The rest, planned again, would end earlier by more than was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStopped:
    """The user has cancelled a run, or it has passed a deadline; nothing if it has ended. What of it runs is stopped;
    see `cancellation`."""

    at: float
    run: int
    expired: bool = False
    """A deadline has passed."""
    segment: int = -1
    """The segment that took too long, or -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAnswered:
    """A worker was told to stop a segment, which it had begun."""

    at: float
    run: int
    segment: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReplaced:
    """Another process has taken the place of a worker that died, and nothing is pinned on it; or that is impossible,
    and the worker is as it was."""

    at: float
    worker: int
    ok: bool = True
    """False if the worker is dead, and nothing takes its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersAdded:
    """Workers have joined, and the planner knows them. They have the highest indices."""

    at: float
    workers: int
    """How many workers there are now, counting those that are gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequested:
    """A worker is to end once it is empty, and the planner makes no more plans for it; see `draining`."""

    at: float
    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainCancelled:
    """A worker stays after all, and the planner makes plans for it again."""

    at: float
    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsWithdrawn:
    """The workers have answered `WithdrawSegments`: these (run, segment) had not begun and never will in this attempt.
    The others have begun, or ended, and come back as ever."""

    at: float
    segments: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestPlanned:
    """The planner has answered `PlanRest`."""

    at: float
    run: int
    plan: Plan | None
    """The plan of the run with new segments behind those that it had; those that it replaces have no nodes any more.
    None if the plan is kept: what was withdrawn is commanded again."""
    sources: tuple[tuple[int, int] | None, ...] = ()
    """See `run_submitted`."""


class RecoveryPlan(NamedTuple):
    """The plan of a run of which something was lost, with new segments behind those that it had."""

    run: int
    plan: Plan
    sources: tuple[tuple[int, int] | None, ...]
    """See `run_submitted`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlanned:
    """The planner has answered `PlanRecovery`."""

    at: float
    plans: tuple[RecoveryPlan, ...]
    """In order of their runs. Of each, all that had not begun is replaced by the new segments."""
    hopeless: tuple[int, ...] = ()
    """Runs of which something that is needed can not be made again."""
    waits_for: tuple[tuple[int, int], ...] = ()
    """(run, segment) of what has to end before anything can be planned; then nothing was, and is asked for again."""
    void: tuple[tuple[int, int], ...] = ()
    """(run, segment) of each that has run, and whose results count no more: they were computed from what an impure node
    had returned that has to run again. All is planned once they are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectsLost:
    """Objects are gone from the object store: their machine is, or the store has lost them."""

    at: float
    exports: tuple[tuple[int, int, int], ...] = ()
    """(run, segment, export) of each that a segment had returned."""
    values: tuple[tuple[int, int], ...] = ()
    """(run, value) of each that a pinned value was made into."""
    copies: tuple[tuple[int, int], ...] = ()
    """(run, value) of each that was a copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """Nothing has happened until now; given at `State.review_at` or `State.stop_at`, or later."""

    at: float


Event = (
    RunSubmitted
    | PlanSubmitted
    | SegmentFinished
    | ValueRequested
    | ValueExported
    | ValueCopied
    | ValueDropped
    | WorkerDied
    | RunAbandoned
    | RunStopped
    | StopAnswered
    | WorkerReplaced
    | WorkersAdded
    | DrainRequested
    | DrainCancelled
    | PlanReviewed
    | SegmentsWithdrawn
    | RestPlanned
    | RecoveryPlanned
    | ObjectsLost
    | TimePassed
)


def run_submitted(
    plan: Plan, *, at: float, run: int, sources: Sequence[tuple[int, int] | None], supplied_bytes: int = 0
) -> RunSubmitted:
    """Return the event that hands `plan` to the machine as run number `run`.

    `sources` has one entry per external of the graph: the (run, value) of an earlier run's kept value, or None for a
    value that the client supplies.
    """
    return RunSubmitted(
        at=at,
        run=run,
        segments=submitted_segments(plan, run, sources),
        kept=tuple(sorted(plan.kept.items())),
        open_ended=plan.open_ended,
        workers=len(plan.workers),
        replans=not plan.limits,
        supplied_bytes=supplied_bytes,
        nodes=len(plan.node_worker),
    )


def submitted_segments(
    plan: Plan, run: int, sources: Sequence[tuple[int, int] | None], first: int = 0
) -> tuple[SubmittedSegment, ...]:
    """Return the segments of a plan, from number `first` on, as the machine needs them. Externals beyond `sources` are
    values that earlier segments of the run have pinned."""
    externals = len(sources)
    segments: list[SubmittedSegment] = []
    for segment, priority in zip(plan.segments[first:], priorities(plan.segments, first), strict=True):
        reads = {
            source
            for value in segment.externals
            if (source := sources[value] if value < externals else (run, value)) is not None
        }
        reads.update((run, value) for value, _ in segment.unpins if value in plan.kept)
        segments.append(
            SubmittedSegment(
                worker=segment.worker,
                imports=segment.imports,
                after=segment.after,
                reads=tuple(sorted(reads)),
                exports=tuple(export.saved for export in segment.exports),
                pins=segment.pins,
                seconds=segment.predicted_seconds,
                priority=priority,
                copied_pins=segment.copied_pins,
                drops=tuple([value for value, last in segment.unpins if last]),
            )
        )
    return tuple(segments)


def priorities(segments: Sequence[Segment], first: int = 0) -> list[float]:
    """Return the priority of each segment, from number `first` on: its predicted seconds and those of the longest chain
    of segments that wait for it, one for the other. A worker runs the ready call with the highest one first.
    O(segments + imports)."""
    rest = [0.0] * len(segments)  # per segment, the longest chain of its readers
    ranks = [0.0] * len(segments)
    for index in range(len(segments) - 1, first - 1, -1):
        segment = segments[index]
        rank = ranks[index] = segment.predicted_seconds + rest[index]
        for source, _ in segment.imports:
            if rank > rest[source]:
                rest[source] = rank
        for source in segment.after:
            if rank > rest[source]:
                rest[source] = rank
    return ranks[first:]
