"""A check of schedules: that no node runs twice, too early, or beside another on its worker.

The benchmark of placement and the tests check every schedule by it.
"""

from __future__ import annotations

import numpy as np

from raygrad.errors import PlanError
from raygrad.scheduler.model.dag import Dag, Platform, Schedule


def check_schedule(schedule: Schedule, dag: Dag, platform: Platform) -> None:
    """Raise PlanError, saying where, unless every node runs once, for its time, after what it reads has come, and
    alone on its worker. Times may be off by rounding."""
    if not len(schedule.worker) == len(schedule.start) == len(schedule.finish) == len(dag):
        raise PlanError("a schedule must have one entry per node")
    if not len(dag):
        return
    if schedule.worker.min() < 0 or schedule.worker.max() >= len(platform):
        raise PlanError("a node is on no worker")
    slack = 1e-9 * max(schedule.makespan, 1e-300)
    wrong = np.flatnonzero(
        (schedule.start < -slack)
        | (np.abs(schedule.finish - schedule.start - dag.seconds / platform.speed[schedule.worker]) > slack)
    )
    if len(wrong):
        raise PlanError(f"node {wrong[0]} does not run for its time")
    crosses = schedule.worker[dag.source] != schedule.worker[dag.target]
    arrival = schedule.finish[dag.source] + np.where(crosses, dag.transfer * platform.slowness, 0.0)
    early = np.flatnonzero(schedule.start[dag.target] < arrival - slack)
    if len(early):
        raise PlanError(f"node {dag.target[early[0]]} starts before what node {dag.source[early[0]]} makes has come")
    order = np.lexsort((schedule.finish, schedule.start, schedule.worker))
    same = schedule.worker[order[1:]] == schedule.worker[order[:-1]]
    overlap = np.flatnonzero(same & (schedule.start[order[1:]] < schedule.finish[order[:-1]] - slack))
    if len(overlap):
        one, other = order[overlap[0]], order[overlap[0] + 1]
        raise PlanError(f"nodes {one} and {other} run at once on worker {schedule.worker[one]}")
