"""The search for short schedules: passes of list scheduling that start from the best schedules known.

`place` and `scheduling` run it within a budget, which is counted in passes, not in time: the seed decides the result.

A pass takes the nodes in the order of a known schedule read from its other end: by the time from a node's start to the
end of everything, with communication counted only where it happens. It keeps nodes on their workers unless moving pays
(`PassPreferences.hint`), so that each pass repairs what the last one left late. Some passes are perturbed: nodes at one
end of a transfer on the critical chain are moved to the worker of the other end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import log
from typing import NamedTuple

from .draws import SeededRandom
from .listing import EARLIEST_FINISH, ListSchedule, PassPreferences, list_schedule, urgent_successors
from .problem import PlacementProblem, order_by_falling

POOL_SIZE = 4
"""The number of best schedules from which passes start."""
ORDERS = (
    ("rank", "plain"),
    ("rank", "ahead"),
    ("still", "plain"),
    ("still", "ahead"),
    ("rank", "sticky"),
    ("deep", "ahead"),
)
"""Passes from scratch, each made in both directions: (order, preferences). Nodes come by upward rank, by upward rank
without transfers, or depth first; each goes where it ends first, where its successor can start first, or stays."""
PERTURBED = 0.4
"""Share of perturbed passes."""
BIASES = (0.3, 1.0, 1.0, 2.0)
"""Values of `PassPreferences.bias`, in average transfers."""
LOOKAHEAD, BEST_FIT = 0.2, 0.7
"""Shares of passes that look at successors, and that use the shortest idle time."""
STICKINESS = (0.0, 0.25, 0.5, 0.5, 1.0, -0.5, -0.5)
"""Values of `PassPreferences.stickiness`: 0 is HEFT, a positive one stays longer, a negative one leaves earlier."""
MOVED_ALONG = (0, 0, 1, 3, 10, 30)
"""Numbers of neighbouring nodes moved along with a perturbed node."""


class FoundSchedule(NamedTuple):
    """A schedule, and the direction of its times."""

    listed: ListSchedule
    backwards: bool


class _TimeDirection:
    """The problem in one direction of time, with the ranks and successors that passes need, computed at first use."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem

    @cached_property
    def ranks(self) -> list[float]:
        return self.problem.upward_rank(1.0)

    @cached_property
    def successors(self) -> list[tuple[int, float]]:
        return urgent_successors(self.problem, self.ranks)

    def order(self, name: str) -> list[int]:
        """Return the nodes in one of the orders from scratch."""
        if name == "deep":
            return self.problem.depth_first_order()
        return order_by_falling(self.problem, self.ranks if name == "rank" else self.problem.upward_rank(0.0))


