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
"""The most gaps tried for one node, the earliest first. A wide graph with slow edges leaves thousands."""


class ListSchedule(NamedTuple):
    """The schedule of a pass. Times run in the direction of the problem."""

    makespan: float
    worker: list[int]
    finish: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPreferences:
    """The preferences of a pass. The default is that of HEFT (Topcuoglu, Hariri and Wu, 2002): the earliest finish."""

    hint: Sequence[int] = ()
    """Per node, the preferred worker, unless the node ends earlier elsewhere by more than `bias`."""
    bias: float = 0.0
    stickiness: float = 0.0
    """Share of a transfer by which a node may end later, to stay on the worker of its last input."""
    successors: Sequence[tuple[int, float]] = ()
    """Per node, its most urgent successor, or -1, and the seconds of the transfer to it. If given, the node goes where
    that successor can start earliest, as far as its inputs are placed: so branches that join come together."""
    best_fit: bool = False
    """Among workers that are idle in time take the one idle for the shortest time (best fit); else the lowest index,
    which concentrates nodes on few workers."""


EARLIEST_FINISH = PassPreferences()


class _IdleTime:
    """The idle time of all workers: after `free`, and the gaps before it; also sorted per class of equal pace."""

    __slots__ = ("best_fit", "free", "gaps", "idle_from", "kind", "kinds", "max_gaps", "own", "pace")

    def __init__(self, pace: Sequence[float], best_fit: bool, max_gaps: int) -> None:
        self.best_fit = best_fit
        self.max_gaps = max_gaps
        self.pace = sorted(set(pace))
        number = {one: index for index, one in enumerate(self.pace)}
        self.kind = [number[one] for one in pace]
        self.kinds = [[w for w, kind in enumerate(self.kind) if kind == index] for index in range(len(self.pace))]
        self.free = [0.0] * len(pace)
        self.own: list[list[tuple[float, float]]] = [[] for _ in pace]
        """Per worker (end, begin) of its gaps."""
        self.idle_from = [[(0.0, w) for w in members] for members in self.kinds]
        """Per kind (free, worker)."""
        self.gaps: list[list[tuple[float, float, int]]] = [[] for _ in self.pace]
        """Per kind (end, begin, worker)."""

    def start(self, worker: int, ready: float, cost: float) -> float:
        """Return the earliest start on a worker of work of `cost` seconds."""
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
        """Return the earliest start on any worker of a kind of work of `cost` seconds, and the worker."""
        idle_from, free, best_fit = self.idle_from[kind], self.free, self.best_fit
        start, worker = idle_from[0]
        if start <= ready:
            start = ready
            if best_fit:
                return ready, idle_from[bisect_left(idle_from, (ready, len(free))) - 1][1]
            for one in self.kinds[kind]:
                if free[one] <= ready:
                    worker = one
                    break
        gaps = self.gaps[kind]
        first = bisect_left(gaps, (ready + cost,))
        for index in range(first, min(len(gaps), first + self.max_gaps)):
            end, begin, one = gaps[index]
            if begin <= ready:
                if start > ready or one < worker or best_fit:
                    start, worker = ready, one
                    if best_fit:
                        break
            elif begin + cost <= end and (begin < start or (begin == start and one < worker)):
                start, worker = begin, one
        return start, worker

    def take(self, worker: int, start: float, finish: float) -> None:
        """Mark a worker busy from `start` to `finish`."""
        free, kind = self.free[worker], self.kind[worker]
        own, gaps = self.own[worker], self.gaps[kind]
        if start >= free:
            if start > free:
                insort(own, (start, free))
                insort(gaps, (start, free, worker))
            self.free[worker] = finish
            idle_from = self.idle_from[kind]
            del idle_from[bisect_left(idle_from, (free, worker))]
            insort(idle_from, (finish, worker))
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
    preferences: PassPreferences = EARLIEST_FINISH,
    fixed: Sequence[int] | None = None,
) -> ListSchedule:
    """Place all nodes, one by one in a topological order. `fixed`, if given, replaces that of the problem."""
    return _Pass(problem, preferences).run(order, list(problem.fixed if fixed is None else fixed))


