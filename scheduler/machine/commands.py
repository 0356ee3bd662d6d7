"""Commands: the output of the state machine, as frozen data in the imperative.

The driver carries them out in the order given. It answers `RunSegment` with exactly one `SegmentFinished`, unless the
segment is withdrawn, `ExportValue` with one `ValueExported`, and `CopyValues` with one `ValueCopied` for each value,
unless the worker dies; `ReviewPlan` with `PlanReviewed`, `WithdrawSegments` with `SegmentsWithdrawn`, `PlanRest` with
`RestPlanned`, `PlanRecovery` with `RecoveryPlanned`, and `RestartWorker` with `WorkerReplaced`.
The others have no answer. No command has to be refused: what it names exists, or was commanded before.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from raygrad.proto.ir.program import Pinned

from ..model.progress import RunProgress, RunRemains


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSegment:
    """Submit a segment to its worker now, with references for arguments; do not wait for what it reads.

    Everything that it reads has been commanded before: the segments of its `imports` and `after`, the makers of the
    earlier values that it reads, and an `ExportValue` for each of those that is pinned on another worker.
    """

    run: int
    segment: int
    attempt: int
    worker: int
    priority: float = 0.0
    """Of the calls that are ready on a worker, those of the earliest run go first, and of these the one with the
    highest priority (`SubmittedSegment.priority`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportValue:
    """Have `worker` return the value pinned there under (run, value) as an object of its own (one value, position 0).

    The segment that pins it has been commanded, and may not have ended: the call must run after it. Given once while
    the object lives; all readers on other workers, and the client, share it until `DropValue`.
    """

    worker: int
    run: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyValues:
    """Have `worker` copy values, each (run, value), that are pinned there to the store: all at one moment, either
    between two segments, as far as copies may take its time, or when it has nothing else to do.

    Nobody reads a copy while the worker lives (`recovery_copies`). The segments that pin the values have ended; a value
    may be gone when the call runs. Followed by one `DropCopy` for each, even if there was nothing to copy.
    """

    worker: int
    values: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropCopy:
    """Drop the reference to an object that `CopyValues` made."""

    run: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DropExport:
    """Drop the reference to an object that a segment returned: everything that imports it has ended."""

    run: int
    segment: int
    export: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DropValue:
    """Drop the reference to the object that `ExportValue` made."""

    run: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpin:
    """Have `worker` drop pinned values that nothing reads any more. May be sent with the next call to that worker
    (`Call.unpin`). A value that is not there is no error: a failed segment may not have pinned it."""

    worker: int
    values: tuple[Pinned, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewPlan:
    """Have the planner say whether the rest of a run, planned again, would end earlier by more than `gain` seconds."""

    run: int
    progress: RunProgress
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WithdrawSegments:
    """Have the workers withdraw those of these (run, segment) that have not begun. Each was commanded and has not come
    back; whatever was commanded and reads what one of them makes is among them."""

    segments: tuple[tuple[int, int], ...]
    workers: tuple[int, ...]
    """The worker of each: runs that have failed are among them, and nobody else remembers where their segments are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRest:
    """Plan the segments `progress.rest` again, by what is known now. Nothing of the run is commanded meanwhile."""

    run: int
    progress: RunProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecovery:
    """Plan what has to run again, and what has not begun, of these runs, ascending. Nothing is commanded meanwhile.
    Answered by one `RecoveryPlanned`."""

    runs: tuple[RunRemains, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCopy:
    """The worker of a value is gone, or has dropped it: the copy that `CopyValues` made is its object from here on, as
    if `ExportValue` had made it."""

    run: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UseObject:
    """The worker of a value is to drop it: the object that `ExportValue` made is all that there is of it."""

    run: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetRun:
    """Nothing of the run is needed any more, to make anything again either: forget its graph and its inputs."""

    run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartWorker:
    """Start another process in the place of a worker that died. Answered by `WorkerReplaced`."""

    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseValue:
    """Tell the client that a kept value of a finished run is gone with the worker on which it was pinned.

    A copy that came in a record, or that the client has fetched, is as good as before. Values of runs that fail are
    not listed: `FailRun` covers them.
    """

    run: int
    value: int
    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VoidSegment:
    """Forget what a segment has returned: it is to be made again, and may be something else then. The client has read
    none of it. Objects and pinned values of it are dropped by commands of their own."""

    run: int
    segment: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopSegments:
    """Have workers skip these (run, segment) if they have not begun, and interrupt them if they have: their results no
    longer count. Each is still reported. A worker that was running one says so: `StopAnswered`."""

    segments: tuple[tuple[int, int], ...]
    workers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceWorker:
    """End a worker's process, which runs (`run`, `segment`) and did not stop it, and start another in its place:
    `WorkerDied`, then `WorkerReplaced`. Where that is impossible, in process, tell the user."""

    worker: int
    run: int
    segment: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndWorker:
    """End a worker that was drained: nothing runs there, and nothing that is needed is there alone. Answered by
    `WorkerDied`."""

    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepWorker:
    """Tell the user that a worker is not drained after all: (`run`, `value`) cannot leave it."""

    worker: int
    run: int
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishRun:
    """All segments of the run are done, and all runs that it reads from have finished: its kept values exist."""

    run: int


class FailReason(Enum):
    """Why a run failed."""

    RAISED = "raised"
    """Code raised in `segment`; its record has the failure."""
    WORKER_LOST = "worker lost"
    """`worker` died while it ran `segment`, before it could, or with a value that `segment` reads."""
    DEPENDENCY = "dependency"
    """It reads a value of run `cause`, which failed."""
    ABANDONED = "abandoned"
    """The client abandoned it."""
    CANCELLED = "cancelled"
    """The user cancelled it; its segments are stopped."""
    TIMED_OUT = "timed out"
    """It has passed a deadline, with `segment`, if that is known; its segments are stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailRun:
    """The run has failed; none of its kept values may be read. Given once per failed run, causes before effects.

    Running segments of it end by themselves; their results are still reported and only counted.
    """

    run: int
    reason: FailReason
    segment: int = -1
    """The segment concerned, or -1."""
    worker: int = -1
    """The lost worker, or -1."""
    cause: int = -1
    """The failed run that it depends on, or -1."""


Command = (
    RunSegment
    | ExportValue
    | CopyValues
    | DropExport
    | DropValue
    | DropCopy
    | Unpin
    | ReviewPlan
    | WithdrawSegments
    | PlanRest
    | PlanRecovery
    | UseCopy
    | UseObject
    | ForgetRun
    | RestartWorker
    | LoseValue
    | VoidSegment
    | StopSegments
    | ReplaceWorker
    | EndWorker
    | KeepWorker
    | FinishRun
    | FailRun
)