class ScheduleSearch:
    """The search, with the schedules found so far, best first. Call `start`, then `refine`."""

    def __init__(self, problem: PlacementProblem, draws: SeededRandom, target: float = 0.0) -> None:
        self.sides = [_TimeDirection(problem), _TimeDirection(problem.turned())]
        self.draws = draws
        self.target = target
        """A makespan at which the search stops."""
        self.pool: list[FoundSchedule] = []
        self.passes = 0
        self._kinds = 0
        """Passes made from scratch."""
        edges = [transfer for after in problem.after for _, transfer in after]
        self.transfer = sum(edges) / len(edges) if edges else 0.0

    @property
    def best(self) -> FoundSchedule:
        """The best schedule so far."""
        return self.pool[0]

    @property
    def done(self) -> bool:
        """Whether there is nothing to gain."""
        return bool(self.pool) and self.best.listed.makespan <= self.target

    def try_pass(
        self, backwards: bool, order: Sequence[int], preferences: PassPreferences, fixed: Sequence[int] | None = None
    ) -> None:
        """Make one pass and keep its schedule if it is among the best."""
        found = FoundSchedule(list_schedule(self.sides[backwards].problem, order, preferences, fixed), backwards)
        self.passes += 1
        makespan = found.listed.makespan
        place = 0
        for known in self.pool:
            if makespan == known.listed.makespan:
                self.pool[place] = found  # equally good but different: so the search can leave a plateau
                return
            if makespan < known.listed.makespan:
                break
            place += 1
        self.pool.insert(place, found)
        del self.pool[POOL_SIZE:]

    def start(self, passes: int) -> None:
        """Make passes from scratch, HEFT first and each kind once, until `passes` have been made in all."""
        for order, preferences in ORDERS[self._kinds // 2 :]:
            for backwards in (False, True)[self._kinds % 2 :]:
                if self.passes >= passes or self.done:
                    return
                self._kinds += 1
                side = self.sides[backwards]
                successors = side.successors if preferences == "ahead" else ()
                wanted = (
                    EARLIEST_FINISH
                    if preferences == "plain"
                    else PassPreferences(successors=successors, stickiness=0.5 if preferences == "sticky" else 0.0)
                )
                self.try_pass(backwards, side.order(order), wanted)

    def refine(self, passes: int) -> None:
        """Make passes over the best schedules until `passes` have been made in all."""
        draws = self.draws
        while self.passes < passes and not self.done:
            base = self.pool[min(int(-log(1.0 - draws.random())), len(self.pool) - 1)]  # mostly the best
            side = self.sides[not base.backwards]
            preferences = PassPreferences(
                hint=self._perturbed(base) if draws.random() < PERTURBED else base.listed.worker,
                bias=self.transfer * draws.one_of(BIASES),
                stickiness=draws.one_of(STICKINESS),
                successors=side.successors if draws.random() < LOOKAHEAD else (),
                best_fit=draws.random() < BEST_FIT,
            )
            self.try_pass(not base.backwards, order_by_falling(side.problem, base.listed.finish), preferences)

    def _perturbed(self, found: FoundSchedule) -> list[int]:
        """Return the workers of a schedule's nodes, with other workers for some nodes on its critical chain."""
        problem, draws = self.sides[found.backwards].problem, self.draws
        worker = found.listed.worker
        hint = worker.copy()
        crossing, queued = critical_chain(problem, found.listed)
        workers = range(len(problem.pace))
        for _ in range(draws.one_of((1, 2, 3))):
            if crossing and (not queued or draws.random() < 0.6):
                one, other = draws.one_of(crossing)
                if draws.random() < 0.5:
                    one, other = other, one
                self._move(problem, hint, other, worker[one], draws.one_of(MOVED_ALONG))
            elif queued:
                self._move(problem, hint, draws.one_of(queued), draws.one_of(workers), draws.one_of(MOVED_ALONG))
        return hint

    @staticmethod
    def _move(problem: PlacementProblem, hint: list[int], node: int, to: int, others: int) -> None:
        """Change the worker of a node, and of up to `others` neighbours of it on its worker."""
        home = hint[node]
        hint[node] = to
        front = [node]
        while front and others > 0:
            one = front.pop()
            for neighbours in (problem.after[one], problem.before[one]):
                for other, _ in neighbours:
                    if hint[other] == home and others > 0:
                        hint[other] = to
                        others -= 1
                        front.append(other)


def critical_chain(problem: PlacementProblem, listed: ListSchedule) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the transfers (from, to) on a chain of nodes that determines the makespan, and the nodes on the chain that
    waited for their worker."""
    _, worker, finish = listed
    if not worker:
        return [], []
    at = {(where, end): node for node, (where, end) in enumerate(zip(worker, finish, strict=True))}
    node = max(range(len(finish)), key=finish.__getitem__)
    crossing: list[tuple[int, int]] = []
    queued: list[int] = []
    for _ in finish:
        start = finish[node] - problem.seconds[node] * problem.pace[worker[node]]
        slack = 1e-9 * start
        if start <= 0.0:
            break
        for other, transfer in problem.before[node]:
            moved = worker[other] != worker[node]
            if finish[other] + (transfer if moved else 0.0) >= start - slack:
                if moved:
                    crossing.append((other, node))
                node = other
                break
        else:
            behind = at.get((worker[node], start), -1)
            if behind < 0:
                break
            queued.append(node)
            node = behind
    return crossing, queued