class _Pass:
    """One call of `list_schedule`, with the decisions so far.

    Per node, over its inputs that are placed: `far`, their arrival on any other worker; `home`, the worker from which
    the last of them comes; `there`, their arrival at home; `saved`, the longest transfer of those at home.
    """

    __slots__ = ("far", "home", "idle", "preferences", "problem", "saved", "there")

    def __init__(self, problem: PlacementProblem, preferences: PassPreferences) -> None:
        count = len(problem)
        self.problem = problem
        self.preferences = preferences
        self.idle = _IdleTime(
            problem.pace, preferences.best_fit, MAX_GAPS if preferences is EARLIEST_FINISH else MAX_GAPS // 4
        )
        self.far = [0.0] * count
        self.home = [-1] * count
        self.there = [0.0] * count
        self.saved = [0.0] * count

    def run(self, order: Sequence[int], chosen: list[int]) -> ListSchedule:
        problem, far, home, there, saved = self.problem, self.far, self.home, self.there, self.saved
        after, seconds, pace, group = problem.after, problem.seconds, problem.pace, problem.group
        start_on, take = self.idle.start, self.idle.take
        candidates, choose = self.candidates, self.choose
        plain = self.preferences is EARLIEST_FINISH
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
                    # the earlier inputs arrive no later than `far` was, wherever they come from
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
        """Return (finish, worker, start) of the worker that the preferences choose for a node."""
        preferences, problem, idle = self.preferences, self.problem, self.idle
        if problem.allowed and problem.group[node] in problem.allowed:
            return self.preferred(node, self.candidates(node))
        far, home = self.far[node], self.home[node]
        cost, pace = problem.seconds[node], problem.pace
        some: list[tuple[float, int, float]] = []
        late = True  # whether another worker may start earlier than these
        hinted = preferences.hint[node] if preferences.hint else -1
        if hinted >= 0 and hinted != home:
            took = cost * pace[hinted]
            start = idle.start(hinted, far, took)
            some.append((start + took, hinted, start))
            late = start > far
        if home >= 0:
            took = cost * pace[home]
            start = idle.start(home, self.there[node], took)
            some.append((start + took, home, start))
            late = late and (start > far or preferences.stickiness < 0.0)
        if late or len(idle.pace) > 1:
            for kind, slow in enumerate(idle.pace):
                took = cost * slow
                start, one = idle.first(kind, far, took)
                some.append((start + took, one, start))
        if preferences.successors and (successor := preferences.successors[node][0]) >= 0:
            successor_home = self.home[successor]
            if successor_home >= 0 and successor_home != home and successor_home != hinted:
                took = cost * pace[successor_home]
                start = idle.start(successor_home, far, took)
                some.append((start + took, successor_home, start))
        return some[0] if len(some) == 1 else self.preferred(node, some)

    def preferred(self, node: int, some: list[tuple[float, int, float]]) -> tuple[float, int, float]:
        """Return the best candidate by the preferences; of equal ones the last."""
        preferences, home = self.preferences, self.home[node]
        hinted = preferences.hint[node] if preferences.hint else -1
        successor_home, there, elsewhere, move = -1, 0.0, 0.0, 0.0  # of the successor
        if preferences.successors:
            successor, move = preferences.successors[node]
            if successor >= 0:
                successor_home, there, elsewhere = self.home[successor], self.there[successor], self.far[successor]
        stay, bias = self.saved[node] * preferences.stickiness, preferences.bias
        best = some[0]
        least = earliest = float("inf")
        for candidate in some:
            worth, one, _ = candidate
            end = worth
            if successor_home >= 0:  # the start of the successor, at home of its other inputs or here
                if one == successor_home:
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
    """Return, per node, its successor on the longest path, and the seconds of the transfer to it."""
    successors: list[tuple[int, float]] = []
    for after in problem.after:
        longest, successor, move = -1.0, -1, 0.0
        for other, transfer in after:
            if transfer + ranks[other] > longest:
                longest, successor, move = transfer + ranks[other], other, transfer
        successors.append((successor, move))
    return successors
