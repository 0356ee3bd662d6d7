"""The state of the machine: runs, segments, values and exports that are alive, and the transitions of a segment.

Data and counts only; `machine`, `liveness` and `revision` decide. A segment changes state by `LiveSegment.move` alone,
and a transition that is not in `TRANSITIONS` raises. A segment that has begun ends by itself; one that has not can be
withdrawn, which makes it wait again, as does one that was lost with its worker, or skipped because something else was.
A late result carries an old attempt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from raygrad.errors import InvalidTransition

from ..model.plan import InStore, OnWorker, ValueLocation
from .events import SubmittedSegment

NEVER: Final = float("inf")
"""A time that does not come."""


class SegmentState(Enum):
    """Where a segment is in its life. The last four are final."""

    __hash__ = object.__hash__  # for `TRANSITIONS`: that of Enum takes the time of ten lookups

    WAITING = "waiting"
    """Not commanded yet: its worker's window is full, or what it reads is not commanded."""
    RUNNING = "running"
    """Commanded; it may still wait for its inputs on the worker."""
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Did not run: an input was poisoned, or its run was given up before it was commanded."""
    REPLACED = "replaced"
    """Did not run: its nodes were planned again, and are in later segments of its run."""

    @property
    def final(self) -> bool:
        """Whether nothing more can happen to the segment."""
        return self not in (SegmentState.WAITING, SegmentState.RUNNING)

    @property
    def successful(self) -> bool:
        """Whether a run can finish with a segment in this state."""
        return self in (SegmentState.DONE, SegmentState.REPLACED)


class Move(Enum):
    """A transition of one segment, caused by an event or a decision."""

    __hash__ = object.__hash__

    DISPATCHED = "dispatched"
    DONE = "reported done"
    FAILED = "reported failed"
    SKIPPED = "reported skipped"
    LOST = "lost with its worker"
    TAKEN_BACK = "lost, to be planned again"
    GIVEN_UP = "given up"
    WITHDRAWN = "withdrawn before it began"
    REPLACED = "planned again"


TRANSITIONS: dict[tuple[SegmentState, Move], SegmentState] = {
    (SegmentState.WAITING, Move.DISPATCHED): SegmentState.RUNNING,
    (SegmentState.WAITING, Move.GIVEN_UP): SegmentState.SKIPPED,
    (SegmentState.WAITING, Move.REPLACED): SegmentState.REPLACED,
    (SegmentState.RUNNING, Move.WITHDRAWN): SegmentState.WAITING,
    (SegmentState.RUNNING, Move.DONE): SegmentState.DONE,
    (SegmentState.RUNNING, Move.FAILED): SegmentState.FAILED,
    (SegmentState.RUNNING, Move.SKIPPED): SegmentState.SKIPPED,
    (SegmentState.RUNNING, Move.LOST): SegmentState.FAILED,
    (SegmentState.RUNNING, Move.TAKEN_BACK): SegmentState.WAITING,
}


@dataclass(slots=True)
class LiveSegment:
    """A segment of a run that is not forgotten yet."""

    run: int
    index: int
    given: SubmittedSegment
    state: SegmentState = SegmentState.WAITING
    attempt: int = 0
    """The attempt whose result counts."""
    kept: list[int] = field(default_factory=list[int])
    """Kept values that it makes."""
    dispatched: bool = False
    """A command to run it was given and not withdrawn, so that its exports and pins may exist."""
    stale: bool = False
    """An attempt at it was lost or skipped: objects and pins of that attempt may exist, and are good for nothing."""
    orphaned: bool = False
    """Its worker died after it had ended: what it pinned is lost. Or it is void."""
    void: bool = False
    """What it has returned counts no more."""
    seconds: float = 0.0
    """What its nodes took, once it is done."""
    moves: list[tuple[float, Move, int, SegmentState]] = field(
        default_factory=list["tuple[float, Move, int, SegmentState]"]
    )
    """Its moves so far, each with its time, the attempt, and the state after it."""

    def move(self, move: Move, at: float) -> None:
        """Change state as the table says.

        Raises InvalidTransition, with the segment's story, if the table says nothing.
        """
        after = TRANSITIONS.get((self.state, move))
        if after is None:
            raise InvalidTransition((self.run, self.index), self.state.value, move.value, self._story())
        self.moves.append((at, move, self.attempt, after))
        self.state = after

    def _story(self) -> tuple[str, ...]:
        """Return the moves so far in words."""
        before = [SegmentState.WAITING, *[after for _, _, _, after in self.moves]]
        return tuple(
            [
                f"at {at:.6f}: {move.value} (attempt {attempt}), {state.value} -> {after.value}"
                for (at, move, attempt, after), state in zip(self.moves, before, strict=False)
            ]
        )


def last_drops(segments: Iterable[LiveSegment]) -> dict[int, int]:
    """Return, by value, the last of some segments, given by index, that drops what another has pinned for it. An
    earlier one may have dropped what was there before the value was made again."""
    return {value: one.index for one in segments for value in one.given.drops}


@dataclass(slots=True)
class LiveExport:
    """An object that a segment returns: to be dropped when nothing needs it."""

    segment: int
    index: int
    saved: bool
    readers: int = 0
    """Segments of its run that import it and are not final."""
    kept: int = 0
    """Kept values in it that are needed still."""
    lost: bool = False
    """It is gone from the store. What is in it is made again in another one."""
    size: int = 0
    """Bytes accounted for it; 0 until its segment is done."""


class ObjectState(Enum):
    """Whether a pinned value is also an object in the store (`ExportValue`)."""

    ABSENT = "absent"
    REQUESTED = "requested"
    LIVE = "live"


@dataclass(slots=True)
class LiveValue:
    """A kept value: needed while the client holds it or a segment that is not final reads it."""

    run: int
    value: int
    place: ValueLocation
    held: bool = True
    readers: int = 0
    """Segments that read it and are not final, but for imports in its run; a pending `ExportValue` counts as one."""
    wanted: bool = False
    """The client requested it: it is to be exported as an object as soon as its segment is commanded."""
    lost: bool = False
    """It is nowhere: it was pinned on a worker that died, or was dropped while it counts in a lineage. What needs it
    has it made again (`recovery`)."""
    lineage: int = 0
    """Later runs of which something may have to be made again, and that have read it; see `lineage`."""
    uncopyable: bool = False
    """It cannot leave its worker."""
    irreplaceable: bool = False
    """It cannot be made again."""
    void: bool = False
    """The client held it when it was void: it is made again at once, with all that comes from the same attempt."""
    stays: bool = False
    """Its object, or the export that it is in, serves as its recovery copy: it stays while the value counts in a
    lineage, though nobody else may need it."""
    object: ObjectState = ObjectState.ABSENT
    size: int = 0
    """Bytes accounted for its object."""

    @property
    def stored(self) -> bool:
        """Whether it is in the store."""
        return not self.lost and (isinstance(self.place, InStore) or self.object is ObjectState.LIVE)

    @property
    def pinned_on(self) -> int:
        """The worker on which it is pinned, or -1 if it is in the store, or its worker is gone and its object is
        there."""
        return self.place.worker if isinstance(self.place, OnWorker) else -1


@dataclass(slots=True)
class Outlook:
    """What is left of a run on each worker, by its plan: kept for runs whose rest may be planned again."""

    began: float
    """When the run was submitted."""
    left: list[float]
    """Per worker, the predicted seconds of its segments that are not final."""
    running: list[set[int]]
    """Per worker, its segments that are running."""
    latest: list[float]
    """Per worker, when the last of its segments came back."""
    review_at: float
    """The plan is not reviewed before this time."""
    pause: float
    """The seconds until the next review after one that found nothing better."""
    predicted: float = 0.0
    """Predicted seconds of segments that are done."""
    taken: float = 0.0
    """What these took."""
    revisions: int = 0
    """How often the rest of the run was planned again."""


@dataclass(slots=True)
class Stopping:
    """A running segment of a run that was cancelled or has passed a deadline; see `cancellation`."""

    worker: int
    due: float
    """When its worker is replaced, if it has not ended before."""
    begun: bool = False
    """The worker has said that it is running it."""


@dataclass(slots=True)
class Revision:
    """A revision under way: segments are being withdrawn, and then planned again. Nothing of the run is commanded."""

    run: int
    asked: frozenset[tuple[int, int]]
    """(run, segment) of each that is to be withdrawn if it has not begun."""
    rest: tuple[int, ...] = ()
    """The segments of the run that are being planned again."""


@dataclass(slots=True)
class Recovery:
    """A recovery under way: what is lost is planned again once nothing comes back in vain. Nothing is commanded."""

    asked: frozenset[tuple[int, int]]
    """(run, segment) of each that is to be withdrawn if it has not begun."""
    withdrawn: bool = False
    """The workers have answered that."""
    planning: bool = False
    """The planner was asked."""
    lost: frozenset[int] = frozenset()
    """The workers that were lost then."""
    waits_for: tuple[tuple[int, int], ...] = ()
    """(run, segment) of what has to end before anything can be planned."""
    void: tuple[tuple[int, int], ...] = ()
    """(run, segment) of what is void as soon as no object is being made of what it pins."""


@dataclass(slots=True)
class RecoveryCopy:
    """A copy in the object store of a value that is pinned on a worker."""

    object: ObjectState = ObjectState.ABSENT
    size: int = 0
    """Bytes accounted for it."""


@dataclass(slots=True)
class ExposedWork:
    """What a run would lose with one worker since copies of its values there were last due."""

    seconds: float = 0.0
    """Seconds of the segments that are done."""
    values: dict[int, None] = field(default_factory=dict[int, None])
    """Saved values that are pinned there and still to be read, in the order in which they were made."""


@dataclass(slots=True)
class LiveRun:
    """A run of which something is still unfinished or needed."""

    run: int
    segments: list[LiveSegment]
    open_ended: bool
    unfinished: int
    """Segments that are not final."""
    values: dict[int, LiveValue] = field(default_factory=dict[int, LiveValue])
    exports: dict[tuple[int, int], LiveExport] = field(default_factory=dict[tuple[int, int], LiveExport])
    """By (segment, export)."""
    waits_for: set[int] = field(default_factory=set[int])
    """Runs that it reads from and that have neither finished nor failed: it can finish only after them."""
    dependants: set[int] = field(default_factory=set[int])
    """Runs that read from it."""
    exposed: dict[int, ExposedWork] = field(default_factory=dict[int, ExposedWork])
    """By worker; see `recovery_copies`."""
    copies: dict[int, RecoveryCopy] = field(default_factory=dict[int, RecoveryCopy])
    """By value, the copies that are due or made, until the value's last reader is final."""
    failed: bool = False
    finished: bool = False
    outlook: Outlook | None = None
    """None for a run that is never planned again for want of speed: it has one worker, or its plan keeps limits of
    memory."""
    recoverable: bool = False
    """What is lost of it is planned again."""
    damaged: bool = False
    """A segment of it was lost or skipped, and waits to be planned again."""
    recoveries: int = 0
    """How often it was."""
    spreads: bool = False
    """It is damaged in no other way than that its rest was planned without a worker that is there again."""
    supplied_bytes: int = 0
    """See `RunSubmitted`."""
    opened: set[int] = field(default_factory=set[int])
    """The values that its open-ended node has made."""
    reads: tuple[tuple[int, int], ...] = ()
    """(run, value) of all that it reads of other runs."""
    retained: bool = False
    """It counts in the lineage of what it has read: something of it may have to be made again."""
    replans: bool = True
    """Its plan keeps no limits of memory, so that it may be planned again once there are several workers."""
    nodes: int = 0
    """The number of nodes of its graph."""


