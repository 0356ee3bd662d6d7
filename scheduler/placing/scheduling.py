"""Scheduling of a task graph on a platform: the placement algorithm by itself, without specs, segments or sessions.

`clustered_planner` and the benchmarks call `schedule`, a pure function of (graph, platform, seed).
"""

from __future__ import annotations

import numpy as np

from raygrad.errors import PlanError

from ..model.critical_path import lower_bound
from ..model.dag import Dag, Platform, Schedule
from .draws import SeededRandom
from .problem import problem_of_dag
from .refining import FoundSchedule, ScheduleSearch

PASSES = 32
"""Passes over a graph of any size, at about 4 µs per node each."""
NODE_VISITS = 40_000
"""Node visits for additional passes: small graphs are searched more thoroughly, within a fraction of a second."""

MIN_PASSES, SPEEDS_PER_HALVING = 4, 8
"""The least number of passes, and the number of different speeds that halves it: a pass takes time in proportion."""
GOOD_ENOUGH, NEARLY_GOOD = 1.002, 1.03
"""Factors on the lower bound: a makespan below the first ends the search, one below the second after half of it."""


def schedule(dag: Dag, platform: Platform, seed: int = 0) -> Schedule:
    """Return a schedule, no longer than HEFT's but for idle gaps beyond `listing.MAX_GAPS` in graphs of many nodes.

    Raises PlanError if there are no workers.
    """
    if not len(platform):
        raise PlanError("the platform has no workers")
    if not len(dag):
        return Schedule(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    problem = problem_of_dag(dag, platform)
    bound = lower_bound(dag, platform)
    search = ScheduleSearch(problem, SeededRandom(seed), target=bound * GOOD_ENOUGH)
    paces = len(set(problem.pace))  # the time of a pass grows with them
    passes = max(
        MIN_PASSES, min(PASSES + NODE_VISITS // len(dag), PASSES + 4 * len(dag)) // (1 + paces // SPEEDS_PER_HALVING)
    )
    search.start(passes)
    search.refine(passes // 2)
    if search.best.listed.makespan > NEARLY_GOOD * bound:
        search.refine(passes)
    return as_schedule(dag, platform, search.best)


def as_schedule(dag: Dag, platform: Platform, found: FoundSchedule) -> Schedule:
    """Return a schedule that the search found, with times that run forwards."""
    worker = np.array(found.listed.worker, np.int64)
    finish = np.array(found.listed.finish)
    took = dag.seconds / platform.speed[worker]
    if found.backwards:
        start = found.listed.makespan - finish
        return Schedule(worker, start, start + took)
    return Schedule(worker, finish - took, finish)
