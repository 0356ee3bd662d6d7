"""Plans that are revised while they run, on the threads of this process; `ray/test_revision.py` does the same on
actors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from raygrad.autograd.functions.function import Function
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.scheduler.model.costs import Costs
from raygrad.workers.executors.calls import KeptExternal
from raygrad.workers.executors.inprocess import InProcessExecutor

STEP = 0.1
"""Predicted seconds of a branch."""


class Branch(Function):
    """Sleeps as long as its operand says; returns the next number."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        time.sleep(float(x.numpy()[0]))
        return Tensor(np.array([0.0, x.numpy()[1] + 1, 0.0, 0.0]))


@pytest.fixture
def session(open_session: Callable[..., Any]) -> Any:
    one = open_session(InProcessExecutor(2))
    one.driver.planner.use_costs(Costs(epoch=1, function_seconds=STEP))
    return one


def submitted(session: Any, graphs: Any) -> tuple[int, list[int]]:
    """Submit an ensemble with one slow branch; return its run and the values of its branches."""
    seconds = [5 * STEP] + [STEP] * 7
    name = session.learn(Branch)
    g = graphs(len(seconds))
    made = [g.call(name, number) for number in range(len(seconds))]
    for value in made:  # each branch is awaited on the other worker, so that it is a segment of its own
        for worker in range(2):
            g.mul(value, value, pin=worker)
    g.keep(*made)
    return session.submit(g.graph(), *[np.array([one, k, 0.0, 0.0]) for k, one in enumerate(seconds)]), made


def test_a_run_behind_it_that_has_failed_meanwhile_is_withdrawn_with_it(session: Any, graphs: Any):
    run, made = submitted(session, graphs)
    later = graphs(1)
    later.keep(later.mul(0, 0))
    second = session.submit(later.graph(), KeptExternal(run, made[3]))
    session.driver.abandon(second)
    session.wait(run)
    assert ("replanned", run) in session.log.told
    assert [int(session.driver.read(run, value)[1]) for value in made] == list(range(1, 9))


def test_the_programs_of_a_revised_plan_are_forgotten_with_its_run(session: Any, graphs: Any):
    workers = session.executor._workers
    for _ in range(2):
        run, _ = submitted(session, graphs)
        session.wait(run)
        assert ("replanned", run) in session.log.told
        plan = session.log.plans[run]
        for worker in workers:
            assert not [key for key in (*worker.programs, *worker.host._sources) if key.startswith(plan.hash)]
            assert worker.programs == set(worker.host._sources)
        assert not [key for key in session.executor._heavy._ran if key.startswith(plan.hash)]