@dataclass(slots=True)
class State:
    """The whole state of the machine."""

    runs: dict[int, LiveRun] = field(default_factory=dict[int, LiveRun])
    failed_runs: set[int] = field(default_factory=set[int])
    """The numbers of all runs that ever failed, so that later events about their values are recognised."""
    last_run: int = -1
    lost_workers: set[int] = field(default_factory=set[int])
    queues: dict[int, deque[LiveSegment]] = field(default_factory=dict[int, deque[LiveSegment]])
    """Per worker, the segments to be commanded, in order; those skipped meanwhile are passed over."""
    in_flight: dict[int, int] = field(default_factory=dict[int, int])
    """Per worker, the segments that are running."""
    stirred: set[int] = field(default_factory=set[int])
    """Workers for which something changed, so that their next segment may be commandable."""
    awaited: dict[tuple[int, int], list[int]] = field(default_factory=dict[tuple[int, int], list[int]])
    """Per (run, segment) not commanded yet, workers whose next segment waits for that."""
    revision: Revision | None = None
    recovery: Recovery | None = None
    workers: int = 0
    """The number of workers that plans are made for."""
    losses: int = 0
    """How often a worker has died, or objects were lost, so far."""
    damaged: bool = False
    """Something that is needed is lost: a recovery is due."""
    retained_runs: int = 0
    """Runs that count in the lineage of others, and are remembered for that."""
    retained_bytes: int = 0
    """Bytes of arrays that the client has supplied to these."""
    skipped: bool = False
    """A segment was skipped, and why is not known yet."""
    review_at: float = NEVER
    """When the next review of a run is due, if nothing happens before; see `TimePassed`."""
    stopping: dict[tuple[int, int], Stopping] = field(default_factory=dict[tuple[int, int], Stopping])
    """By (run, segment), what workers were told to stop and have not ended."""
    stop_at: float = NEVER
    """When the first of these is overdue; see `TimePassed`."""
    replacing: set[int] = field(default_factory=set[int])
    """Workers that are being replaced: nothing is commanded there meanwhile."""
    draining: dict[int, set[int]] = field(default_factory=dict[int, "set[int]"])
    """By worker that is to end once it is empty, the runs that were planned again for that; see `draining`."""
    ending: set[int] = field(default_factory=set[int])
    """Those of them that are empty, and end."""
    late_results: int = 0
    """Answers that came too late to count, and were dropped."""
    saved_bytes: int = 0
    """Bytes of contexts and residuals in the object store now."""
    peak_saved_bytes: int = 0
    exported_bytes: int = 0
    """Bytes of all objects in the object store now, saved ones included."""
    peak_exported_bytes: int = 0

    def account(self, size: int, *, saved: bool) -> None:
        """Add (or with a negative size take off) bytes that live in the object store."""
        self.exported_bytes += size
        self.peak_exported_bytes = max(self.peak_exported_bytes, self.exported_bytes)
        if saved:
            self.saved_bytes += size
            self.peak_saved_bytes = max(self.peak_saved_bytes, self.saved_bytes)
