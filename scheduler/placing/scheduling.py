"""Scheduling of a task graph on a platform: the placement algorithm by itself, without specs, segments or sessions.

`clustered_planner` and the benchmarks call `schedule`, a pure function of (graph, platform, seed).
"""

from __future__ import annotations

import numpy as np

from raygrad.errors import PlanError

from ..model.dag import Dag, Platform, Schedule, lower_bound
from .draws import SeededRandom
from .problem import problem_of_dag
from .refining import FoundSchedule, ScheduleSearch

PASSES = 32
"""Passes over a graph of any size, at about 4 µs per node each."""
NODE_VISITS = 40_000
"""Nodes visited on top of that: small graphs are searched more thoroughly, within a fraction of a second."""

MIN_PASSES, SPEEDS_PER_HALVING = 4, 8
"""Passes that are always made, and the number of different speeds from which on half as many are made as else, and so
on: a pass takes the longer, the more speeds there are."""
GOOD_ENOUGH, NEARLY_GOOD = 1.002, 1.03
"""Of the lower bound: a schedule as short as that is not searched any further, at all or after half of the passes."""


def schedule(dag: Dag, platform: Platform, seed: int = 0) -> Schedule:
    """Return a schedule, never a longer one than HEFT's but for gaps that a graph of thousands of nodes leaves unseen.

    Raises PlanError if there are no workers.
    """
    if not len(platform):
        raise PlanError("the platform has no workers")
    if not len(dag):
        return Schedule(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    problem = problem_of_dag(dag, platform)
    bound = lower_bound(dag, platform)
    search = ScheduleSearch(problem, SeededRandom(seed), target=bound * GOOD_ENOUGH)
    paces = len(set(problem.pace))  # what a pass takes grows with them
    passes = max(
        MIN_PASSES, min(PASSES + NODE_VISITS // len(dag), PASSES + 4 * len(dag)) // (1 + paces // SPEEDS_PER_HALVING)
    )
    search.start(passes)
    search.refine(passes // 2)
    if search.best.listed.makespan > NEARLY_GOOD * bound:
        search.refine(passes)
    return as_schedule(dag, platform, search.best)


def as_schedule(dag: Dag, platform: Platform, found: FoundSchedule) -> Schedule:
    """Return what a search found, with times that run forwards."""
    worker = np.array(found.listed.worker, np.int64)
    finish = np.array(found.listed.finish)
    took = dag.seconds / platform.speed[worker]
    if found.backwards:
        start = found.listed.makespan - finish
        return Schedule(worker, start, start + took)
    return Schedule(worker, finish - took, finish)
