"""Graphs of one worker beside runs that are under way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.planning import planner as planner_module
from raygrad.scheduler.planning.idle_worker import MAX_NODES, MIN_WAIT, consider_move, only_worker
from raygrad.scheduler.planning.planner import Planner

COSTS = Costs(op_seconds=0.05)
"""Each node is long."""


def sample(builder: Any) -> Any:
    """Return the graph of a sample: a chain of long work, whose result is added to a sum that runs before have made."""
    build = builder(externals=2)
    value = build.op("sin", 0)
    value = build.op("sin", value)
    build.keep_on_worker(build.sum(1, value))
    return build.graph()


def plans(builder: Any, workers: int = 2) -> tuple[Planner, Any]:
    graph = sample(builder)
    return Planner(Cluster.of(workers), COSTS), graph


def beside(planner: Planner, planned: Any, graph: Any, residency: Any, key: bytes, busy: Any, pending: Any) -> Any:
    """Return the plan beside runs that keep the workers `busy` and are yet to make `pending`."""
    return planner.plan_beside(planned, graph, residency, key, lambda: busy, lambda: pending)


def test_a_graph_runs_where_it_can_begin_first(builder: Any) -> None:
    planner, graph = plans(builder, workers=3)
    planned = planner.plan(graph, (-1, 0), b"key")
    assert set(planned.plan.node_worker) == {0}
    moved = beside(planner, planned, graph, (-1, 0), b"key", [0.2, 0.1, 0.15], frozenset({1}))
    assert set(moved.plan.node_worker) == {1}
    assert moved.plan.hash != planned.plan.hash
    assert beside(planner, planned, graph, (-1, 0), b"key", [0.2, 0.1, 0.15], frozenset({1})) is moved
    assert beside(planner, planned, graph, (-1, 0), b"key", [0.0, 0.1, 0.2], frozenset({1})) is planned


def test_a_short_wait_is_waited_for(builder: Any) -> None:
    planner, graph = plans(builder)
    planned = planner.plan(graph, (-1, -1), b"key")
    busy = [0.5 * MIN_WAIT, 0.0]
    assert beside(planner, planned, graph, (-1, -1), b"key", busy, frozenset()) is planned
    busy = [2.0 * MIN_WAIT, 0.0]
    assert beside(planner, planned, graph, (-1, -1), b"key", busy, frozenset()) is not planned


def test_what_waits_for_earlier_runs_on_any_worker_stays_where_it_is(builder: Any) -> None:
    planner, graph = plans(builder)
    planned = planner.plan(graph, (0, 0), b"key")
    assert beside(planner, planned, graph, (0, 0), b"key", [9.0, 0.0], frozenset({0})) is planned
    assert beside(planner, planned, graph, (0, 0), b"key", [9.0, 0.0], frozenset({1})) is not planned


def test_moving_has_to_pay_for_the_transfer(builder: Any) -> None:
    graph = sample(builder)
    planner = Planner(Cluster.of(2), Costs(op_seconds=0.05, hop_seconds=0.08))
    planned = planner.plan(graph, (0, 0), b"key")
    assert beside(planner, planned, graph, (0, 0), b"key", [0.085, 0.0], frozenset({1})) is planned
    assert beside(planner, planned, graph, (0, 0), b"key", [0.1, 0.0], frozenset({1})) is not planned


def test_a_plan_of_several_workers_and_a_limited_cluster_stay_as_they_are(builder: Any) -> None:
    build = builder(externals=2)
    for value in (0, 1):
        for _ in range(20):
            value = build.op("sin", value)
    graph = build.graph()
    planner = Planner(Cluster.of(2), COSTS)
    planned = planner.plan(graph, (-1, -1), b"key")
    assert only_worker(planned.plan) == -1
    assert beside(planner, planned, graph, (-1, -1), b"key", [9.0, 0.0], frozenset()) is planned
    limited = Planner(Cluster(tuple([WorkerSpec(name, memory=10**6) for name in "ab"])), COSTS)
    graph = sample(builder)
    planned = limited.plan(graph, (-1, -1), b"key")
    assert beside(limited, planned, graph, (-1, -1), b"key", [9.0, 0.0], frozenset()) is planned


@pytest.mark.parametrize("why", ["pinned", "near", "device"])
def test_a_graph_that_has_to_stay_stays(builder: Any, why: str) -> None:
    build = builder(externals=2)
    if why == "device":
        build.specs[1] = replace(build.specs[1], device="cuda:0")
    build.op("sin", 1, pin=0 if why == "pinned" else -1, near=0 if why == "near" else -1)
    graph = build.graph()
    cluster = Cluster((WorkerSpec("a", devices=("cpu", "cuda:0")), WorkerSpec("b")))
    move = consider_move(PricedGraph(graph, COSTS), (0, -1), cluster, COSTS, 1, frozenset())
    assert move.gain == 0.0


def test_an_empty_or_a_large_plan_has_no_only_worker(builder: Any) -> None:
    planner = Planner(Cluster.of(1), COSTS)
    empty = builder().graph()
    assert only_worker(planner.plan(empty, (-1,), b"empty").plan) == -1
    build = builder()
    value = 0
    for _ in range(MAX_NODES + 1):
        value = build.op("sin", value)
    assert only_worker(planner.plan(build.graph(), (-1,), b"large").plan) == -1


def test_the_least_recently_made_moves_are_forgotten(builder: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(planner_module, "PLANS_KEPT", 2)
    planner, graph = plans(builder)
    planned = planner.plan(graph, (-1, -1), b"key")
    moved = [beside(planner, planned, graph, (-1, -1), key, [9.0, 0.0], frozenset()) for key in (b"1", b"2", b"3")]
    again = [beside(planner, planned, graph, (-1, -1), key, [9.0, 0.0], frozenset()) for key in (b"3", b"2", b"1")]
    assert [again[0] is moved[2], again[1] is moved[1], again[2] is moved[0]] == [True, True, False]


@pytest.mark.parametrize(("long", "cuts"), [(0.05, [False, True]), (0.002, [True])])
def test_long_work_does_not_wait_for_what_an_earlier_run_makes_on_its_worker(
    builder: Any, long: float, cuts: list[bool]
) -> None:
    planned = Planner(Cluster.of(2), Costs(op_seconds=long)).plan(sample(builder), (0, 0), b"key")
    assert only_worker(planned.plan) == 0
    merged = [1 in segment.externals for segment in planned.plan.segments]
    assert merged[-len(cuts) :] == cuts
    assert not any(merged[:-1])


def test_a_value_of_an_earlier_run_is_waited_for_once(builder: Any) -> None:
    build = builder(externals=2)
    value = build.op("sin", 0)
    for _ in range(6):
        value = build.sum(1, build.op("sin", value))
    planned = Planner(Cluster.of(2), COSTS).plan(build.graph(), (0, 0), b"key")
    assert [segment.nodes for segment in planned.plan.segments] == [(0, 1), tuple(range(2, 13))]


def test_one_worker_alone_has_nothing_to_wait_for(builder: Any) -> None:
    planned = Planner(Cluster.of(1), COSTS).plan(sample(builder), (0, 0), b"key")
    assert [segment.nodes for segment in planned.plan.segments] == [(0, 1, 2)]


def test_long_work_does_not_wait_for_an_external_that_another_run_may_have_to_make(builder: Any) -> None:
    planner, graph = plans(builder)
    planned = planner.plan(graph, (-1, 0), b"key")
    moved = beside(planner, planned, graph, (-1, 0), b"key", [9.0, 0.0], frozenset({1}))
    assert [segment.nodes for segment in moved.plan.segments] == [(0, 1), (2,)]
    assert [segment.externals for segment in moved.plan.segments] == [(0,), (1,)]
