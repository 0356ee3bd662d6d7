from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from raygrad.errors import PlanError
from raygrad.proto.ir.specs import ArraySpec
from raygrad.scheduler.model.arrays import graph_arrays
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.placing.constraints import constraint_arrays, find_constraints

MIXED = Cluster((WorkerSpec("a"), WorkerSpec("b", ("cpu", "cuda:0")), WorkerSpec("c", ("cuda",))))


@pytest.mark.slow
@given(data=st.data())
def test_demands_are_those_that_constrain_finds(graphs, data):
    graph = data.draw(graphs(pins=3, least=1))
    devices = data.draw(st.lists(st.sampled_from(["cpu", "cuda"]), min_size=2, max_size=2))
    pairs = zip(graph.specs, devices, strict=True)
    specs = tuple(replace(one, device=device) if isinstance(one, ArraySpec) else one for one, device in pairs)
    graph = graph._replace(specs=specs)
    residency = data.draw(st.lists(st.integers(-1, 2), min_size=len(graph.externals), max_size=len(graph.externals)))
    cluster = data.draw(st.sampled_from([MIXED, Cluster.of(3), replace(MIXED, workers=MIXED.workers[:2])]))
    try:
        wanted = find_constraints(PricedGraph(graph, Costs()), residency, cluster)
    except PlanError as error:
        with pytest.raises(PlanError, match=re.escape(str(error))):
            constraint_arrays(graph_arrays(PricedGraph(graph, Costs())), residency, cluster)
        return
    found = constraint_arrays(graph_arrays(PricedGraph(graph, Costs())), residency, cluster)
    everyone = frozenset(range(len(cluster.workers)))
    assert found.bound.tolist() == wanted.group
    assert found.forced == bool(wanted.forced)
    for index, root in enumerate(wanted.group):
        options = found.allowed[found.demand[index]]
        forced = {wanted.forced[root]} if root in wanted.forced else everyone
        assert (everyone if options is None else {*options}) == forced & wanted.allowed.get(root, everyone)


def test_a_node_stays_on_the_worker_that_was_asked_for_though_its_memory_is_too_small(builder):
    build = builder(size=1000)
    build.op("sin", 0, pin=0)
    build.op("cos", 0)
    found = find_constraints(PricedGraph(build.graph(), Costs()), (-1,), Cluster.of(2).limited([1_000, 20_000]))
    assert found.forced == {0: 0}
    assert found.allowed == {1: frozenset({1})}


def test_nodes_are_not_tied_where_one_must_not_run_on_the_worker_that_the_other_must(builder):
    build = builder(externals=1)
    build.spec(ArraySpec((4,), "float64", "cuda:0"))
    build.op("to_device", 0, spec=2)
    build.op("sin", 0, pin=0)
    priced = PricedGraph(build.graph(), Costs())
    found = find_constraints(priced, (-1,), MIXED)
    assert (found.allowed, found.forced) == ({0: frozenset({1, 2}), 1: frozenset({0, 1})}, {1: 0})
    assert found.tied([(0, 1)]).group == [0, 1], "the worker that both may use is not the one that is asked for"


def test_an_open_ended_node_has_a_demand_of_its_own(builder):
    build = builder()
    build.function("f", 0)
    build.function("new", 0, outputs=0)
    found = constraint_arrays(graph_arrays(PricedGraph(build.graph(open_ended=True), Costs())), (-1,), Cluster.of(2))
    assert found.demand.tolist() == [0, 1]


def test_a_worker_that_does_not_exist_is_refused(builder):
    build = builder()
    build.op("sin", 0, pin=2, spec=build.spec(ArraySpec((2,), "float64")))
    with pytest.raises(PlanError, match=r"node 0 .* is pinned to worker 2, and there are workers 0 to 1"):
        constraint_arrays(graph_arrays(PricedGraph(build.graph(), Costs())), (-1,), Cluster.of(2))


def test_a_node_that_is_pinned_to_a_lost_worker_is_refused(builder):
    build = builder()
    build.op("sin", 0, pin=1)
    with pytest.raises(PlanError, match=r"must run on worker 1, as `rg.place` asks, which is lost"):
        find_constraints(PricedGraph(build.graph(), Costs()), (-1,), Cluster.of(2).without(1))
