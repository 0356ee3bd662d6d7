"""Nodes are placed where the memory is that each needs by itself."""

from dataclasses import replace

import pytest

from raygrad.errors import PlanError
from raygrad.proto.ir.specs import LIVE, ArraySpec, ContextSpec
from raygrad.scheduler.memory.feasible_workers import feasible_workers, workers_with_more_memory
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.planning.planner import make_plan

COSTS = Costs()


def of(graph, limits, gpu_limits=None):
    cluster = Cluster.of(len(limits)).limited(limits, gpu_limits)
    return feasible_workers(PricedGraph(graph, COSTS), cluster), cluster


def worker_of(graph, cluster, seed=0):
    return make_plan(graph, (-1,) * len(graph.externals), COSTS, cluster, seed, b"").plan.node_worker


def two_sizes(builder, pin=-1):
    """A node with arrays of 8,000 bytes and one with arrays of 80."""
    build = builder(externals=1, size=1000)
    small = build.spec(ArraySpec((10,), "float64"))
    build.externals.append(small)
    build.op("exp", 0, pin=pin)
    build.op("exp", 1, spec=small)
    return build.graph()


def test_a_node_is_for_workers_that_hold_what_it_reads_and_makes(builder):
    graph = two_sizes(builder)
    found, cluster = of(graph, [15_999, 16_000, None])
    assert found == {0: frozenset({1, 2})}
    assert worker_of(graph, cluster)[0] != 0


@pytest.mark.parametrize("seed", range(4))
def test_a_plan_goes_where_there_is_room_whatever_the_seed(builder, seed):
    for limits in ([1_000, 20_000, 1_000], [20_000, 1_000, 1_000], [1_000, 1_000, None]):
        home = max(range(3), key=lambda worker: limits[worker] or 10**9)
        assert worker_of(two_sizes(builder), Cluster.of(3).limited(limits), seed)[0] == home


def test_an_array_that_is_read_twice_counts_once(builder):
    build = builder(externals=1, size=1000)
    build.op("mul", 0, 0)
    assert of(build.graph(), [16_000, 10**6])[0] == {}


def test_equal_limits_and_none_leave_nodes_where_they_may_be(builder):
    assert of(two_sizes(builder), [100, 100])[0] == {}
    assert of(two_sizes(builder), [None, None])[0] == {}


def test_what_fits_nowhere_is_refused_with_what_would_do(builder):
    graph = two_sizes(builder)
    found, cluster = of(graph, [1_000, 2_000])
    assert found == {}
    with pytest.raises(PlanError, match="needs memory=16000"):
        worker_of(graph, cluster)


def test_what_is_pinned_to_a_worker_without_room_is_refused(builder):
    graph = two_sizes(builder, pin=0)
    with pytest.raises(PlanError, match="worker 0 has memory=1000 and needs memory=16000"):
        worker_of(graph, Cluster.of(2).limited([1_000, 20_000]))


def test_the_vjp_of_a_function_needs_room_beside_its_context(builder):
    build = builder(externals=2, size=1000)
    context, value = build.function("f", 0)
    build.function_vjp("f", context, value, 1)
    graph = build.graph()
    found, cluster = of(graph, [18_000, 10**6])
    assert found[1] == frozenset({1})
    assert set(worker_of(graph, cluster)) == {1}


def test_each_memory_counts_by_itself(builder):
    build = builder(externals=1, size=1000)
    build.spec(replace(build.specs[1], device="cuda:0"))
    build.op("to_device", 0, spec=2)
    graph = build.graph()
    cluster = Cluster.of(2).limited([7_000, 9_000], None)
    assert feasible_workers(PricedGraph(graph, COSTS), cluster) == {0: frozenset({1})}


def test_a_node_is_placed_where_both_memories_suffice(builder):
    build = builder(externals=1, size=1000)
    build.spec(replace(build.specs[1], device="cuda:0"))
    build.op("to_device", 0, spec=2)
    graph = build.graph()
    cluster = Cluster(tuple(WorkerSpec(name, ("cpu", "cuda:0")) for name in "abc"))
    for limits in ([7_000, 9_000, 9_000], [9_000, 7_000, 9_000]):
        limited = cluster.limited(limits, [*reversed(limits[:2]), 9_000])
        assert feasible_workers(PricedGraph(graph, COSTS), limited) == {0: frozenset({2})}


def context_heavy(builder, count=6):
    """Functions whose contexts cannot be spilled, all alive at once before the first vjp."""
    build = builder(externals=1, size=1000)
    build.specs[0] = ContextSpec(40_000, LIVE)
    made = [build.function("f", 0) for _ in range(count)]
    total = made[0][1]
    for _, value in made[1:]:
        total = build.sum(total, value)
    for context, _ in made:
        build.function_vjp("f", context, total, 0)
    return build.graph()


def test_what_does_not_fit_together_is_placed_where_there_is_more_memory(builder):
    graph = context_heavy(builder)
    costs = Costs(hop_seconds=0.0, call_seconds=0.0, bandwidth=1e15)
    free = make_plan(graph, (-1,), costs, Cluster.of(2), 0, b"").plan
    assert set(free.node_worker) == {0, 1}
    limited = Cluster.of(2).limited([90_000, 10**6])
    assert set(make_plan(graph, (-1,), costs, limited, 0, b"").plan.node_worker) == {1}
    with pytest.raises(PlanError, match="worker 0 has memory=90000") as refusal:
        make_plan(graph, (-1,), costs, Cluster.of(2).limited(90_000), 0, b"")
    assert 0 in refusal.value.workers


def test_only_workers_with_more_memory_than_those_that_refused_are_tried():
    cluster = Cluster.of(3).limited([10, 20, 20])
    assert workers_with_more_memory(cluster, frozenset({0})) == {1, 2}
    assert workers_with_more_memory(cluster, frozenset({1})) == frozenset()
    assert workers_with_more_memory(cluster, frozenset({0, 1})) == frozenset()
    assert workers_with_more_memory(Cluster.of(2).limited([10, None]), frozenset({0})) == {1}
    assert workers_with_more_memory(Cluster.of(2).limited(None, [10, 20]), frozenset({0})) == {1}
    assert workers_with_more_memory(Cluster.of(2).limited(10), frozenset({0, 1})) == frozenset()
