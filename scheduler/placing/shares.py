"""Placement by shares: each worker gets a contiguous part of a graph's branches, as a person divides an ensemble.

`place` tries it before schedules found by list scheduling. Branches on one level of the graph are divided in program
order into one share per worker, so that balanced sums of gradients (H19) cross workers log(workers) times, and folds
once per worker. Light nodes follow what they read or what reads them, the latest branch first. How durations differ
within a share does not matter, only how much work it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set as AbstractSet
from typing import Final

from ..model.critical_path import EdgeLists
from .branches import MIN_DIVIDED, Branches
from .problem import PlacementProblem

LIGHT_SWEEPS: Final = 2
"""Sweeps in which light nodes move to the worker with which they exchange most."""
NEARLY_EVEN: Final = 1.001
"""Even shares may be longer by this factor than the best contiguous ones."""
UNEVEN_SHARE: Final = 0.03
"""The share of a worker's work by which levels after the first may be unbalanced, so that less is transferred."""


def place_branches(
    problem: PlacementProblem, seed: int = 0, unknown: AbstractSet[int] = frozenset()
) -> Iterator[list[int]]:
    """Return placements by shares of branches, each the worker of every node, the simplest first; none if no level of
    the graph has two branches. Each is made when it is asked for.

    Constraints are kept. The first share goes to worker `seed`, unless other workers hold what shares read. In the
    second placement one worker has all nodes that read from branches of several workers: it gathers what a fold would
    hand from worker to worker. In the third shares are no longer contiguous, but as equal as they can be.

    Branches that have some of the `unknown` nodes, whose seconds are guesses, are divided after the others of their
    level: a share of guesses would leave its worker idle where they take nothing.
    """
    fixed, group = problem.fixed, problem.group
    whole = sum(problem.seconds)
    if sum([took for node, took in enumerate(problem.seconds) if fixed[group[node]] >= 0]) > MIN_DIVIDED * whole:
        return  # others have decided
    branches = Branches(problem)
    if any(len(level) > 1 for level in branches.levels):
        yield _SharePlacer(problem, branches, seed, unknown).run()
        yield _SharePlacer(problem, branches, seed, unknown, gather=True).run()
        yield _SharePlacer(problem, branches, seed, unknown, balance=True).run()


