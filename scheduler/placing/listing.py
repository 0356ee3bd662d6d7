"""One pass of list scheduling: each node of a given order goes to the worker that suits it best, idle gaps included.

`refining` makes many such passes with different orders and preferences, forwards and backwards in time. A pass is a
pure function of its arguments, O(nodes + edges) for workers of equal speed; ties go to the lowest index.

A pass need not look at every worker: the last input of a node comes from one worker, and on every other worker the node
is ready at the same time. So the candidates are that worker and, of each speed, the one that is idle first; of the idle
gaps only those that end late enough.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .problem import PlacementProblem

MAX_GAPS = 64
"""Gaps looked at for one node: the earliest that it may fit into. A wide graph with slow edges leaves thousands."""


class ListSchedule(NamedTuple):
    """What a pass decided. Times run in the direction of the problem."""

    makespan: float
    worker: list[int]
    finish: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPreferences:
    """What a pass prefers. By default, as HEFT (Topcuoglu, Hariri and Wu, 2002): whatever ends the node first."""

    hint: Sequence[int] = ()
    """Per node, the worker where it is to be kept, unless it ends earlier elsewhere by more than `bias`."""
    bias: float = 0.0
    keen: float = 0.0
    """Share of a transfer that a node may end later, to stay where the last of what it reads comes from."""
    heirs: Sequence[tuple[int, float]] = ()
    """Per node, the one after it that is most urgent, or -1, and the seconds to bring it there. If given, the node
    goes where that one can start earliest, as far as what it reads is placed: branches that join come together."""
    snug: bool = False
    """Among workers idle in time take the one that has been so for the shortest time; else the lowest index, which
    brings more together on few workers."""


EARLIEST_FINISH = PassPreferences()


class _IdleTime:
    """The idle time of all workers: after `free`, and the gaps before it; of each pace also sorted."""

    __slots__ = ("free", "gaps", "kind", "kinds", "own", "pace", "seen", "snug", "tails")

    def __init__(self, pace: Sequence[float], snug: bool, seen: int) -> None:
        self.snug = snug
        self.seen = seen
        self.pace = sorted(set(pace))
        number = {one: index for index, one in enumerate(self.pace)}
        self.kind = [number[one] for one in pace]
        self.kinds = [[w for w, kind in enumerate(self.kind) if kind == index] for index in range(len(self.pace))]
        self.free = [0.0] * len(pace)
        self.own: list[list[tuple[float, float]]] = [[] for _ in pace]
        """Per worker (end, begin) of its gaps."""
        self.tails = [[(0.0, w) for w in members] for members in self.kinds]
        """Per kind (free, worker)."""
        self.gaps: list[list[tuple[float, float, int]]] = [[] for _ in self.pace]
        """Per kind (end, begin, worker)."""

    def start(self, worker: int, ready: float, cost: float) -> float:
        """Return the earliest start of that much work on a worker."""
        free = self.free[worker]
        if free <= ready:
            return ready
        own = self.own[worker]
        for index in range(bisect_left(own, (ready + cost,)), len(own)):
            end, begin = own[index]
            if begin < ready:
                begin = ready
            if begin + cost <= end:
                return begin
        return free

    def first(self, kind: int, ready: float, cost: float) -> tuple[float, int]:
        """Return the earliest start of that much work on any worker of a kind, and the worker."""
        tails, free, snug = self.tails[kind], self.free, self.snug
        start, worker = tails[0]
        if start <= ready:
            start = ready
            if snug:
                return ready, tails[bisect_left(tails, (ready, len(free))) - 1][1]
            for one in self.kinds[kind]:
                if free[one] <= ready:
                    worker = one
                    break
        gaps = self.gaps[kind]
        first = bisect_left(gaps, (ready + cost,))
        for index in range(first, min(len(gaps), first + self.seen)):
            end, begin, one = gaps[index]
            if begin <= ready:
                if start > ready or one < worker or snug:
                    start, worker = ready, one
                    if snug:
                        break
            elif begin + cost <= end and (begin < start or (begin == start and one < worker)):
                start, worker = begin, one
        return start, worker

    def take(self, worker: int, start: float, finish: float) -> None:
        """Use the time between."""
        free, kind = self.free[worker], self.kind[worker]
        own, gaps = self.own[worker], self.gaps[kind]
        if start >= free:
            if start > free:
                insort(own, (start, free))
                insort(gaps, (start, free, worker))
            self.free[worker] = finish
            tails = self.tails[kind]
            del tails[bisect_left(tails, (free, worker))]
            insort(tails, (finish, worker))
            return
        index = bisect_left(own, (finish,))
        while own[index][1] > start:
            index += 1
        end, begin = own[index]
        del own[index]
        del gaps[bisect_left(gaps, (end, begin, worker))]
        if start > begin:
            insort(own, (start, begin))
            insort(gaps, (start, begin, worker))
        if end > finish:
            insort(own, (end, finish))
            insort(gaps, (end, finish, worker))


def list_schedule(
    problem: PlacementProblem,
    order: Sequence[int],
    taste: PassPreferences = EARLIEST_FINISH,
    fixed: Sequence[int] | None = None,
) -> ListSchedule:
    """Place all nodes, one by one in a topological order. `fixed` stands in for the problem's own."""
    return _Pass(problem, taste).run(order, list(problem.fixed if fixed is None else fixed))


