"""Which code is blamed when a worker dies."""

from __future__ import annotations

from typing import Any, cast

from raygrad.proto.ir.graph import Graph
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, OnWorker
from raygrad.scheduler.planning.planner import make_plan
from raygrad.workers.executors.calls import LocatedExternal, SuppliedExternal
from raygrad.workers.executors.lost_work import LostWork
from raygrad.workers.executors.run_state import RunState

from ...scheduler.conftest import Builder


def graph() -> Graph:
    """Two ops on worker 0, which the third, on worker 1, and the fourth, on worker 0 again, wait for."""
    build = Builder()
    first = build.op("sin", 0, pin=0)
    other = build.op("cos", first, pin=1)
    last = build.op("tan", other, pin=0)
    build.keep_on_worker(last)
    return build.graph()


def submitted(*externals: SuppliedExternal | LocatedExternal) -> RunState:
    planned = make_plan(graph(), (-1,), Costs(op_seconds=1.0), Cluster.of(2), 0, b"")
    assert [one.worker for one in planned.plan.segments] == [0, 1, 0]
    run = RunState(planned, externals)
    run.remembered = True
    run.sent = dict.fromkeys(range(3), (0.0, 0.0))
    return run


def test_a_death_is_the_fault_of_what_could_run_and_of_nothing_else_that_was_sent():
    first = submitted(SuppliedExternal(None))
    (kept,) = first.planned.plan.kept
    second = submitted(LocatedExternal(0, kept, OnWorker(0, 2), 0))
    runs = {0: first, 1: second}
    workers: Any = type("Workers", (), {"cluster": Cluster.of(2)})
    lost = LostWork(workers, cast(Any, None), runs, lambda *_: None)

    lost.worker_lost(0, died=True)
    assert (dict(first.kills), dict(second.kills)) == ({0: 1}, {})
    assert [*first.sent] == [*second.sent] == [1], "what the other worker was sent"

    first.sent[2] = second.sent[0] = (0.0, 0.0)
    first.done = {0, 1}
    lost.worker_lost(0, died=True)
    assert (dict(first.kills), dict(second.kills)) == ({0: 1, 2: 1}, {})

    second.sent[0] = second.sent[2] = (0.0, 0.0)
    first.done = {0, 1, 2}
    lost.worker_lost(0, died=True)
    assert (dict(first.kills), dict(second.kills)) == ({0: 1, 2: 1}, {0: 1})

    second.sent[2] = (0.0, 0.0)
    lost.worker_lost(0, died=True)
    assert sum(second.kills.values()) == 1, "it waited for worker 1"