class _SharePlacer:
    """One call of `place_branches`."""

    def __init__(
        self,
        problem: PlacementProblem,
        branches: Branches,
        seed: int,
        unknown: AbstractSet[int],
        gather: bool = False,
        balance: bool = False,
    ) -> None:
        self.problem = problem
        self.unknown = unknown
        self.branches = branches
        self.gather = gather
        self.balance = balance
        self.count = len(problem.pace)
        self.seed = seed % self.count
        self.of_group: dict[int, int] = {group: home for group, home in enumerate(problem.fixed) if home >= 0}
        """Per group, its worker, as soon as it has one."""
        self.worker = [self.of_group.get(group, -1) for group in problem.group]
        self.hub = self.seed
        """The worker that gathers."""
        self.alone = [size == 1 for size in map(Counter(problem.group).__getitem__, problem.group)]
        """Per node, whether it shares its worker with no other."""

    def run(self) -> list[int]:
        problem, branches = self.problem, self.branches
        members: dict[int, list[int]] = {branch: [] for level in branches.levels for branch in level}
        for node, heavy in enumerate(branches.heavy):
            if heavy and (branch := branches.of(node)) in members:
                members[branch].append(node)
        for level in branches.levels:
            self._divide(level, members)
        self.hub = self.of_group.get(problem.group[branches.first[branches.levels[0][0]]], self.seed)
        latest = self._latest(problem.order(), problem.edges_before)
        self._follow(problem.order(), problem.edges_before, latest)
        latest = self._latest(reversed(problem.order()), problem.edges_after)
        self._follow(reversed(problem.order()), problem.edges_after, latest)
        self.worker = [self.seed if one < 0 else one for one in self.worker]
        for sweep in range(LIGHT_SWEEPS):
            self._settle(problem.order() if sweep % 2 else reversed(problem.order()))
        return self.worker

    def _divide(self, level: Sequence[int], members: dict[int, list[int]]) -> None:
        """Give each worker a contiguous share of a level's branches; less to those that must run some of them."""
        problem, work = self.problem, self.branches.work
        load = [0.0] * self.count
        known: list[int] = []
        guessed: list[int] = []
        for branch in level:
            if problem.fixed[branch] >= 0:
                load[problem.fixed[branch]] += work[branch]
            else:
                (known if self.unknown.isdisjoint(members[branch]) else guessed).append(branch)
        for free in filter(None, (known, guessed)):
            self._share(free, load, members, first=level is self.branches.levels[0])

    def _share(self, free: list[int], load: list[float], members: dict[int, list[int]], first: bool) -> None:
        """Give each worker a share of some branches of a level, beside its load."""
        problem, work = self.problem, self.branches.work
        even = (sum(load) + sum([work[branch] for branch in free])) / self.count
        votes = {branch: self._votes(members[branch]) for branch in free}
        if not first:
            wished = {branch: max(saved, key=saved.__getitem__, default=-1) for branch, saved in votes.items()}
            if self._by_wish(free, wished, load, even, members):
                return
            free.sort(key=wished.__getitem__)
        amounts = [work[branch] for branch in free]
        room = [max(even - load[(share + self.seed) % self.count], 0.0) for share in range(self.count)]
        shares = _equal_shares(amounts, room) if self.balance else _contiguous_shares(amounts, room)
        homes = self._homes(shares, [votes[branch] for branch in free])
        for share, home in zip(shares, homes, strict=True):
            for position in share:
                branch = free[position]
                allowed = problem.allowed.get(branch)
                one = home if allowed is None or home in allowed else min(allowed, key=load.__getitem__)
                load[one] += work[branch]
                for node in members[branch]:
                    self._place(node, one)

    def _by_wish(
        self,
        level: Sequence[int],
        wished: dict[int, int],
        load: list[float],
        even: float,
        members: dict[int, list[int]],
    ) -> bool:
        """Place a level's branches each where it reads from, if that is nearly balanced, and tell whether it was."""
        work, then = self.branches.work, list(load)
        for branch in level:
            then[wished[branch]] += work[branch]
        slack = UNEVEN_SHARE * sum(work.values()) / self.count
        if min(wished.values(), default=-1) < 0 or max(then) > even + slack or self.problem.allowed:
            return False
        for branch in level:
            for node in members[branch]:
                self._place(node, wished[branch])
        load[:] = then
        return True

    def _votes(self, nodes: Sequence[int]) -> dict[int, float]:
        """Return the seconds of transfers that each worker would save if it ran these nodes."""
        bounds, other, transfer = self.problem.edges_before
        saved: dict[int, float] = {}
        for node in nodes:
            for edge in range(bounds[node], bounds[node + 1]):
                home = self.worker[other[edge]]
                if home >= 0:
                    saved[home] = saved.get(home, 0.0) + transfer[edge]
        return saved

    def _homes(self, shares: Sequence[Sequence[int]], votes: Sequence[dict[int, float]]) -> list[int]:
        """Return the worker of each share: the one that saves most transfers; by index where none does."""
        wishes: list[tuple[float, int, int]] = []
        for share, positions in enumerate(shares):
            saved: dict[int, float] = {}
            for position in positions:
                for home, seconds in votes[position].items():
                    saved[home] = saved.get(home, 0.0) + seconds
            wishes += [(-seconds, share, home) for home, seconds in saved.items()]
        homes, taken = [-1] * len(shares), set[int]()
        for _, share, home in sorted(wishes):
            if homes[share] < 0 and home not in taken:
                homes[share] = home
                taken.add(home)
        rest = iter([one for index in range(self.count) if (one := (index + self.seed) % self.count) not in taken])
        return [next(rest) if home < 0 else home for home in homes]

    def _place(self, node: int, worker: int) -> None:
        self.of_group[self.problem.group[node]] = worker
        self.worker[node] = worker

    def _latest(self, order: Iterable[int], edges: EdgeLists) -> list[int]:
        """Return, per node, the latest branch along the edges, by its first node: what a fold has come to."""
        bounds, other, _ = edges
        branches, first = self.branches, self.branches.first
        latest = [-1] * len(self.worker)
        for node in order:
            if branches.heavy[node]:
                latest[node] = first[branches.of(node)]
            else:
                latest[node] = max([latest[other[edge]] for edge in range(bounds[node], bounds[node + 1])], default=-1)
        return latest

    def _follow(self, order: Iterable[int], edges: EdgeLists, latest: Sequence[int]) -> None:
        """Place nodes without a worker where most comes from along the edges; of equal workers, where the latest branch
        is: the node of a fold goes to the branch that it adds."""
        bounds, other, transfer = edges
        group, allowed = self.problem.group, self.problem.allowed
        for node in order:
            if self.worker[node] >= 0:
                continue
            if group[node] in self.of_group:
                self.worker[node] = self.of_group[group[node]]
                continue
            gains: dict[int, tuple[float, int]] = {}
            some = allowed.get(group[node])
            for edge in range(bounds[node], bounds[node + 1]):
                home = self.worker[other[edge]]
                if home >= 0 and (some is None or home in some):
                    seconds, branch = gains.get(home, (0.0, -1))
                    gains[home] = seconds + transfer[edge], max(branch, latest[other[edge]])
            if self.gather and len(gains) > 1 and (some is None or self.hub in some):
                self._place(node, self.hub)
            elif gains:
                self._place(node, max(gains, key=gains.__getitem__))
            elif some is not None:
                self._place(node, some[0])

    def _settle(self, order: Iterable[int]) -> None:
        """Move light nodes that are free to the worker with which they exchange most, if that is more than now."""
        problem, worker = self.problem, self.worker
        sides = (problem.edges_before, problem.edges_after)
        for node in order:
            if self.branches.heavy[node] or not self.alone[node]:
                continue
            if problem.fixed[node] >= 0 or node in problem.allowed:
                continue
            exchanged: dict[int, float] = {worker[node]: 0.0}
            for bounds, other, transfer in sides:
                for edge in range(bounds[node], bounds[node + 1]):
                    home = worker[other[edge]]
                    exchanged[home] = exchanged.get(home, 0.0) + transfer[edge]
            best = max(exchanged, key=exchanged.__getitem__)
            if exchanged[best] > exchanged[worker[node]]:
                worker[node] = best


