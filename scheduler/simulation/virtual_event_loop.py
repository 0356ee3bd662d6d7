"""The virtual driver: an event loop in virtual time that carries out the state machine's commands on simulated workers.

`simulate.simulate` starts one per simulation. It does what the driver in `workers` and an executor would do, with
simulated calls, transfers and failures, and decides nothing. It trusts nothing, either: a segment commanded twice, an
object dropped twice, values left over, or a standstill raise. Events of one instant are handled in the order in which
they were scheduled. The state of each worker is in `virtual_workers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count

import numpy as np

from raygrad.errors import InvariantViolation, PlanError
from raygrad.proto.ir.graph import makers
from raygrad.proto.ir.nodes import Spill

from ..machine.commands import (
    Command,
    CopyValues,
    DropCopy,
    DropExport,
    DropValue,
    EndWorker,
    ExportValue,
    FailRun,
    FinishRun,
    ForgetRun,
    KeepWorker,
    LoseValue,
    PlanRecovery,
    PlanRest,
    ReplaceWorker,
    RestartWorker,
    ReviewPlan,
    RunSegment,
    StopSegments,
    Unpin,
    UseCopy,
    UseObject,
    VoidSegment,
    WithdrawSegments,
)
from ..machine.events import (
    DrainRequested,
    Event,
    ObjectsLost,
    PlanReviewed,
    RecoveryPlan,
    RecoveryPlanned,
    RestPlanned,
    SegmentFinished,
    SegmentsWithdrawn,
    Status,
    TimePassed,
    ValueCopied,
    ValueDropped,
    ValueExported,
    ValueRequested,
    WorkerDied,
    WorkerReplaced,
    run_submitted,
)
from ..machine.machine import Machine
from ..machine.state import NEVER, ObjectState
from ..model.costs import Costs
from ..model.output_sizes import export_bytes, pin_bytes
from ..model.plan import Cluster, InStore, OnWorker
from ..planning.planner import Planned
from ..planning.recovery_planner import NodesToRun, RunToRecover, recover
from ..planning.rest_planner import is_worth_replanning, plan_rest
from .node_durations import NodeDurations
from .origins import Holder, Origin, Origins
from .scenario import (
    Failure,
    FailureTrace,
    IdleWait,
    ObjectLoss,
    SegmentRaise,
    SimulatedRun,
    VirtualLink,
    VirtualSubmission,
    VirtualTransfer,
    WorkerDrain,
    WorkerLoss,
)
from .traces import Traces
from .virtual_workers import (
    COPY,
    AwaitedKey,
    AwaitedObject,
    VirtualCall,
    VirtualWorker,
    awaited_keys,
    name_of,
    place_of,
)

LAST = 1 << 60
"""Added to the order of a call that runs only if no other can, and its rank."""


@dataclass(slots=True)
class VirtualDriver:
    """One simulation: `expect` failures, then `run` once."""

    machine: Machine
    submissions: Sequence[VirtualSubmission]
    cluster: Cluster
    costs: Costs
    speed: Sequence[float]
    durations: Sequence[NodeDurations]
    """Per submission, what its segments take on a worker of speed 1."""
    withdraw_seconds: float | None
    """From the command to withdraw segments until workers do it; None if plans are not revised."""
    links: dict[tuple[int, int], VirtualLink]
    dispatch_seconds: float
    in_order: bool
    watch: Callable[[Machine], None] | None
    now: float = 0.0
    plans: list[Planned] = field(default_factory=list[Planned])
    """Per submission, its plan as it is now."""
    calls: dict[tuple[int, int], VirtualCall] = field(default_factory=dict[tuple[int, int], VirtualCall])
    """By (run, segment), the latest call of it."""
    workers: list[VirtualWorker] = field(default_factory=list[VirtualWorker])
    things: dict[AwaitedKey, AwaitedObject] = field(default_factory=dict[AwaitedKey, AwaitedObject])
    raising: dict[tuple[int, int], SegmentRaise] = field(default_factory=dict[tuple[int, int], SegmentRaise])
    _heap: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = field(
        default_factory=list[tuple[float, int, Callable[..., None], "tuple[object, ...]"]]
    )
    _ticket: count[int] = field(default_factory=count)
    _orders: count[int] = field(default_factory=count)
    _driver_free: float = 0.0
    _commanded: set[tuple[int, int, int]] = field(default_factory=set[tuple[int, int, int]])
    _unsettled: int = 0
    """Submissions neither finished nor failed, and calls not over."""
    traces: Traces = field(default_factory=Traces)
    restart_seconds: float | None = None
    """From the death of a worker until another process has taken its place; None for never."""
    moved: set[tuple[int, int, int]] = field(default_factory=set[tuple[int, int, int]])
    """(run, value, segment that pinned it) of values whose worker is gone, or has dropped them: each has an object."""
    asked: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    """(run, value) that the client waits for."""
    origins: Origins = field(default_factory=Origins)
    _answers: list[Event] = field(default_factory=list[Event])
    """To what the machine has just commanded."""
    """Where values come from."""
    _dropped: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    _gone: set[AwaitedKey] = field(default_factory=set[AwaitedKey])
    """Objects that were to be made on a worker that died."""
    _forgotten: set[int] = field(default_factory=set[int])
    _failing: list[FailRun] = field(default_factory=list[FailRun])
    _failed: set[int] = field(default_factory=set[int])

    # ---- from outside ----------------------------------------------------------------------------------------------

    def expect(self, failures: Iterable[Failure], generator: np.random.Generator) -> None:
        """Schedule failures, deaths of workers before anything else of the same instant."""
        horizon = max((one.at + one.planned.plan.predicted_seconds for one in self.submissions), default=0.0)
        for failure in failures:
            if isinstance(failure, SegmentRaise):
                self.raising[failure.run, failure.segment] = failure
            elif isinstance(failure, WorkerDrain):
                self._at(failure.at, self._drain, failure.worker)
            elif isinstance(failure, ObjectLoss):
                self._at(failure.at, self._lose_objects, failure, generator)
            else:
                at = float(generator.uniform(0.0, horizon)) if failure.at is None else failure.at
                self._at(at, self._lose, failure)

    def run(self) -> SimulatedRun:
        """Run all submissions to their end and return the traces."""
        self.workers = [VirtualWorker(saved=[(0.0, 0)], stored=[(0.0, 0)]) for _ in self.speed]
        self._unsettled = len(self.submissions)
        self.plans = [one.planned for one in self.submissions]
        for number, one in enumerate(self.submissions):
            self._at(one.at, self._submit, number)
        while self._heap and self._unsettled:
            self.now, _, happen, what = heappop(self._heap)
            happen(*what)
        if self._unsettled:
            raise InvariantViolation(
                f"the simulation stands still at {self.now}: {self._unsettled} things are not over"
            )
        makespan = max((one.finish for one in self.traces.segments), default=0.0)
        self._let_go()
        return replace(self.traces.simulated_run(makespan, self.workers), planned=tuple(self.plans))

    def _at(self, time: float, happen: Callable[..., None], *what: object) -> None:
        heappush(self._heap, (time, next(self._ticket), happen, what))

    def _submit(self, number: int) -> None:
        one = self.submissions[number]
        plan = one.planned.plan
        for external, home in enumerate(one.residency):
            if home >= 0:
                self.things[-1, number, external] = AwaitedObject(home, one.external_bytes[external], made=True)
        externals = len(one.planned.graph.externals)
        event = run_submitted(plan, at=self.now, run=number, sources=one.sources or (None,) * externals)
        self._tell(event if self.withdraw_seconds is not None else replace(event, workers=1))

    def _let_go(self) -> None:
        """Drop all values that the client holds; then the machine must have forgotten everything."""
        for run, one in enumerate(self.submissions):
            for value in sorted(one.planned.plan.kept):
                self.drop(run, value)
        state = self.machine.state
        while self._heap and (state.replacing or state.recovery is not None):  # else no worker comes
            self.now, _, happen, what = heappop(self._heap)
            if happen not in (self.request, self.let_go, self._lose, self._lose_objects, self._drain):
                happen(*what)
        pinned = [key for worker in self.workers if worker.alive for key in worker.pinned]
        objects = [key for key in self.things if key[0] >= 0 and (key[1] < 0 or key[2] >= 0)]
        if state.runs or pinned or objects or state.exported_bytes or state.saved_bytes:
            raise InvariantViolation(
                f"when all is over and let go, {len(state.runs)} runs are remembered, {pinned} pinned, {objects} stored"
            )

    def drop(self, run: int, value: int) -> None:
        """Have the client drop a value, once."""
        if (run, value) not in self._dropped:
            self._dropped.add((run, value))
            self._tell(ValueDropped(at=self.now, run=run, value=value))

    def let_go(self, run: int, value: int) -> None:
        """Have the client drop a value that nobody is to read any more, unless it waits for it."""
        if (run, value) in self.asked:
            self._at(self.now + 0.01, self.let_go, run, value)
        else:
            self.drop(run, value)

    def request(self, run: int, value: int) -> None:
        """Have the client read a value that it holds, and wait for it."""
        known = self.machine.state.runs.get(run)
        held = known.values.get(value) if known is not None and not known.failed else None
        if held is None or not held.held or isinstance(held.place, InStore) or (run, value) in self.asked:
            return
        if held.object is not ObjectState.LIVE and not held.irreplaceable:
            self.asked.add((run, value))
            self._unsettled += 1
            self._tell(ValueRequested(at=self.now, run=run, value=value))

    def at(self, time: float, happen: Callable[..., None], *what: object) -> None:
        """Have something happen at a time."""
        self._at(time, happen, *what)

    def _is_readable(self, run: int, value: int) -> bool:
        """Tell whether a value that the client waits for is an object, or part of one."""
        live = self.machine.state.runs[run].values[value]
        if isinstance(live.place, InStore):
            return not live.lost and self.machine.state.runs[run].segments[live.place.segment].state.final
        return live.object is ObjectState.LIVE

    def _holder(self, run: int, value: int) -> Holder:
        """Return the object in which a readable value is."""
        place = self.machine.state.runs[run].values[value].place
        return (run, place.segment, place.export) if isinstance(place, InStore) else (run, -1, value)

    def _answered(self, run: int, value: int) -> None:
        if (run, value) in self.asked:
            self.asked.discard((run, value))
            self._unsettled -= 1

    # ---- the driver ------------------------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        """Pass an event to the machine, and carry out its commands."""
        self.traces.events += 1
        commands = self.machine.handle(event)
        if self.watch is not None:
            self.watch(self.machine)
        for command in commands:
            self.traces.commands += 1
            self._carry_out(command)
        answers, self._answers = self._answers, []
        for answer in answers:  # at once, as the driver gives them: no client reads in between
            self._tell(answer)
        for run, value in [*self.asked]:
            if self._is_readable(run, value):
                self.origins.read(run, value, self.origins.of(self._holder(run, value), run, value))
                self._answered(run, value)
        due = self.machine.state.review_at
        if due < NEVER:
            self._at(max(due, self.now), self._time_passed, due)

    def _time_passed(self, due: float) -> None:
        if self.machine.state.review_at <= due:
            self._tell(TimePassed(at=self.now))

    def _carry_out(self, command: Command) -> None:
        match command:
            case RunSegment():
                self._command_segment(command)
            case ExportValue():
                self._command_export(command.worker, command.run, command.value, -1)
            case CopyValues():
                for run, value in command.values:
                    self._command_export(command.worker, run, value, COPY)
            case DropExport():
                thing = self._drop((command.run, command.segment, command.export))
                if thing.made:
                    self.workers[thing.worker].store(self.now, -thing.size, saved=thing.saved)
            case DropValue():
                thing = self._drop((command.run, -1, command.value))
                if thing.made:
                    self.workers[thing.worker].store(self.now, -thing.size, saved=False)
            case DropCopy():
                thing = self._drop((command.run, COPY, command.value))
                if thing.made:
                    self.workers[thing.worker].store(self.now, -thing.size, saved=True)
            case Unpin():
                for pinned in command.values:
                    self.workers[command.worker].unpin(self.now, pinned.run, pinned.value)
            case FinishRun():
                self.traces.finished.append((command.run, self.now))
                self._unsettled -= 1
            case FailRun():
                if command.run in self._failed:
                    raise InvariantViolation(f"run {command.run} failed twice")
                self._failed.add(command.run)
                for value in [value for run, value in self.asked if run == command.run]:
                    self._answered(command.run, value)
                self._failing.append(command)
                self._unsettled -= 1
            case LoseValue():
                self.traces.lost_values.append((command.run, command.value))
                self._answered(command.run, command.value)
            case ForgetRun():
                self._forgotten.add(command.run)
                self.origins.seen.update([source for source in self._sources(command.run) if source is not None])
            case VoidSegment(run=run, segment=index):
                segment = self.plans[run].plan.segments[index]
                self.origins.void(run, segment.nodes)
                self._detach_segment(run, index)
            case UseObject():
                place = place_of(self.plans, self.moved, command.run, command.value)
                self.moved.add((command.run, command.value, place.segment))
            case UseCopy():
                origin = self.origins.of((command.run, COPY, command.value), command.run, command.value)
                self.origins.hold((command.run, -1, command.value), command.run, {command.value: origin})
                thing = self.things.pop((command.run, COPY, command.value))
                self.things[command.run, -1, command.value] = thing
                self.workers[thing.worker].count_no_more_as_saved(self.now, thing.size)
                place = place_of(self.plans, self.moved, command.run, command.value)
                self.moved.add((command.run, command.value, place.segment))
            case RestartWorker():
                self._restart(command)
            case PlanRecovery():
                self._plan_recovery(command)
            case EndWorker(worker=worker):
                left = [one for one in self.workers[worker].open.values() if one.segment != COPY]
                if left:
                    raise InvariantViolation(f"worker {worker} is to end, and {left} are not over")
                self.traces.drained.append((worker, self.now))
                self._at(self.now, self._lose, WorkerLoss(worker))
            case KeepWorker(worker=worker):
                self.cluster = self.cluster.restored(worker)
            case ReviewPlan(run=run, progress=progress, gain=gain):
                given = (self.plans[run], progress, self._residency(run), self.costs, self.cluster)
                try:
                    worth = is_worth_replanning(*given, gain)
                except PlanError:  # something is tied to a worker that is to leave
                    worth = False
                self._answers.append(PlanReviewed(at=self.now, run=run, worth=worth))
            case WithdrawSegments():
                self._at(self.now + (self.withdraw_seconds or 0.0), self._withdraw, command)
            case PlanRest():
                self._plan_rest(command)
            case StopSegments() | ReplaceWorker():
                raise InvariantViolation(f"nobody cancels anything here, and there is {command}")

    def _command_segment(self, command: RunSegment) -> None:
        run, index, worker = command.run, command.segment, command.worker
        key = (run, index, command.attempt)
        if key in self._commanded:
            raise InvariantViolation(f"attempt {command.attempt} at segment {index} of run {run} was commanded twice")
        self._commanded.add(key)
        planned = self.plans[run]
        segment = planned.plan.segments[index]
        sizes = export_bytes(planned.programs[index], self.costs) if segment.exports else ()
        for export, size in enumerate(sizes):
            self.things[run, index, export] = AwaitedObject(worker, size, saved=segment.exports[export].saved)
        self.things[run, index, -1] = AwaitedObject(worker)
        seconds = self.durations[run].seconds(segment, index) / self.speed[worker]
        rank = (run, -command.priority)
        task = VirtualCall(next(self._orders), worker, run, index, command.attempt, -1, self.now, seconds, rank)
        self.calls[run, index] = task
        self._call(task)

    def _command_export(self, worker: int, run: int, value: int, segment: int) -> None:
        key = (run, segment, value)
        if key in self.things:
            raise InvariantViolation(f"value {value} of run {run} is to be exported twice")
        self.things[key] = AwaitedObject(worker)
        order = next(self._orders)
        waits = segment == COPY and run % 2 == 1  # of real workers, those wait that may not take its time yet
        order, rank = (order + LAST, (LAST, 0.0)) if waits else (order, (-1, 0.0))
        self._call(VirtualCall(order, worker, run, segment, 0, value, self.now, 0.0, rank))

    def _call(self, task: VirtualCall) -> None:
        """Send a call to its worker: the driver sends one after the other."""
        if not self.workers[task.worker].alive:
            raise InvariantViolation(f"a call to worker {task.worker}, which is lost")
        self._unsettled += 1
        self.workers[task.worker].open[task.order] = task
        if self.dispatch_seconds:
            self._driver_free = max(self._driver_free, self.now) + self.dispatch_seconds
            self._at(self._driver_free, self._receive, task)
        else:
            self._receive(task)

    def _drop(self, key: AwaitedKey) -> AwaitedObject:
        thing = self.things.pop(key, None)
        if thing is None:
            raise InvariantViolation(f"{name_of(key)} of run {key[0]} is dropped and was not there")
        if any(not task.over for tasks in thing.waiting.values() for task in tasks):
            raise InvariantViolation(f"{name_of(key)} of run {key[0]} is dropped and still waited for")
        return thing

    # ---- revisions of plans ----------------------------------------------------------------------------------------

    def _withdraw(self, command: WithdrawSegments) -> None:
        """Withdraw those of some calls that have not started."""
        withdrawn: list[tuple[int, int]] = []
        for name in command.segments:
            task = self.calls[name]
            if task.over or task.start >= 0.0 or not self.workers[task.worker].alive:
                continue
            self._over(task)
            self.workers[task.worker].forget(task)
            self.traces.add(task, self.now, "withdrawn")
            withdrawn.append(name)
        for run, index in withdrawn:
            exports = len(self.plans[run].plan.segments[index].exports)
            for export in range(-1, exports):
                self._drop((run, index, export))
        for worker in range(len(self.workers)):  # what was behind a withdrawn call may start
            self._next(worker)
        self._tell(SegmentsWithdrawn(at=self.now, segments=tuple(withdrawn)))

    def _plan_rest(self, command: PlanRest) -> None:
        run = command.run
        residency = self._residency(run)
        try:
            found = plan_rest(self.plans[run], command.progress, residency, self.costs, self.cluster)
        except PlanError:  # something is tied to a worker that is to leave, which waits for it
            found = None
        if found is not None:
            self.plans[run] = found
            self.traces.revisions.append((run, self.now))
        plan = None if found is None else found.plan
        sources = self.submissions[run].sources or (None,) * len(residency)
        self._answers.append(RestPlanned(at=self.now, run=run, plan=plan, sources=sources))

    def _plan_recovery(self, command: PlanRecovery) -> None:
        if self._forgotten.intersection([one.run for one in command.runs]):
            raise InvariantViolation("a run is to be recovered that was to be forgotten")
        seen = self.origins.seen
        runs = {
            one.run: RunToRecover(
                self.plans[one.run],
                one,
                self._sources(one.run),
                seen=[value for run, value in seen if run == one.run],
            )
            for one in command.runs
        }
        plans: list[RecoveryPlan] = []

        def adopt(run: int, planned: Planned, nodes: NodesToRun) -> None:
            self.plans[run] = planned
            self.origins.compared.update([(run, node) for node in nodes.compared])
            self.traces.recoveries.append((run, self.now, nodes.again))
            plans.append(RecoveryPlan(run, planned.plan, self._sources(run)))

        lost = self.machine.state.lost_workers
        cluster = self.cluster
        for worker in lost:
            cluster = cluster.without(worker)
        outcome = recover(runs, self._residency, self.costs, cluster, adopt)
        answer = RecoveryPlanned(
            at=self.now, plans=tuple(plans), hopeless=outcome.hopeless, waits_for=outcome.waits_for, void=outcome.void
        )
        self._answers.append(answer)

    def _sources(self, run: int) -> tuple[tuple[int, int] | None, ...]:
        return self.submissions[run].sources or (None,) * len(self.plans[run].graph.externals)

    def _restart(self, command: RestartWorker) -> None:
        """Have another process take the place of a worker, or not."""
        if self.restart_seconds is None:
            self._answers.append(WorkerReplaced(at=self.now, worker=command.worker, ok=False))
        else:
            self._at(self.now + self.restart_seconds, self._restarted, command.worker)

    def _restarted(self, number: int) -> None:
        worker = self.workers[number]
        worker.alive, worker.running, worker.idle_since = True, None, self.now
        worker.queue.clear()
        worker.ready.clear()
        self._tell(WorkerReplaced(at=self.now, worker=number))
        self._next(number)

    def _residency(self, run: int) -> tuple[int, ...]:
        """Return, per external of a run, the worker that holds it; -1 if none does."""
        one = self.submissions[run]
        if not one.sources:
            return one.residency or (-1,) * len(one.planned.graph.externals)
        places = [
            place_of(self.plans, self.moved, *source)
            if source and source[1] in self.plans[source[0]].plan.kept
            else None
            for source in one.sources
        ]
        return tuple([place.worker if isinstance(place, OnWorker) else -1 for place in places])

    # ---- the workers -----------------------------------------------------------------------------------------------

    def _receive(self, task: VirtualCall) -> None:
        """Handle the arrival of a call at its worker: request its inputs."""
        if task.over:
            return
        for key in awaited_keys(task, self.submissions, self.plans, self.moved):
            self._want(task, key)
        if self.in_order:
            self.workers[task.worker].queue.append(task)
        if not task.missing:
            self._ready(task)
        self._next(task.worker)

    def _want(self, task: VirtualCall, key: AwaitedKey) -> None:
        """Have a call wait for an object, unless that is there."""
        thing = self.things.get(key)
        if thing is None and (task.run in self._failed or key in self._gone):  # lost while the call was on its way
            task.poisoned = True
            return
        if thing is None:
            raise InvariantViolation(
                f"segment {task.segment} of run {task.run} reads {name_of(key)}, which is not there"
            )
        target = task.worker
        if thing.poisoned:
            task.poisoned = True
        elif not thing.made or target in thing.waiting:
            thing.waiting.setdefault(target, []).append(task)
            task.missing += 1
        elif target != thing.worker and target not in thing.here:
            thing.waiting[target] = [task]
            task.missing += 1
            self._send(key, thing, target)

    def _send(self, key: AwaitedKey, thing: AwaitedObject, target: int) -> None:
        """Start the transfer of an object to another worker."""
        latency, bandwidth = self.links.get((thing.worker, target)) or (self.costs.hop_seconds, self.costs.bandwidth)
        finish = self.now + latency + thing.size / bandwidth
        run = key[0]
        self.traces.transfers.append(
            VirtualTransfer(self.now, finish, thing.worker, target, thing.size, run, name_of(key))
        )
        self._at(finish, self._arrive, thing, target)

    def _arrive(self, thing: AwaitedObject, target: int) -> None:
        thing.here.add(target)
        for task in thing.waiting.pop(target, ()):  # none if it was lost on the way
            self._came(task)

    def _made(self, key: AwaitedKey, *, ok: bool) -> None:
        """Enter that an object exists, or, unless `ok`, never will."""
        thing = self.things.get(key)
        if thing is None:
            return
        thing.made, thing.poisoned = ok, not ok
        for target in list(thing.waiting):
            if ok and target != thing.worker:
                self._send(key, thing, target)
                continue
            for task in thing.waiting.pop(target):
                task.poisoned |= not ok
                self._came(task)

    def _came(self, task: VirtualCall) -> None:
        """Enter that one input of a call has arrived, or will never be made."""
        task.missing -= 1
        if not task.missing and not task.over:
            self._ready(task)
            self._next(task.worker)

    def _ready(self, task: VirtualCall) -> None:
        task.ready = self.now
        if not self.in_order:
            heappush(self.workers[task.worker].ready, (task.rank, task.order, task))

    def _next(self, number: int) -> None:
        """Start the next call on a worker, if it is idle and there is one that can start."""
        worker = self.workers[number]
        if worker.running is not None or not worker.alive:
            return
        if self.in_order:
            if not worker.queue or worker.queue[0].missing:
                return
            task = worker.queue.popleft()
        else:
            if not worker.ready:
                return
            task = heappop(worker.ready)[2]
        begin = max(worker.idle_since, task.commanded)
        if self.now > begin:
            self.traces.waits.append(IdleWait(number, begin, self.now, task.run, task.segment))
        task.start = self.now
        worker.running = task
        if task.segment >= 0 and not task.poisoned:
            self._check_pins(task)
        self._at(self.now + self.costs.call_seconds + (0.0 if task.poisoned else task.seconds), self._end, task)

    def _check_pins(self, task: VirtualCall) -> None:
        """Check that what a segment reads of its worker's pinned values is there."""
        run, segment = task.run, self.plans[task.run].plan.segments[task.segment]
        sources, externals = self._sources(run), len(self.plans[run].graph.externals)
        read = [(run, value) for value, _ in segment.unpins]
        for external in segment.externals:
            source = sources[external] if external < externals else (run, external)
            if source is None:
                continue
            place = place_of(self.plans, self.moved, *source)
            if isinstance(place, OnWorker) and place.worker == task.worker:
                read.append(source)
        for one in read:
            if one not in self.workers[task.worker].pinned:
                raise InvariantViolation(
                    f"segment {task.segment} of run {run} reads value {one[1]} of run {one[0]}, which is not pinned on "
                    f"worker {task.worker}"
                )

    def _end(self, task: VirtualCall) -> None:
        """Handle the end of a call."""
        if task.over:
            return
        worker = self.workers[task.worker]
        worker.busy += self.now - task.start
        self._over(task)
        if task.segment < 0:
            storing = self._end_export(task)
        else:
            storing = self._end_segment(task)
        task.start = self.now
        if storing / self.costs.store_bandwidth > 0.0:
            self._at(self.now + storing / self.costs.store_bandwidth, self._stored, task)
        else:
            self._stored(task)

    def _stored(self, task: VirtualCall) -> None:
        """Start the next call on a worker that has put the objects of the last one into the store."""
        worker = self.workers[task.worker]
        if worker.running is task:
            worker.busy += self.now - task.start
            worker.running, worker.idle_since = None, self.now
            self._next(task.worker)

    def _end_export(self, task: VirtualCall) -> int:
        """Make the object of a pinned value; return its bytes."""
        key = (task.run, task.segment, task.value)
        thing = self.things[key]
        worker = self.workers[task.worker]
        size = worker.pinned.get((task.run, task.value), -1)
        ok = size >= 0 and not task.poisoned and not self._is_on_disk(task.run, task.value)
        if ok:
            thing.size = size
            origin = self.origins.of(("pinned", task.worker), task.run, task.value)
            self.origins.hold(key, task.run, {task.value: origin})
            worker.store(self.now, size, saved=task.segment == COPY)
        self._made(key, ok=ok)
        answer = ValueExported if task.segment == -1 else ValueCopied
        if not ok and task.segment == -1:
            self.things.pop(key, None)
            self._gone.add(key)
        self._tell(answer(at=self.now, run=task.run, value=task.value, ok=ok, size=max(size, 0)))
        if not ok and task.segment == COPY:
            self.things.pop(key, None)
        return max(size, 0) if ok else 0

    def _end_segment(self, task: VirtualCall) -> int:
        """Enter what a segment has made; return the bytes of its objects."""
        run, index = task.run, task.segment
        raised = None if task.poisoned else self.raising.get((run, index))
        status: Status = "skipped" if task.poisoned else "failed" if raised is not None else "done"
        if status == "done" and not self.origins.agrees(run, self.plans[run].plan.segments[index].nodes):
            status = "failed"
        self.traces.add(task, self.now, status)
        task.done = status == "done"
        planned = self.plans[run]
        segment, worker = planned.plan.segments[index], self.workers[task.worker]
        sizes: list[int] = []
        if status == "done":
            made = self.origins.computed(planned, run, index, self._origins_of_read(task))
            self.origins.hold(("pinned", task.worker), run, {value: made[value] for value in segment.pins})
            for export, one in enumerate(segment.exports):
                self.origins.hold((run, index, export), run, {value: made[value] for value in one.values})
            for export, how in enumerate(segment.exports):
                sizes.append(self.things[run, index, export].size)
                worker.store(self.now, sizes[-1], saved=how.saved)
            saved = frozenset(segment.saved_pins)
            for value, size in pin_bytes(planned.programs[index], self.costs):
                worker.pin(self.now, run, value, size, saved=value in saved)
            for value, last in segment.unpins:
                if last:
                    worker.unpin(self.now, run, value)
        for export in range(len(segment.exports)):
            self._made((run, index, export), ok=status == "done")
        self._made((run, index, -1), ok=status == "done")
        self._failing = []
        self._tell(
            SegmentFinished(
                at=self.now,
                run=run,
                segment=index,
                attempt=task.attempt,
                status=status,
                export_bytes=tuple(sizes),
                node_seconds=task.seconds if status == "done" else 0.0,
                seconds=self.now - task.start,
            )
        )
        if raised is not None:
            self.traces.failures.append(FailureTrace(self.now, raised, ((run, index),), tuple(self._failing)))
        return sum(sizes)

    def _is_on_disk(self, run: int, value: int) -> bool:
        """Tell whether a value is a handle of what its worker has spilled, which cannot be packed."""
        graph = self.plans[run].graph
        maker = makers(graph)
        return value < len(maker) and maker[value] >= 0 and isinstance(graph.nodes[maker[value]], Spill)

    def _origins_of_read(self, task: VirtualCall) -> dict[int, Origin]:
        """Return the origins of what a segment has read, by the value in its graph."""
        run, plan = task.run, self.plans[task.run].plan
        segment, externals = plan.segments[task.segment], len(self.plans[task.run].graph.externals)
        here: Holder = ("pinned", task.worker)
        read: dict[int, Origin] = {value: self.origins.of(here, run, value) for value, _ in segment.unpins}
        for source, export in segment.imports:
            for value in plan.segments[source].exports[export].values:
                read[value] = self.origins.of((run, source, export), run, value)
        for external in segment.externals:
            origin = self._sources(run)[external] if external < externals else (run, external)
            if origin is not None:
                place = place_of(self.plans, self.moved, *origin)
                if isinstance(place, InStore):
                    holder: Holder = (origin[0], place.segment, place.export)
                else:
                    holder = here if place.worker == task.worker else (origin[0], -1, origin[1])
                read[external] = self.origins.of(holder, *origin)
        return read

    def _drain(self, worker: int) -> None:
        """Have a worker emptied, unless it is the last one."""
        there = [index for index, one in enumerate(self.cluster.workers) if not one.lost and self.workers[index].alive]
        if worker in there and len(there) > 1:
            self.cluster = self.cluster.without(worker)
            self._tell(DrainRequested(at=self.now, worker=worker))

    def _lose(self, loss: WorkerLoss) -> None:
        """Handle the death of a worker: results that it has not returned will never be made."""
        worker = self.workers[loss.worker]
        if not worker.alive:
            return
        worker.alive = False
        lost = list(worker.open.values())
        self._detach(loss.worker)
        if worker.running is not None:
            worker.busy += self.now - worker.running.start
        for task in lost:
            self._over(task)
            if task.segment >= 0:
                self.traces.add(task, self.now, "lost")
        for run, value in list(worker.pinned):
            worker.unpin(self.now, run, value)
        for task in [task for task in lost if task.segment < 0]:
            self._made((task.run, task.segment, task.value), ok=False)
            self.things.pop((task.run, task.segment, task.value), None)
            self._gone.add((task.run, task.segment, task.value))
        self._failing = []
        self._tell(WorkerDied(at=self.now, worker=loss.worker))
        segments = tuple((task.run, task.segment) for task in lost if task.segment >= 0)
        self.traces.failures.append(FailureTrace(self.now, loss, segments, tuple(self._failing)))
        for task in [task for task in lost if task.segment >= 0]:
            exports = self.plans[task.run].plan.segments[task.segment].exports
            for export in range(-1, len(exports)):
                self._made((task.run, task.segment, export), ok=False)

    def _lose_objects(self, loss: ObjectLoss, generator: np.random.Generator) -> None:
        """Have objects vanish: calls that wait for them are skipped, and so are those that come to read them."""
        made = [key for key, thing in self.things.items() if thing.made and (key[1] < 0 or key[2] >= 0) and key[0] >= 0]
        lost = [key for key in made if generator.random() < loss.share]
        for key in lost:
            thing = self.things[key]
            self.workers[thing.worker].store(self.now, -thing.size, saved=thing.saved or key[1] == COPY)
            thing.size = 0
            self._made(key, ok=False)
            self._gone.add(key)
        self._failing = []
        self._tell(
            ObjectsLost(
                at=self.now,
                exports=tuple([key for key in lost if key[1] >= 0]),
                values=tuple([(run, value) for run, segment, value in lost if segment == -1]),
                copies=tuple([(run, value) for run, segment, value in lost if segment == COPY]),
            )
        )
        self.traces.failures.append(FailureTrace(self.now, loss, (), tuple(self._failing)))

    def _detach(self, worker: int) -> None:
        """Enter that what segments had pinned on a worker is there no more."""
        for (run, index), task in self.calls.items():
            if task.worker == worker and task.done:
                self._detach_segment(run, index)

    def _detach_segment(self, run: int, index: int) -> None:
        """Enter that what a segment had pinned is there no more."""
        plan = self.plans[run].plan
        pinned = {*plan.segments[index].pins}
        place = OnWorker(plan.segments[index].worker, index)
        pinned.update([value for value, one in plan.kept.items() if one == place])
        self.moved.update([(run, value, index) for value in pinned])

    def _over(self, task: VirtualCall) -> None:
        task.over = True
        self._unsettled -= 1
        del self.workers[task.worker].open[task.order]
