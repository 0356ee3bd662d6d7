"""What the driver does where workers have died: it keeps account of what they had, and has planned what is made again.

The state machine decides when (`machine.recovery`), and the recovery planner what runs again and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from raygrad.proto.ir.program import Record
from raygrad.scheduler.machine.commands import PlanRecovery
from raygrad.scheduler.machine.events import ObjectsLost, RecoveryPlan, RecoveryPlanned
from raygrad.scheduler.model.plan import Plan
from raygrad.scheduler.model.progress import PlanRevision
from raygrad.scheduler.planning.planner import Planned, Planner
from raygrad.scheduler.planning.recovery_planner import NodesToRun, RunToRecover, recover

from .base import COPIED, PINNED, Executor, ObjectId, copy_object, value_object
from .calls import residency_of
from .run_state import RunState

OBJECT_STORE: Final = "an object store"
"""What reports name where no worker has died."""


class LostWork:
    """What the runs of one driver have lost.

    Args:
        executor: whose workers die.
        planner: plans again.
        runs: the driver's, by number.
        replanned: is told of each new plan of a run.
    """

    def __init__(
        self,
        executor: Executor,
        planner: Planner,
        runs: Mapping[int, RunState],
        replanned: Callable[[int, Plan, PlanRevision], None],
    ) -> None:
        self.died: list[str] = []
        """The workers that have died, in order."""
        self._executor = executor
        self._planner = planner
        self._runs = runs
        self._replanned = replanned

    def worker_lost(self, worker: int, *, died: bool) -> None:
        """Enter that what was pinned on a worker is not there any more; and, if it `died`, what it was running then."""
        if died:
            self.died.append(self._executor.cluster.workers[worker].name)
            self._count_death(worker)
        for number, run in self._runs.items():
            run.worker_lost(worker)
            self._relocate(number)

    def _count_death(self, worker: int) -> None:
        """Count the death of a worker against what it was running, and forget what it was sent. It runs what can begin
        of the earliest run, and of that what was sent first; what of others it was sent has nothing to do with it."""
        runs = {number: run for number, run in sorted(self._runs.items()) if run.remembered}
        sent = [(run, segment) for run in runs.values() for segment in run.sent_to(worker)]
        running = next(((run, segment) for run, segment in sent if run.could_begin(segment, self._runs)), None)
        if running is not None:
            running[0].count_death(running[1])
        for run, segment in sent:
            del run.sent[segment]

    def agrees(self, run: RunState, record: Record) -> bool:
        """Take in the fingerprints of what nodes have returned; return whether each that has to agrees with what it had
        returned."""
        lost = ", ".join(dict.fromkeys(self.died))
        return run.enter_fingerprints(record, lambda node: self._executor.name_of(node.fn), lost)

    def forgotten(self, run: RunState) -> None:
        """Enter that a run is forgotten, and with it who has read what it read."""
        for one in run.sources():
            if one is not None and one[0] in self._runs:
                self._runs[one[0]].consumed.add(one[1])

    def void(self, number: int, segment: int) -> None:
        """Enter that what a segment has returned counts no more."""
        self._runs[number].void(segment)
        self._relocate(number)

    def use_copy(self, number: int, value: int) -> None:
        """Have the copy of a value be its object."""
        self._executor.rename(copy_object(number, value), value_object(number, value))
        self.use_object(number, value)

    def use_object(self, number: int, value: int) -> None:
        """Enter that the object of a value is all that there is of it."""
        self._runs[number].detach(value)
        self._relocate(number)

    def objects_gone(self, objects: Sequence[ObjectId], at: float) -> ObjectsLost:
        """Enter that objects are gone from the store; return the event."""
        self.died.append(OBJECT_STORE)
        exports: list[tuple[int, int, int]] = []
        values: dict[int, list[tuple[int, int]]] = {PINNED: [], COPIED: []}
        for name in objects:
            run = self._runs.get(name.run)
            if name.segment in values:
                values[name.segment].append((name.run, name.number))
            else:
                exports.append((name.run, name.segment, name.number))
            if run is not None and name.segment == PINNED:
                run.requested.discard(name.number)
            elif run is not None and name.segment >= 0:
                run.lose_export(name.segment, name.number)
        for number in {name.run for name in objects} & self._runs.keys():
            self._relocate(number)
        return ObjectsLost(at=at, exports=tuple(exports), values=tuple(values[PINNED]), copies=tuple(values[COPIED]))

    def plan(self, command: PlanRecovery, at: float) -> RecoveryPlanned:
        """Plan what has to be made again, and all that has not begun."""
        remains = {one.run: one for one in command.runs}
        runs = {
            number: RunToRecover(run.planned, remains[number], run.sources(), run.suspects(), run.seen, run.results)
            for number, run in self._runs.items()
            if number in remains
        }
        killers = [number for number in runs if self._runs[number].killer >= 0]
        plans: list[RecoveryPlan] = []

        def adopt(number: int, planned: Planned, nodes: NodesToRun) -> None:
            run, before = self._runs[number], len(runs[number].planned.plan.segments)
            run.take_over(planned, remains[number], nodes.compared)
            self._relocate(number)
            plans.append(RecoveryPlan(number, planned.plan, run.sources()))
            rest, new = remains[number].progress.rest, len(planned.plan.segments) - before
            lost = tuple(dict.fromkeys(self.died[run.deaths :])) or tuple(self.died[-1:])
            run.deaths = len(self.died)
            self._replanned(number, planned.plan, PlanRevision(at, rest, new, nodes.again, lost))

        def residency(number: int) -> list[int]:
            return [residency_of(one) for one in self._runs[number].externals]

        outcome = recover(
            {number: run for number, run in runs.items() if number not in killers},
            residency,
            self._planner.latest_costs,
            self._planner.cluster,
            adopt,
        )
        hopeless = tuple(sorted({*outcome.hopeless, *killers}))
        return RecoveryPlanned(
            at=at, plans=tuple(plans), hopeless=hopeless, waits_for=outcome.waits_for, void=outcome.void
        )

    def _relocate(self, number: int) -> None:
        """Have all runs know where the values of one are now."""
        for other in self._runs.values():
            other.relocate(number, self._runs[number])