def _equal_shares(work: Sequence[float], room: Sequence[float]) -> list[list[int]]:
    """Return the positions of each share: the longest first, each to the share with most room."""
    left = list(room)
    shares: list[list[int]] = [[] for _ in room]
    for position in sorted(range(len(work)), key=lambda one: (-work[one], one)):
        share = max(range(len(left)), key=left.__getitem__)
        shares[share].append(position)
        left[share] -= work[position]
    return [sorted(share) for share in shares]


def _contiguous_shares(work: Sequence[float], room: Sequence[float]) -> list[range]:
    """Return the positions of each share, in order: in proportion to `room`, or with the least possible longest share
    where that is shorter."""
    whole, space = sum(work), sum(room)
    shares = len(room)
    if space <= 0.0:
        room, space = [1.0] * shares, float(shares)
    ends: list[int] = []
    place, done, filled = 0, 0.0, 0.0
    for one in room:
        filled += one / space * whole
        while place < len(work) and done + 0.5 * work[place] <= filled:
            done += work[place]
            place += 1
        ends.append(place)
    ends[-1] = len(work)
    even = _ranges(ends)
    longest = _longest(even, work)
    if min(room) < max(room):
        return even
    best = _ranges(_bottleneck_ends(work, shares))
    return best if NEARLY_EVEN * _longest(best, work) < longest else even


def _bottleneck_ends(work: Sequence[float], shares: int) -> list[int]:
    """Return the ends of contiguous shares of which the longest is as short as possible."""

    def ends(limit: float) -> list[int]:
        found: list[int] = []
        filled = 0.0
        for position, one in enumerate(work):
            if filled > 0.0 and filled + one > limit:
                found.append(position)
                filled = 0.0
            filled += one
        return [*found, len(work)]

    low, high = max(max(work, default=0.0), sum(work) / shares), sum(work)
    for _ in range(30):
        middle = 0.5 * (low + high)
        if len(ends(middle)) <= shares:
            high = middle
        else:
            low = middle
    found = ends(high)
    return found + [len(work)] * (shares - len(found))


def _ranges(ends: Sequence[int]) -> list[range]:
    return [range(begin, end) for begin, end in zip((0, *ends), ends, strict=False)]


def _longest(shares: Sequence[range], work: Sequence[float]) -> float:
    return max(sum([work[position] for position in share]) for share in shares)
