"""Plans that are revised while they run, on the threads of this process; `ray/test_revision.py` does the same on
actors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from raygrad.scheduler.model.costs import Costs
from raygrad.workers.executors.calls import KeptExternal
from raygrad.workers.executors.inprocess import InProcessExecutor

from .ensembles import numbers, submitted

STEP = 0.1
"""Predicted seconds of a branch."""

SECONDS = [5 * STEP] + [STEP] * 7


@pytest.fixture
def session(open_session: Callable[..., Any]) -> Any:
    one = open_session(InProcessExecutor(2))
    one.driver.planner.use_costs(Costs(epoch=1, function_seconds=STEP))
    return one


def test_a_run_behind_it_that_has_failed_meanwhile_is_withdrawn_with_it(session: Any, graphs: Any):
    run, made = submitted(session, graphs, SECONDS)
    later = graphs(1)
    later.keep(later.mul(0, 0))
    second = session.submit(later.graph(), KeptExternal(run, made[3]))
    session.driver.abandon(second)
    session.wait(run)
    assert ("replanned", run) in session.log.told
    assert numbers(session, run, made) == list(range(1, 9))


def test_the_programs_of_a_revised_plan_are_forgotten_with_its_run(session: Any, graphs: Any):
    workers = session.executor._workers
    for _ in range(2):
        run, _ = submitted(session, graphs, SECONDS)
        session.wait(run)
        assert ("replanned", run) in session.log.told
        plan = session.log.plans[run]
        for worker in workers:
            assert not [key for key in (*worker.programs, *worker.host._sources) if key.startswith(plan.hash)]
            assert worker.programs == set(worker.host._sources)
        assert not [key for key in session.executor._heavy._ran if key.startswith(plan.hash)]
