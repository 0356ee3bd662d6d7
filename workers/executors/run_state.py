"""What the driver keeps of a run, and whom it tells of runs: `RunState` and the protocol `Listener`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from raygrad.errors import PlanError
from raygrad.proto.ir.program import Record
from raygrad.proto.ir.specs import can_leave
from raygrad.scheduler.model.measured_costs import TimedRecord
from raygrad.scheduler.model.plan import OnWorker, Plan, ValueLocation
from raygrad.scheduler.model.progress import PlanRevision, RunProgress
from raygrad.scheduler.planning.planner import Planned, Planner
from raygrad.scheduler.planning.rest_planner import is_worth_replanning, plan_rest

from ..values.emit_chunks import HeldChunk
from .calls import LocatedExternal, SuppliedExternal, key_of, residency_of
from .deadlines import Expired


class LostWorker(NamedTuple):
    """A worker that died while a run had segments on it."""

    worker: str
    segments: tuple[int, ...]
    """The segments that were sent there and not answered, in the order of sending."""
    left: int
    """The number of workers that are alive."""


class Listener(Protocol):
    """Callbacks for the outcome of runs, called by one thread at a time: the one that polls or waits."""

    def record(self, called: TimedRecord, finished: bool) -> None:
        """A segment's record arrived and was accepted; its values are readable from here on. Times are of the driver's
        clock. With `finished`, which a record with emits never has, it is the last: its run's segments are done."""

    @property
    def handling(self) -> int:
        """The thread that is in a handler of emits, 0 for none."""
        ...

    def emitted(self, held: HeldChunk) -> None:
        """A segment that goes on has emitted much; its record comes later."""

    def fetched(self, run: int, value: int, worker: int, left: Sequence[tuple[str, int]]) -> None:
        """A requested kept value was fetched; `left` has (device, bytes) of each array that left its device for it."""

    def finished(self, run: int) -> None:
        """All segments of a run are done, whose last record came before."""

    def replanned(self, run: int, plan: Plan, revision: PlanRevision) -> None:
        """The rest of a run was planned again while it runs; `plan` has the new segments behind those that it had."""

    def still_running(self, run: int, segment: int) -> None:
        """A segment of a run that was cancelled runs on, and cannot be ended without this process."""

    def failed(self, run: int, record: Record | None, reason: str, lost: LostWorker | Expired | None = None) -> None:
        """A run failed. `record` says why if code raised, `lost` if a worker died or a deadline has passed; `reason`
        begins with "raised", "worker lost", "dependency", "abandoned", "cancelled" or "timed out"."""


class RunState:
    """The driver's state of a run that has not failed, and is unfinished or has kept values that the client holds."""

    __slots__ = (
        "began", "done", "expected", "externals", "failure", "finished", "keys", "lost", "paths", "pins", "places",
        "planned", "read",
        "requested", "results", "sent", "unreadable",
    )  # fmt: skip

    def __init__(
        self,
        planned: Planned,
        externals: tuple[SuppliedExternal | LocatedExternal, ...],
        expected: set[int] | None = None,
        paths: Mapping[int, tuple[Any, ...]] = MappingProxyType({}),
    ) -> None:
        self.began = 0.0
        """When it was submitted."""
        self.planned = planned
        self.paths = paths
        """See `GraphSubmission.paths`."""
        self.expected: set[int] = set() if expected is None else expected
        """Kept values that the client is expected to read (`read_ahead`); shared with other runs of the graph."""
        self.read: set[int] = set()
        """Kept values that it has asked for."""
        self.pins: dict[int, OnWorker] = {}
        """Where segments have pinned values for later ones: known once the plan was continued."""
        self.keys: list[bytes] = []
        """Those of the programs of segments that were planned while the run went on: only its calls name them."""
        self.externals = externals
        self.places: dict[int, ValueLocation] = dict(planned.plan.kept)
        """Where each kept value is or will be, as long as the client holds it."""
        self.results: dict[int, Any] = {}
        """Kept values that were inlined in records."""
        self.requested: set[int] = set()
        self.done: set[int] = set()
        """Segments whose record has arrived and that made their values. One that was skipped waits for the record of
        the failure for which it was, which may come later and fails the run."""
        self.sent: dict[int, tuple[float, float]] = {}
        """Per running segment, when its call was sent, and the CPU seconds of sending it."""
        self.lost: dict[int, int] = {}
        """Kept values that are lost, with the worker that held them."""
        self.unreadable: dict[int, str] = {}
        """Kept values that could not leave their worker, with the reason."""
        self.failure: Record | None = None
        self.finished = False

    def sources(self) -> tuple[tuple[int, int] | None, ...]:
        """Return, per external input, the (run, value) that it is; None for one that the client supplies."""
        return tuple([None if isinstance(one, SuppliedExternal) else (one.run, one.value) for one in self.externals])

    def is_worth_replanning(self, planner: Planner, progress: RunProgress, gain: float) -> bool:
        """Return whether the rest of the run, planned again, would end earlier by more than `gain` seconds."""
        costs, residency = planner.latest_costs, self._homes(progress)
        try:
            return is_worth_replanning(self.planned, progress, residency, costs, planner.cluster, gain)
        except PlanError:  # something is tied to a worker that is about to leave
            return False

    def plan_rest(self, planner: Planner, progress: RunProgress) -> int:
        """Plan the rest of the run again, and go on with that plan; return the number of new segments, 0 if the plan is
        kept."""
        costs, residency = planner.latest_costs, self._homes(progress)
        try:
            found = plan_rest(self.planned, progress, residency, costs, planner.cluster)
        except PlanError:  # something is tied to a worker that is about to leave, which waits for it
            return 0
        if found is None:
            return 0
        new = len(found.plan.segments) - len(self.planned.plan.segments)
        self.planned = found
        first = len(found.plan.segments) - new
        self.keys += [key_of(found.plan, index) for index in range(first, len(found.plan.segments))]
        self.places.update((value, place) for value, place in found.plan.kept.items() if value in self.places)
        self.pins = {
            value: OnWorker(segment.worker, index)
            for index, segment in enumerate(found.plan.segments)
            for value in segment.pins
        }
        return new

    def _homes(self, progress: RunProgress) -> list[int]:
        """Return the residency of the external inputs. What workers that are about to leave have is in the store soon,
        unless it cannot leave them."""
        graph = self.planned.graph
        return [
            -1 if home in progress.lost and can_leave(graph.specs[graph.externals[index]]) else home
            for index, home in enumerate(map(residency_of, self.externals))
        ]

    def relocate(self, run: int, kept: Mapping[int, ValueLocation]) -> None:
        """Take in where values of another run, which is planned again, will be."""
        if any(isinstance(one, LocatedExternal) and one.run == run for one in self.externals):
            self.externals = tuple(
                [
                    one._replace(place=kept.get(one.value, one.place))
                    if isinstance(one, LocatedExternal) and one.run == run
                    else one
                    for one in self.externals
                ]
            )

    def to_fetch_ahead(self, segment: int) -> list[int]:
        """Return the values that a segment has pinned and the client is expected to read."""
        if self.expected.isdisjoint(self.places):
            return []
        return [
            value
            for value in sorted(self.expected - self.requested)
            if isinstance(place := self.places.get(value), OnWorker)
            and place.segment == segment
            and value not in self.results
        ]

    def producer_of(self, value: int) -> int:
        """Return the segment that pins a value; the last one for what an open-ended node makes."""
        place = self.planned.plan.kept.get(value) or self.pins.get(value)
        return len(self.planned.programs) - 1 if place is None else place.segment
