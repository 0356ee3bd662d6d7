"""What the driver does where workers have died: it keeps account of what they had, and has planned what is made again.

The state machine decides when (`machine.recovery`), and the recovery planner what runs again and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from raygrad.scheduler.machine.commands import PlanRecovery
from raygrad.scheduler.machine.events import RecoveryPlan, RecoveryPlanned
from raygrad.scheduler.model.plan import Plan
from raygrad.scheduler.model.progress import PlanRevision
from raygrad.scheduler.planning.planner import Planned, Planner
from raygrad.scheduler.planning.recovery_planner import NodesToRun, RunToRecover, recover

from .base import Executor, copy_object, value_object
from .calls import residency_of
from .run_state import RunState


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
        for number, run in self._runs.items():
            run.worker_lost(worker)
            if run.remembered and died:
                run.count_death(worker)
            self._relocate(number)

    def use_copy(self, number: int, value: int) -> None:
        """Have the copy of a value be its object."""
        self._executor.rename(copy_object(number, value), value_object(number, value))
        self._runs[number].detach(value)
        self._relocate(number)

    def plan(self, command: PlanRecovery, at: float) -> RecoveryPlanned:
        """Plan what has to be made again, and all that has not begun."""
        remains = {one.run: one for one in command.runs}
        runs = {
            number: RunToRecover(run.planned, remains[number], run.sources(), run.suspects())
            for number, run in self._runs.items()
            if number in remains
        }
        killers = [number for number in runs if self._runs[number].killer >= 0]
        plans: list[RecoveryPlan] = []

        def adopt(number: int, planned: Planned, nodes: NodesToRun) -> None:
            run, before = self._runs[number], len(runs[number].planned.plan.segments)
            run.take_over(planned, remains[number])
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
        return RecoveryPlanned(at=at, plans=tuple(plans), hopeless=hopeless, waits_for=outcome.waits_for)

    def _relocate(self, number: int) -> None:
        """Have all runs know where the values of one are now."""
        for other in self._runs.values():
            other.relocate(number, self._runs[number])