class _Pass:
    """One use of `list_schedule`: what it has decided so far.

    Per node, of what it reads and what is placed of that: `far`, when all of it can be anywhere; `home`, the worker
    that the last of it comes from; `there`, when all of it is at home; `saved`, the longest transfer of what is home.
    """

    __slots__ = ("far", "home", "idle", "problem", "saved", "taste", "there")

    def __init__(self, problem: PlacementProblem, taste: PassPreferences) -> None:
        count = len(problem)
        self.problem = problem
        self.taste = taste
        self.idle = _IdleTime(problem.pace, taste.snug, MAX_GAPS if taste is EARLIEST_FINISH else MAX_GAPS // 4)
        self.far = [0.0] * count
        self.home = [-1] * count
        self.there = [0.0] * count
        self.saved = [0.0] * count

    def run(self, order: Sequence[int], chosen: list[int]) -> ListSchedule:
        problem, far, home, there, saved = self.problem, self.far, self.home, self.there, self.saved
        after, seconds, pace, group = problem.after, problem.seconds, problem.pace, problem.group
        start_on, take = self.idle.start, self.idle.take
        candidates, choose = self.candidates, self.choose
        plain = self.taste is EARLIEST_FINISH
        worker = [-1] * len(far)
        finish = [0.0] * len(far)
        for node in order:
            root = group[node]
            where = chosen[root]
            if where >= 0:
                took = seconds[node] * pace[where]
                start = start_on(where, there[node] if where == home[node] else far[node], took)
            else:
                _, where, start = min(candidates(node)) if plain else choose(node)
                took = seconds[node] * pace[where]
                chosen[root] = where
            worker[node] = where
            finish[node] = end = start + took
            take(where, start, end)
            for other, transfer in after[node]:
                arrival = end + transfer
                if where == home[other]:
                    if end > there[other]:
                        there[other] = end
                    if arrival > far[other]:
                        far[other] = arrival
                    if transfer > saved[other]:
                        saved[other] = transfer
                elif arrival > far[other] or home[other] < 0:
                    # all that came before is there no later than `far` was, wherever it came from
                    there[other] = end if end > far[other] else far[other]
                    far[other] = arrival
                    home[other] = where
                    saved[other] = transfer
                elif arrival > there[other]:
                    there[other] = arrival
        return ListSchedule(max(finish, default=0.0), worker, finish)

    def candidates(self, node: int) -> list[tuple[float, int, float]]:
        """Return (finish, worker, start) of the workers that may end a node first."""
        problem, idle = self.problem, self.idle
        far, home, there = self.far[node], self.home[node], self.there[node]
        cost, pace = problem.seconds[node], problem.pace
        some: list[tuple[float, int, float]] = []
        if problem.allowed and (allowed := problem.allowed.get(problem.group[node])) is not None:
            for one in allowed:
                took = cost * pace[one]
                start = idle.start(one, there if one == home else far, took)
                some.append((start + took, one, start))
            return some
        for kind, slow in enumerate(idle.pace):
            took = cost * slow
            start, one = idle.first(kind, far, took)
            some.append((start + took, one, start))
        if home >= 0:
            took = cost * pace[home]
            start = idle.start(home, there, took)
            some.append((start + took, home, start))
        return some

    def choose(self, node: int) -> tuple[float, int, float]:
        """Return (finish, worker, start) where the taste wants a node."""
        taste, problem, idle = self.taste, self.problem, self.idle
        if problem.allowed and problem.group[node] in problem.allowed:
            return self.preferred(node, self.candidates(node))
        far, home = self.far[node], self.home[node]
        cost, pace = problem.seconds[node], problem.pace
        some: list[tuple[float, int, float]] = []
        late = True  # whether a worker that is neither of these may start earlier than they do
        hinted = taste.hint[node] if taste.hint else -1
        if hinted >= 0 and hinted != home:
            took = cost * pace[hinted]
            start = idle.start(hinted, far, took)
            some.append((start + took, hinted, start))
            late = start > far
        if home >= 0:
            took = cost * pace[home]
            start = idle.start(home, self.there[node], took)
            some.append((start + took, home, start))
            late = late and (start > far or taste.keen < 0.0)
        if late or len(idle.pace) > 1:
            for kind, slow in enumerate(idle.pace):
                took = cost * slow
                start, one = idle.first(kind, far, took)
                some.append((start + took, one, start))
        if taste.heirs and (heir := taste.heirs[node][0]) >= 0:
            beside = self.home[heir]
            if beside >= 0 and beside != home and beside != hinted:
                took = cost * pace[beside]
                start = idle.start(beside, far, took)
                some.append((start + took, beside, start))
        return some[0] if len(some) == 1 else self.preferred(node, some)

    def preferred(self, node: int, some: list[tuple[float, int, float]]) -> tuple[float, int, float]:
        """Return the candidate that the taste prefers; of equal ones the last."""
        taste, home = self.taste, self.home[node]
        hinted = taste.hint[node] if taste.hint else -1
        beside, there, elsewhere, move = -1, 0.0, 0.0, 0.0  # of the heir
        if taste.heirs:
            heir, move = taste.heirs[node]
            if heir >= 0:
                beside, there, elsewhere = self.home[heir], self.there[heir], self.far[heir]
        stay, bias = self.saved[node] * taste.keen, taste.bias
        best = some[0]
        least = earliest = float("inf")
        for candidate in some:
            worth, one, _ = candidate
            end = worth
            if beside >= 0:  # when the heir could start, beside what else it reads or here
                if one == beside:
                    if there > worth:
                        worth = there
                else:
                    if elsewhere > worth:
                        worth = elsewhere
                    away = end + move
                    if there > away:
                        away = there
                    if away < worth:
                        worth = away
            if one == home:
                worth -= stay
            if one != hinted:
                worth += bias
            if worth < least or (worth == least and end <= earliest):
                best, least, earliest = candidate, worth, end
        return best


def urgent_successors(problem: PlacementProblem, ranks: Sequence[float]) -> list[tuple[int, float]]:
    """Return, per node, the one after it from which the way on is longest, and the seconds to bring it there."""
    heirs: list[tuple[int, float]] = []
    for after in problem.after:
        longest, heir, move = -1.0, -1, 0.0
        for other, transfer in after:
            if transfer + ranks[other] > longest:
                longest, heir, move = transfer + ranks[other], other, transfer
        heirs.append((heir, move))
    return heirs
