"""Branches of a graph: what an ensemble repeats, found without knowing how long its branches take.

A *branch* is a chain of heavy nodes, forward and backward, with all that depends on no other branch: one shot,
scenario, member or microbatch. `shares` divides the branches of one level of the graph over workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ..model.critical_path import EdgeLists
from ..model.disjoint_sets import find_root
from .problem import PlacementProblem

HEAVY_SHARE: Final = 0.9
"""Heavy nodes are the longest ones that take this share of the work together; all others are light."""
MIN_LEVEL_SHARE: Final = 1 / 16
"""The share of all work that the first level must have, else the graph is none of branches."""
MIN_DIVIDED: Final = 0.5
"""The share of all work that levels must have together."""
MAX_VISITS: Final = 6
"""Visits of each node, on average, in which levels are found; what is left then follows what it reads."""

NONE, SEVERAL = -1, -2
"""The heavy groups on one side of a node, where they are not a single one."""


class BranchLevel(NamedTuple):
    """The branches that begin at one level of a graph."""

    branches: list[int]
    joined: dict[int, int]
    """Per group that depends on a single one of them, that branch."""
    later: list[int]
    """The nodes that depend on several."""
    work: float
    """The seconds of all others."""


class Branches:
    """The branches of a graph, each a set of groups (`PlacementProblem.group`) with heavy nodes."""

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem = problem
        self.heavy = _heavy_nodes(problem.seconds)
        self.parent = list(range(len(problem)))
        """Per group, another one of its branch; `find_root` gives the branch."""
        self.first: dict[int, int] = {}
        """Per group with heavy nodes, the first of them; in program order."""
        self.work: dict[int, float] = {}
        """Per branch, the seconds of its heavy nodes."""
        self.feeders: dict[int, int] = {}
        """Per group that reads no heavy node, and that only one other group reads from: that group, of which it is the
        only feeder. It belongs to its branch."""
        for node, heavy in enumerate(self.heavy):
            if heavy:
                self.first.setdefault(problem.group[node], node)
        self._join_chains()
        self.levels = self._levels()
        """Per level, its branches in program order. Those of level 0 begin with no heavy node before them."""
        for node, heavy in enumerate(self.heavy):
            if heavy:
                branch = self.of(node)
                self.work[branch] = self.work.get(branch, 0.0) + problem.seconds[node]

    def of(self, node: int) -> int:
        """Return the branch of a heavy node."""
        return find_root(self.parent, self.problem.group[node])

    def _neighbours(self, order: Iterable[int], edges: EdgeLists) -> tuple[list[int], dict[int, int]]:
        """Return the heavy group from which each node is reached by light nodes alone, and the one from which each
        heavy group is reached, itself left out: along the given edges, each NONE, SEVERAL or a group."""
        bounds, other, _ = edges
        heavy, group = self.heavy, self.problem.group
        reached = [NONE] * len(heavy)
        by_group: dict[int, int] = {}
        for node in order:
            found = NONE
            for edge in range(bounds[node], bounds[node + 1]):
                one = other[edge]
                near = group[one] if heavy[one] else reached[one]
                if near != found and near != NONE:
                    found = near if found == NONE else SEVERAL
            reached[node] = found
            if heavy[node] and found not in (NONE, group[node]):
                known = by_group.get(group[node], NONE)
                by_group[group[node]] = found if known in (NONE, found) else SEVERAL
        return reached, by_group

    def _join_chains(self) -> None:
        """Join each group with the only one that reads from it, if that reads from no other, and find feeders."""
        read, source = self._neighbours(self.problem.order(), self.problem.edges_before)
        _, target = self._neighbours(reversed(self.problem.order()), self.problem.edges_after)
        feeds: dict[int, list[int]] = {}
        for group, first in self.first.items():
            reader = target.get(group, NONE)
            if reader >= 0 and source.get(reader) == group:
                self._join(group, reader)
            elif reader >= 0 and group not in source and read[first] == NONE:
                feeds.setdefault(reader, []).append(group)
        self.feeders = {groups[0]: reader for reader, groups in feeds.items() if len(groups) == 1}

    def _join(self, one: int, other: int) -> None:
        """Make one branch of two groups, unless their constraints differ."""
        fixed, allowed = self.problem.fixed, self.problem.allowed
        one, other = find_root(self.parent, one), find_root(self.parent, other)
        if one != other and fixed[one] == fixed[other] and allowed.get(one) == allowed.get(other):
            self.parent[max(one, other)] = min(one, other)

    def _levels(self) -> list[list[int]]:
        """Return the branches by level, none if they have too little of the work. Where a level has a branch for every
        worker, what depends on a single one of them belongs to it; all else begins branches of the next level."""
        left: Sequence[int] = self.problem.order()
        levels: list[list[int]] = []
        whole, divided, visits = sum(self.problem.seconds), 0.0, MAX_VISITS * len(left)
        while left and visits > 0:
            found = self._level(left, joins=True)
            visits -= len(left)
            if len(found.branches) >= len(self.problem.pace):
                for group, branch in found.joined.items():
                    self._join(branch, group)
            elif found.joined:
                found = self._level(left, joins=False)
                visits -= len(left)
            divided += found.work
            if not found.branches or divided < MIN_LEVEL_SHARE * whole:
                break
            levels.append(found.branches)
            left = found.later
        if divided < MIN_DIVIDED * whole:
            return []
        for group, reader in self.feeders.items():
            self._join(group, reader)
        return [list(dict.fromkeys([find_root(self.parent, branch) for branch in level])) for level in levels]

    def _level(self, left: Sequence[int], joins: bool) -> BranchLevel:
        """Return what begins among the given nodes."""
        bounds, other, _ = self.problem.edges_before
        group, seconds = self.problem.group, self.problem.seconds
        origin: dict[int, int] = {}
        level: dict[int, None] = {}
        joined: dict[int, int] = {}
        later: list[int] = []
        work = 0.0
        for node in left:
            found = NONE
            for edge in range(bounds[node], bounds[node + 1]):
                near = origin.get(other[edge], NONE)
                if near != found and near != NONE:
                    found = near if found == NONE else SEVERAL
            if self.heavy[node] and group[node] not in self.feeders:
                branch = self.of(node)
                if branch in joined:
                    found = joined[branch]
                elif found == NONE or branch in level:
                    level[branch] = None
                    found = branch
                elif joins and found >= 0:
                    joined[branch] = found
                else:
                    found = SEVERAL
            origin[node] = found
            if found == SEVERAL:
                later.append(node)
            else:
                work += seconds[node]
        return BranchLevel(list(level), joined, later, work)


def _heavy_nodes(seconds: Sequence[float]) -> list[bool]:
    """Return, per node, whether it is one of the longest, which take HEAVY_SHARE of the work."""
    left, least = (1.0 - HEAVY_SHARE) * sum(seconds), 0.0
    for one in sorted(seconds):
        left -= one
        least = one
        if left < 0.0:
            break
    return [one >= least > 0.0 for one in seconds]
