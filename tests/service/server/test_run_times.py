"""What a served session learns from its runs, of which their plans are known only there."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from raygrad.proto.ir.graph import Graph
from raygrad.proto.ir.program import Record, Timing
from raygrad.scheduler.model import costs_per_argument
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.measured_costs import MeasuredCosts, TimedRecord
from raygrad.scheduler.model.plan import Cluster, Plan
from raygrad.scheduler.planning.planner import make_plan
from raygrad.service.server.run_times import RunTimes

from ...workers.conftest import Graphs

CLUSTER = Cluster.of(1)


def planned(function: str = "") -> tuple[Graph, Plan]:
    """Return a graph of one node, of a built-in op or a user Function, and its plan."""
    g: Any = Graphs()
    g.keep(g.call(function, 0) if function else g.mul(0, 0))
    graph = g.graph()
    return graph, make_plan(graph, (-1,), Costs(), CLUSTER, 0, function.encode()).plan


def called(run: int, came: float) -> TimedRecord:
    timing = Timing(0.0, 0.0, came, 0.0, (), 0.0)
    record = Record(run, 0, 0, "worker 0", 7, came, "done", (), (), (), (), (), (), (), None, (), timing)
    return TimedRecord(record, 0.0, came)


def learned(*runs: tuple[str, int, float]) -> Any:
    """Return what is known of a plan after events of its runs: (what, run, seconds)."""
    graph, plan = planned()
    measured = MeasuredCosts()
    times = RunTimes(measured, CLUSTER.workers[0].host)
    for what, run, seconds in runs:
        match what:
            case "submitted":
                times.learn(CLUSTER)
                times.submitted(run, graph, plan)
            case "done":
                times.took(called(run, seconds))
                times.ended(run, well=True)
            case "failed":
                times.took(called(run, seconds))
                times.ended(run, well=False)
            case _:
                times.replanned(run, plan)
    times.learn(CLUSTER)
    assert not measured.kinds, "of nodes the client tells"
    return measured.span_of(plan)


def test_the_time_of_a_plan_is_that_of_its_runs() -> None:
    span = learned(*[(what, run, 1.0 + run) for run in range(3) for what in ("submitted", "done")])
    assert (span.count, span.ended, span.seconds) == (3, 2, 2.5)


def test_runs_that_others_were_beside_failed_or_were_planned_again_tell_no_time() -> None:
    beside = learned(("submitted", 1, 0.0), ("submitted", 2, 0.0), ("done", 1, 1.0), ("done", 2, 1.0))
    assert (beside.count, beside.measured) == (0, 2)
    failed = learned(("submitted", 1, 0.0), ("failed", 1, 1.0))
    assert (failed.count, failed.measured) == (0, 0)
    again = learned(("submitted", 1, 0.0), ("replanned", 1, 0.0), ("done", 1, 1.0))
    assert (again.count, again.measured) == (0, 1)


def shown_of(function: str, measured: MeasuredCosts) -> RunTimes:
    """Return what has learned, of a run under way, that a Function takes 3 s."""
    graph, plan = planned(function)
    times = RunTimes(measured, CLUSTER.workers[0].host)
    times.submitted(1, graph, plan)
    timing = Timing(0.0, 0.0, 3.0, 0.0, ((0, 0.0, 3.0),), 0.0)
    record = called(1, 3.0).record._replace(timing=timing, results=((0, b"large"),), emits=((0, 0, "e", b"large"),))
    times.took(TimedRecord(record, 0.0, 3.0))
    times.learn(CLUSTER)
    return times


def test_what_a_run_under_way_shows_of_a_function_is_known_before_it_has_ended() -> None:
    measured = MeasuredCosts()
    times = shown_of("f", measured)
    ((kind, shown),) = measured.early.items()
    assert shown.seconds == 3.0
    kept = times._runs[1].calls[0].record
    assert (kept.results, kept.emits, kept.timing.nodes) == ((), (), ()), "no more than the times"
    told = MeasuredCosts()
    told.use_data(measured.as_data() | {"nodes": {kind: [2.0, 0.0, 4.0, 2, False]}})
    measured.use_data(told.as_data())
    assert (measured.early, measured.kinds[kind].seconds) == ({}, 4.0), "the client's figure takes its place"


def test_code_that_is_another_at_each_step_leaves_no_figures_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs_per_argument, "MAX_KINDS", 3)
    measured = MeasuredCosts()
    for step in range(8):
        shown_of(f"f{step}", measured)
    assert len(measured.early) == 3
    told = MeasuredCosts()
    for step in range(8):
        nodes = {f"function @g{step} cpu 6>": [1.0, 0.0, 1.0, 2, False]}
        told.use_data(told.as_data() | {"nodes": nodes, "values": {}})
        measured.use_data(told.as_data())
    assert len(measured.early) + len(measured.kinds) == 3


@pytest.mark.usefixtures("often_switched_threads")
def test_runs_may_be_cancelled_by_another_thread_while_others_are_submitted() -> None:
    graph, plan = planned()
    times = RunTimes(MeasuredCosts(), CLUSTER.workers[0].host)

    def cancelled() -> None:
        for run in range(3000):
            times.ended(run, well=False)

    thread = threading.Thread(target=cancelled)
    thread.start()
    for run in range(3000):
        times.submitted(run, graph, plan)
        times.took(called(run, 1.0))
    thread.join()
    for run in range(3000):
        times.ended(run, well=False)
    assert times._runs == {}
