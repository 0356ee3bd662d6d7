"""Plans that are revised while they run, on actors."""

from __future__ import annotations

import importlib.util
import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from raygrad.autograd.functions.function import Function
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.scheduler.model.costs import Costs
from raygrad.workers.executors.calls import KeptExternal
from raygrad.workers.executors.ray.executor import RayExecutor

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs raygrad[ray]")
pytestmark = [pytest.mark.ray, needs_ray]

STEP = 0.2
"""Predicted seconds of a branch."""


class Branch(Function):
    """Sleeps as long as its operand says; returns the next number, and where it ran."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        time.sleep(float(x.numpy()[0]))
        return Tensor(np.array([x.numpy()[1] + 1, float(os.getpid()), 0.0, 0.0]))


@pytest.fixture
def session(ray_running: None, share_session: Callable[..., Any]) -> Any:
    one = share_session(lambda: RayExecutor("ray", 2))
    one.driver.planner.use_costs(Costs(epoch=1, function_seconds=STEP))
    return one


def branches(session: Any, graphs: Any, seconds: list[float]) -> tuple[Any, list[int], list[Any]]:
    name = session.learn(Branch)
    g = graphs(len(seconds))
    made = [g.call(name, number) for number in range(len(seconds))]
    for value in made:  # each branch is awaited on the other worker, so that it is a segment of its own
        for worker in range(2):
            g.mul(value, value, pin=worker)
    g.keep(*made)
    given = [np.array([one, number, 0.0, 0.0]) for number, one in enumerate(seconds)]
    return g, made, given


def values(session: Any, run: int, made: list[int]) -> list[int]:
    return [int(session.driver.read(run, value)[0]) for value in made]


def test_of_an_ensemble_with_one_slow_branch_the_others_go_to_the_idle_worker(session: Any, graphs: Any):
    g, made, given = branches(session, graphs, [5 * STEP] + [STEP] * 7)
    for _ in range(2):
        run = session.submit(g.graph(), *given)
        session.wait(run)
        assert values(session, run, made) == list(range(1, 9))
        assert ("replanned", run) in session.log.told
        plan = session.log.plans[run]
        by_worker = Counter(plan.node_worker[:8])
        assert sorted(by_worker.values()) in ([1, 7], [2, 6])
        ran = [one for one in session.log.records if one.run == run]
        nodes = Counter(node for one in ran for node in plan.segments[one.segment].nodes)
        assert nodes == Counter(range(24))
        assert all(one.status == "done" for one in ran)


def test_runs_submitted_behind_it_read_what_was_moved(session: Any, graphs: Any):
    g, made, given = branches(session, graphs, [5 * STEP] + [STEP] * 7)
    first = session.submit(g.graph(), *given)
    follow = graphs(8)
    sums = [follow.mul(number, number) for number in range(8)]
    follow.keep(*sums)
    second = session.submit(follow.graph(), *[KeptExternal(first, value) for value in made])
    session.wait(second)
    assert values(session, first, made) == list(range(1, 9))
    assert values(session, second, sums) == [number * number for number in range(1, 9)]
    assert session.driver._machine.state.late_results == 0


def test_a_run_that_goes_as_predicted_is_left_alone(session: Any, graphs: Any):
    g, made, given = branches(session, graphs, [STEP] * 4)
    run = session.submit(g.graph(), *given)
    session.wait(run)
    assert values(session, run, made) == [1, 2, 3, 4]
    assert ("replanned", run) not in session.log.told
