"""Plans that are revised while they run, on actors."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from raygrad.scheduler.model.costs import Costs
from raygrad.workers.executors.calls import KeptExternal
from raygrad.workers.executors.ray.executor import RayExecutor

from ..ensembles import numbers, submitted

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs raygrad[ray]")
pytestmark = [pytest.mark.ray, needs_ray]

STEP = 0.2
"""Predicted seconds of a branch."""


@pytest.fixture
def session(ray_started: None, share_session: Callable[..., Any]) -> Any:
    one = share_session(lambda: RayExecutor("ray", 2))
    one.driver.planner.use_costs(Costs(epoch=1, function_seconds=STEP))
    return one


def test_of_an_ensemble_with_one_slow_branch_the_others_go_to_the_idle_worker(session: Any, graphs: Any):
    for _ in range(2):
        run, made = submitted(session, graphs, [5 * STEP] + [STEP] * 7)
        session.wait(run)
        assert numbers(session, run, made) == list(range(1, 9))
        assert ("replanned", run) in session.log.told
        plan = session.log.plans[run]
        by_worker = Counter(plan.node_worker[:8])
        assert by_worker[plan.node_worker[0]] < 4 < max(by_worker.values())  # half of them at first, each
        ran = [one for one in session.log.records if one.run == run]
        nodes = Counter(node for one in ran for node in plan.segments[one.segment].nodes)
        assert nodes == Counter(range(24))
        assert all(one.status == "done" for one in ran)


def test_runs_submitted_behind_it_read_what_was_moved(session: Any, graphs: Any):
    first, made = submitted(session, graphs, [5 * STEP] + [STEP] * 7)
    follow = graphs(8)
    sums = [follow.mul(number, number) for number in range(8)]
    follow.keep(*sums)
    second = session.submit(follow.graph(), *[KeptExternal(first, value) for value in made])
    session.wait(second)
    assert numbers(session, first, made) == list(range(1, 9))
    assert numbers(session, second, sums) == [number * number for number in range(1, 9)]
    assert session.driver._machine.state.late_results == 0


def test_a_run_that_goes_as_predicted_is_left_alone(session: Any, graphs: Any):
    run, made = submitted(session, graphs, [STEP] * 4)
    session.wait(run)
    assert numbers(session, run, made) == [1, 2, 3, 4]
    assert ("replanned", run) not in session.log.told
