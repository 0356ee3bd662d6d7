"""What the driver keeps of a run, and whom it tells of runs: `RunState` and the protocol `Listener`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from raygrad.errors import PlanError
from raygrad.proto.ir.nodes import Node
from raygrad.proto.ir.program import OutputFingerprints, Record
from raygrad.proto.ir.specs import can_leave
from raygrad.scheduler.model.measured_costs import TimedRecord
from raygrad.scheduler.model.plan import InStore, OnWorker, Plan, ValueLocation
from raygrad.scheduler.model.progress import PlanRevision, RunProgress, RunRemains
from raygrad.scheduler.planning.planner import Planned, Planner
from raygrad.scheduler.planning.rest_planner import is_worth_replanning, plan_rest

from ..values.emit_chunks import HeldChunk
from .calls import LocatedExternal, SuppliedExternal, key_of, residency_of
from .deadlines import Expired
from .disagreement import Disagreement, differ, merged

MOST_DEATHS: Final = 3
"""Workers that may die while they run a node before that node is given up."""


class LostWorker(NamedTuple):
    """A worker that died while a run had segments on it."""

    worker: str
    segments: tuple[int, ...]
    """The segments that were sent there and not answered, in the order of sending."""
    left: int
    """The number of workers that are alive."""
    killer: int = -1
    """The node with which so many workers died that it is not tried again, or -1."""


Lost: TypeAlias = LostWorker | Expired | Disagreement
"""Why a run has failed, if not because code raised."""


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

    def failed(self, run: int, record: Record | None, reason: str, lost: Lost | None = None) -> None:
        """A run failed. `record` says why if code raised, else `lost`, if something was lost, differs or took too long.
        `reason` begins with "raised", "worker lost", "dependency", "abandoned", "cancelled" or "timed out"."""


class RunState:
    """The driver's state of a run that has not failed, and is unfinished or has kept values that the client holds."""

    __slots__ = (
        "_fingerprints", "_returned", "began", "compared", "consumed", "deaths", "detached", "disagreement", "done",
        "expected", "externals", "failure", "finished", "keys", "kills", "lost", "paths", "pins", "places", "planned",
        "read", "remembered", "reopened", "requested", "results", "sent", "survived", "unreadable",
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
        self.deaths = 0
        """The workers that had died then, or when it was last planned again for what it had lost."""
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
        self.remembered = False
        """The machine says when it may be forgotten, since something of it may have to be made again."""
        self.detached: set[tuple[int, int]] = set()
        """(value, segment that pinned it) of each value that is not on its worker any more."""
        self.reopened: OnWorker | None = None
        """Where the open-ended node runs again, and makes what it had made, but for what has `survived`."""
        self.survived: frozenset[int] = frozenset()
        self.kills: Counter[int] = Counter()
        """By node, the workers that died while they ran its segment."""
        self._fingerprints: dict[int, tuple[int, ...]] = {}
        self._returned: list[OutputFingerprints] = []
        """What user code has returned since `fingerprints` were asked for, as it arrived."""
        self.compared: set[int] = set()
        """Nodes that run again, and have to return what they did."""
        self.consumed: set[int] = set()
        """Kept values that were read by runs which are forgotten."""
        self.disagreement: Disagreement | None = None
        """Two attempts at a node that did not return the same."""

    def sources(self) -> tuple[tuple[int, int] | None, ...]:
        """Return, per external input, the (run, value) that it is; None for one that the client supplies."""
        return tuple([None if isinstance(one, SuppliedExternal) else (one.run, one.value) for one in self.externals])

    def let_go_of_inputs(self) -> None:
        """Keep no value that the client supplied, once none of the run can run again."""
        if not self.remembered:
            self.externals = tuple(
                [SuppliedExternal(None) if isinstance(one, SuppliedExternal) else one for one in self.externals]
            )

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

    def take_over(self, planned: Planned, remains: RunRemains, compared: Collection[int]) -> None:
        """Go on with a plan in which what was lost is made again; nodes that are to be `compared` have to return what
        they did."""
        self.compared.update(compared)
        first = len(self.planned.plan.segments)
        self.planned = planned
        segments = planned.plan.segments
        self.keys += [key_of(planned.plan, index) for index in range(first, len(segments))]
        self.places.update((value, place) for value, place in planned.plan.kept.items() if value in self.places)
        for index in range(first, len(segments)):
            nodes = segments[index].nodes
            if planned.plan.open_ended and nodes and nodes[-1] == len(planned.plan.node_worker) - 1:
                self.reopened, self.survived = OnWorker(segments[index].worker, index), remains.alive
                opened = self.places.keys() - planned.plan.kept.keys() - remains.alive
                self.places.update(dict.fromkeys(opened, self.reopened))
        self.pins = {value: OnWorker(worker, segment) for value, (segment, worker) in remains.pins.items()}
        self.pins.update(
            (value, OnWorker(segments[index].worker, index))
            for index in range(first, len(segments))
            for value in segments[index].pins
        )

    @property
    def fingerprints(self) -> dict[int, tuple[int, ...]]:
        """By node that runs user code, those of its outputs: sorted when something is lost, and not before."""
        for one in self._returned:
            self._fingerprints.update(one.by_node())
        self._returned.clear()
        return self._fingerprints

    def enter_fingerprints(self, record: Record, name_of: Callable[[Node], str], lost: str) -> bool:
        """Take in what nodes have returned, by their fingerprints; return whether those that have to agree with their
        earlier attempts do. What these had made was lost with `lost`."""
        if not self.compared:
            self._returned.append(record.fingerprints)
            return True
        before = self.fingerprints
        for node, found in record.fingerprints.by_node():
            if node in self.compared and differ(before.get(node), found):
                function = name_of(self.planned.graph.nodes[node])
                self.disagreement = Disagreement(record.run, node, function, lost)
                return False
            before[node] = merged(before, node, found) if node in self.compared else found
        return True

    def void(self, segment: int) -> None:
        """Enter that what a segment has returned counts no more."""
        for value, place in self.places.items():
            if place.segment == segment:
                self.results.pop(value, None)
                self.requested.discard(value)
                self.places[value] = OnWorker(-1, segment)
                self.detached.add((value, segment))
        before = self.fingerprints
        for node in self.planned.plan.segments[segment].nodes:
            before.pop(node, None)
            self.compared.discard(node)

    @property
    def seen(self) -> set[int]:
        """Kept values that the client has read, or that runs have which are forgotten."""
        return self.read | self.consumed

    @property
    def killer(self) -> int:
        """The node during which `MOST_DEATHS` workers have died, or -1."""
        return next((node for node, deaths in self.kills.items() if deaths >= MOST_DEATHS), -1)

    def sent_to(self, worker: int) -> list[int]:
        """Return the segments that a worker was sent and has not answered, in the order of sending."""
        segments = self.planned.plan.segments
        return [one for one in self.sent if segments[one].worker == worker]

    def could_begin(self, segment: int, runs: Mapping[int, RunState]) -> bool:
        """Tell whether all that a segment reads has been made. `runs` are those that are not forgotten."""
        given = self.planned.plan.segments[segment]
        if not self.done.issuperset([*given.after, *[source for source, _ in given.imports]]):
            return False
        read = [self.externals[one] for one in given.externals if one < len(self.externals)]
        located = [one for one in read if isinstance(one, LocatedExternal) and one.run in runs]
        return all([one.place.segment in runs[one.run].done for one in located])

    def count_death(self, segment: int) -> None:
        """Count the death of a worker against the segment that it was running."""
        self.kills.update(self.planned.plan.segments[segment].nodes)

    def suspects(self) -> frozenset[int]:
        """Return the nodes of which one may be that if another worker dies."""
        return frozenset([node for node, deaths in self.kills.items() if deaths >= MOST_DEATHS - 1])

    def worker_lost(self, worker: int) -> None:
        """Enter that what was pinned on a worker is not there any more. What another process makes under its number has
        a place of its own."""
        for places in (self.planned.plan.kept, self.pins, self.places):
            for value, place in places.items():
                if isinstance(place, OnWorker) and place.worker == worker and place.segment in self.done:
                    self.detached.add((value, place.segment))
        self._detach()

    def detach(self, value: int) -> None:
        """Enter that the object of a value is all that there is of it."""
        place = self.places.get(value) or self.planned.plan.kept.get(value) or self.pins.get(value)
        if place is None:  # pinned for later segments, by a plan that was never continued
            place = self._pinned_by(value)
            self.pins[value] = place
        self.detached.add((value, place.segment))
        self._detach()

    def lose_export(self, segment: int, export: int) -> None:
        """Enter that an object is gone: what was in it has to be made again."""
        for value, place in self.places.items():
            if isinstance(place, InStore) and (place.segment, place.export) == (segment, export):
                self.places[value] = OnWorker(-1, segment)

    def _pinned_by(self, value: int) -> OnWorker:
        segments, last = self.planned.plan.segments, len(self.planned.plan.node_worker) - 1
        pinning = [index for index, segment in enumerate(segments) if value in segment.pins]
        pinning = pinning or [index for index, segment in enumerate(segments) if last in segment.nodes]  # open-ended
        return OnWorker(segments[pinning[-1]].worker, pinning[-1])

    def _detach(self) -> None:
        self.places = {value: self._now(value, place) for value, place in self.places.items()}
        pins = {value: self._now(value, place) for value, place in self.pins.items()}
        self.pins = {value: place for value, place in pins.items() if isinstance(place, OnWorker)}

    def _now(self, value: int, place: ValueLocation) -> ValueLocation:
        """Return a place, on worker -1 if the value is not on its worker any more."""
        return OnWorker(-1, place.segment) if (value, place.segment) in self.detached else place

    def _homes(self, progress: RunProgress) -> list[int]:
        """Return the residency of the external inputs. What workers that are about to leave have is in the store soon,
        unless it cannot leave them."""
        graph = self.planned.graph
        return [
            -1 if home in progress.lost and can_leave(graph.specs[graph.externals[index]]) else home
            for index, home in enumerate(map(residency_of, self.externals))
        ]

    def relocate(self, run: int, other: RunState) -> None:
        """Take in where values of another run are or will be, which was planned again or has lost some."""
        if any(isinstance(one, LocatedExternal) and one.run == run for one in self.externals):
            self.externals = tuple(
                [
                    other.located(one) if isinstance(one, LocatedExternal) and one.run == run else one
                    for one in self.externals
                ]
            )

    def located(self, external: LocatedExternal) -> LocatedExternal:
        """Return an external input that is a kept value of this run with its place now."""
        place = self.places.get(external.value) or self.planned.plan.kept.get(external.value)
        if place is None:  # of the open-ended node, and dropped by the client
            place = external.place if external.value in self.survived else self.reopened or external.place
        place = self._now(external.value, place)
        if isinstance(place, OnWorker):
            return external._replace(place=place, worker=place.worker)
        known = 0 <= place.segment < len(self.planned.plan.segments)
        return external._replace(place=place, worker=self.planned.plan.segments[place.segment].worker if known else -1)

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
        place = self.places.get(value) or self.planned.plan.kept.get(value) or self.pins.get(value)
        return len(self.planned.programs) - 1 if place is None else place.segment
