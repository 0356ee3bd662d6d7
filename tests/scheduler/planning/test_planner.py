from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from raygrad.errors import PlanError
from raygrad.proto.codec.graphs import encode_graph
from raygrad.proto.ir.graph import Demand, structural_hash
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.measured_costs import MeasuredCosts
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.planning import planner as planner_module
from raygrad.scheduler.planning.planner import Planner, make_plan


def chain(builder, length):
    build = builder()
    value = 0
    for _ in range(length):
        value = build.op("sin", value)
    build.keep_on_worker(value)
    return build.graph()


def key(graph):
    return structural_hash(encode_graph(graph))


def test_h14_a_graph_is_planned_once_per_residency(builder):
    planner = Planner(Cluster.of(2))
    graph = chain(builder, 3)
    first = planner.plan(graph, (-1,), key(graph))
    assert planner.plan(chain(builder, 3), (-1,), key(graph)) is first
    assert planner.plan(graph, (1,), key(graph)) is not first
    assert (planner.hits, planner.misses) == (1, 2)


def test_h14_a_new_cluster_or_new_costs_make_new_plans(builder):
    planner = Planner(Cluster.of(2))
    graph = chain(builder, 3)
    first = planner.plan(graph, (-1,), key(graph))
    planner.use_cluster(Cluster.of(2))  # an equal one is no new epoch
    assert planner.plan(graph, (-1,), key(graph)) is first
    planner.use_cluster(Cluster.of(3))
    second = planner.plan(graph, (-1,), key(graph))
    assert len(second.plan.workers) == len(planner.cluster.workers) == 3
    planner.use_costs(replace(planner.costs, epoch=1, op_seconds=1.0))
    third = planner.plan(graph, (-1,), key(graph))
    assert third.plan.predicted_seconds > 3
    assert len({planned.plan.hash for planned in (first, second, third)}) == 3
    assert planner.misses == 3


def test_the_least_recently_used_plan_is_forgotten(builder, monkeypatch):
    monkeypatch.setattr(planner_module, "PLANS_KEPT", 2)
    planner = Planner(Cluster.of(1))
    one, two, three = (chain(builder, length) for length in (1, 2, 3))
    for graph in (one, two, one, three):
        planner.plan(graph, (-1,), key(graph))
    planner.plan(one, (-1,), key(one))
    assert planner.hits == 2
    planner.plan(two, (-1,), key(two))
    assert planner.misses == 4


def test_a_residency_that_is_not_that_of_the_graph_is_refused(builder):
    graph = chain(builder, 1)
    with pytest.raises(PlanError, match="0 residencies for 1 externals"):
        make_plan(graph, (), Costs(), Cluster.of(1), 0, b"")
    with pytest.raises(PlanError, match="none of the 1 workers"):
        make_plan(graph, (1,), Costs(), Cluster.of(1), 0, b"")


@pytest.mark.slow
@given(data=st.data())
def test_any_graph_is_planned_and_the_plan_is_consistent(graphs, data):
    graph = data.draw(graphs(pins=3))
    residency = data.draw(st.lists(st.integers(-1, 2), min_size=len(graph.externals), max_size=len(graph.externals)))
    plan, programs, _ = make_plan(graph, tuple(residency), Costs(), Cluster.of(3), 0, b"")
    assert len(programs) == len(plan.segments)
    assert sorted(index for segment in plan.segments for index in segment.nodes) == list(range(len(graph.nodes)))
    for index, node in enumerate(graph.nodes):
        assert node.pin in (-1, plan.node_worker[index])
    for number, segment in enumerate(plan.segments):
        assert all(plan.node_worker[index] == segment.worker for index in segment.nodes)
        assert all(source < number for source in (*segment.after, *(source for source, _ in segment.imports)))
        assert all(plan.segments[source].worker == segment.worker for source in segment.after)
        for source, export in segment.imports:
            assert number in plan.segments[source].exports[export].readers


@pytest.mark.slow
def test_twenty_thousand_nodes_are_planned_in_reasonable_time(builder):
    """No stopwatch: a plan that took quadratic time would run into the time limit of the test."""
    build = builder(externals=4)
    ends = list(range(4))
    for _ in range(5000):
        for branch in range(4):
            ends[branch] = build.op("sin", ends[branch], pin=branch % 2)
    graph = build.graph()
    plan, _, _ = make_plan(graph, (-1,) * 4, Costs(), Cluster.of(4), 0, b"")
    assert len(plan.node_worker) == 20_000


@pytest.mark.parametrize("large", [2, 20_000])
def test_what_a_node_of_a_graph_of_any_size_asks_for_is_obeyed(builder, monkeypatch, large):
    monkeypatch.setattr(planner_module, "CLUSTERED_FROM", large)
    graph = chain(builder, 3)._replace(demands=(Demand(1, "F", (("fpga", 2.0),)),))
    workers = tuple(WorkerSpec(f"worker {have}", resources=(("fpga", float(have)),)) for have in range(4))
    plan = Planner(Cluster(workers)).plan(graph, (-1,), key(graph)).plan
    assert plan.node_worker[1] in (2, 3)
    with pytest.raises(PlanError, match=r"node 1 \(sin\) cannot run: F asks for fpga 2, and no worker offers it"):
        make_plan(graph, (-1,), Costs(), Cluster(workers[:2]), 0, b"")


def test_costs_that_are_given_count_before_what_is_measured(builder):
    planner = Planner(Cluster.of(1), measured=MeasuredCosts())
    planner.use_costs(Costs(epoch=1, op_seconds=7.0))
    assert planner.costs.op_seconds == 7.0
    graph = chain(builder, 1)
    assert planner.plan(graph, (-1,), key(graph)).plan.predicted_seconds > 7


@pytest.mark.parametrize("large", [2, 20_000])
def test_the_hash_of_a_plan_stands_for_all_that_it_was_made_from(builder, monkeypatch, large):
    monkeypatch.setattr(planner_module, "CLUSTERED_FROM", large)
    graph = chain(builder, 3)
    usual: dict[str, Any] = {"residency": (-1,), "costs": Costs(), "cluster": Cluster.of(2), "seed": 0, "key": b"key"}
    changes: list[dict[str, Any]] = [
        {},
        {"residency": (1,)},
        {"costs": Costs(op_seconds=1.0)},
        {"cluster": Cluster.of(3)},
        {"seed": 1},
        {"key": b"other"},
    ]
    if large > len(graph.nodes):
        changes += [{"node_worker": (0, 0, 0)}, {"node_worker": (1, 1, 1)}]
    hashes = [make_plan(graph, **(usual | change)).plan.hash for change in changes]
    assert len(set(hashes)) == len(changes)
    assert make_plan(graph, **usual).plan.hash == hashes[0]


def test_plans_are_kept_by_each_part_of_their_key(builder):
    planner, graph = Planner(Cluster.of(2)), chain(builder, 1)
    first = planner.plan(graph, (-1,), b"one")
    made = [first, planner.plan(graph, (-1,), b"other"), planner.plan(graph, (0,), b"one")]
    planner.use_cluster(Cluster.of(3))
    made.append(planner.plan(graph, (-1,), b"one"))
    planner.use_costs(Costs(epoch=1))
    made.append(planner.plan(graph, (-1,), b"one"))
    assert len({id(one) for one in made}) == planner.misses == 5
    assert planner.plan(graph, (-1,), b"one") is made[-1]
