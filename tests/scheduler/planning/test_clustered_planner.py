from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.dag import Platform, Schedule, dag_of
from raygrad.scheduler.model.function_costs import KnownKind, KnownTime
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.placing.constraints import find_constraints
from raygrad.scheduler.planning import clustered_planner as large_module, planner as planner_module
from raygrad.scheduler.planning.clustered_planner import (
    ClusteredPlanner,
    PlacementStrategy,
    make_clustered_plan,
    replan_for_workers,
)
from raygrad.scheduler.planning.planner import Planner, make_plan
from raygrad.scheduler.segments.lowering import lower
from raygrad.scheduler.segments.segment_clusters import segment_clusters
from raygrad.scheduler.segments.segmenter import Block
from raygrad.scheduler.segments.transfers import plan_transfers

from ...baselines import check_schedule

KNOWN = {"@f": {"": KnownKind(KnownTime(Costs().function_overhead, 1.0, runs=3), {})}}
COSTS = Costs(call_seconds=1e-5, hop_seconds=5e-5, functions=KNOWN)
"""`f` takes as long as its prior says."""


def consistent(graph, plan, residency, cluster):
    """What must hold of every plan."""
    assert plan.workers == tuple(worker.name for worker in cluster.workers)
    assert sorted(index for segment in plan.segments for index in segment.nodes) == list(range(len(graph.nodes)))
    place = {node: at for at, node in enumerate(index for segment in plan.segments for index in segment.nodes)}
    priced = PricedGraph(graph, COSTS)
    for index, node in enumerate(graph.nodes):
        assert all(place[priced.maker[one]] < place[index] for one in node.inputs if one >= 0 <= priced.maker[one])
    if graph.open_ended:
        assert plan.segments[-1].nodes[-1] == len(graph.nodes) - 1
    for segment in plan.segments:
        assert all(plan.node_worker[index] == segment.worker for index in segment.nodes)
    constraints = find_constraints(priced, residency, cluster)
    for index, root in enumerate(constraints.group):
        worker = plan.node_worker[index]
        assert worker == plan.node_worker[root]
        assert worker == constraints.forced.get(root, worker)
        assert worker in constraints.allowed.get(root, [worker])
    crossing = plan_transfers(
        priced, [Block(segment.worker, list(segment.nodes)) for segment in plan.segments], residency
    )
    assert (plan.segments, plan.kept, plan.crossing_bytes) == crossing
    assert len(lower(graph, plan)) == len(plan.segments)


@pytest.mark.slow
@given(data=st.data())
def test_any_graph_is_planned_made_small(graphs, data):
    graph = data.draw(graphs(pins=data.draw(st.sampled_from([0, 3])), least=1))
    some = st.lists(st.integers(-1, 2), min_size=len(graph.externals), max_size=len(graph.externals))
    residency = tuple(data.draw(some))
    cluster = Cluster.of(3)
    nodes, most = data.draw(st.sampled_from([(2, 3), (6, 8), (40_000, 150_000)]))
    large = make_clustered_plan(graph, residency, COSTS, cluster, 0, b"", nodes, most)
    consistent(graph, large.plan, residency, cluster)
    assert make_clustered_plan(graph, residency, COSTS, cluster, 0, b"", nodes, most).plan == large.plan
    if not large.constraints.forced:
        fewer = Cluster(cluster.workers[:1] + cluster.workers[2:])
        residency = tuple(min(one, 1) for one in residency)
        if any(node.near in range(len(residency)) for node in graph.nodes):
            return
        again = data.draw(st.sampled_from([0, 10_000]))
        less = replan_for_workers(large, residency, COSTS, fewer, 0, b"", again)
        assert less is not None
        consistent(graph, less.plan, residency, fewer)
        more = replan_for_workers(less, residency, COSTS, cluster, 0, b"", again)
        assert more is not None
        consistent(graph, more.plan, residency, cluster)


def ensemble(builder, members=6, length=4):
    build = builder()
    build.keep_on_worker(*[member(build, length) for _ in range(members)])
    return build.graph()


def member(build, length):
    value = 0
    for _ in range(length):
        value = build.function("f", value)[1]
    return value


def test_members_of_an_ensemble_are_spread_and_taken_over(builder):
    graph, costs = ensemble(builder), Costs()
    large = make_clustered_plan(graph, (-1,), costs, Cluster.of(3), 0, b"")
    busy = [sum(segment.predicted_seconds for segment in large.plan.segments if segment.worker == w) for w in range(3)]
    assert busy == pytest.approx([busy[0]] * 3)
    two = Cluster(large.cluster.workers[1:])
    less = replan_for_workers(large, (-1,), costs, two, 0, b"")
    assert less is not None
    kept = [index for index, worker in enumerate(large.plan.node_worker) if worker]
    assert all(less.plan.node_worker[index] == large.plan.node_worker[index] - 1 for index in kept)
    assert sorted(map(less.plan.node_worker.count, range(2))) == [12, 12]  # a member to each
    assert less.plan.hash != large.plan.hash
    new = Cluster((*two.workers, WorkerSpec("new")))
    more = replan_for_workers(less, (-1,), costs, new, 0, b"")
    assert more is not None
    assert 2 in more.plan.node_worker
    assert more.plan.predicted_seconds < less.plan.predicted_seconds


def test_members_are_placed_again_in_the_way_that_was_best(builder, monkeypatch):
    graph, full = ensemble(builder, members=40), Cluster.of(20)
    large = make_clustered_plan(graph, (-1,), COSTS, full, 0, b"")
    tried: list[int] = []
    monkeypatch.setattr(large_module, "segment_clusters", lambda *given: tried.append(1) or segment_clusters(*given))
    less = replan_for_workers(large, (-1,), COSTS, Cluster(full.workers[:-1]), 0, b"", 10_000)
    assert less is not None
    assert (len(tried), less.strategy, less.changes) == (1, large.strategy, 1)
    consistent(graph, less.plan, (-1,), less.cluster)
    few = make_clustered_plan(graph, (-1,), COSTS, Cluster.of(3), 0, b"")
    tried.clear()
    replan_for_workers(
        few, (-1,), COSTS, Cluster.of(2), 0, b"", 10_000
    )  # a third of the workers: another way may be better
    assert len(tried) > 1
    for _ in range(large_module.MAX_CHANGES):
        assert large is not None
        cluster = Cluster(full.workers[:-1]) if large.cluster == full else full
        large = replan_for_workers(large, (-1,), COSTS, cluster, 0, b"", 10_000)
    assert large is not None
    assert replan_for_workers(large, (-1,), COSTS, Cluster(full.workers[1:]), 0, b"", 10_000) is None


def test_a_way_that_is_not_for_what_is_on_workers_by_now_gives_place_to_others(builder):
    graph, full = ensemble(builder, members=40), Cluster.of(20)
    large = replace(make_clustered_plan(graph, (-1,), COSTS, full, 0, b""), strategy=PlacementStrategy.SEARCHED)
    less = replan_for_workers(large, (4,), COSTS, Cluster(full.workers[:-1]), 0, b"", 10_000)
    assert less is not None
    assert less.strategy is not PlacementStrategy.SEARCHED
    consistent(graph, less.plan, (4,), less.cluster)


def layers(builder, width, depth):
    """Layers of Functions that each read two of the layer before, here and there."""
    build = builder(externals=width)
    before = list(range(width))
    for layer in range(depth):
        before = [
            build.function("f", before[one * 7 % width], before[(one * 11 + layer) % width])[1] for one in range(width)
        ]
    build.keep_on_worker(*before)
    return build.graph()


def carried_out(large, cluster):
    """Check that each block runs once, for its time, after what it reads has come, and alone on its worker."""
    blocks, flow, times = large.transfer_planner.blocks, large.transfers.flow, large.times
    work = np.bincount(blocks.home, large.transfer_planner.arrays.seconds, len(blocks.worker))
    apart = blocks.worker[flow.source] != blocks.worker[flow.reader]
    moved = np.where(apart, COSTS.hop_seconds + flow.size / COSTS.bandwidth, 0.0)
    dag = dag_of(work + COSTS.call_seconds, flow.source, flow.reader, moved)
    check_schedule(Schedule(blocks.worker, times.start, times.end), dag, Platform.of(len(cluster.workers)))


@pytest.mark.parametrize("again", [0, 10_000])
def test_plans_for_other_workers_are_nearly_as_good_as_fresh_ones(builder, again):
    graph = layers(builder, 200, 20)
    residency, full = (-1,) * 200, Cluster.of(20)
    large = make_clustered_plan(graph, residency, COSTS, full, 0, b"", 400, 2_000)
    for lost in (19, 3):
        fewer = Cluster(full.workers[:lost] + full.workers[lost + 1 :])
        fresh = make_clustered_plan(graph, residency, COSTS, fewer, 0, b"", 400, 2_000)
        less = replan_for_workers(large, residency, COSTS, fewer, 0, b"", again)
        assert less is not None
        assert less.plan.predicted_seconds <= 1.1 * fresh.plan.predicted_seconds
        carried_out(less, fewer)
        consistent(graph, less.plan, residency, fewer)
        twice = replan_for_workers(large, residency, COSTS, fewer, 0, b"", again)
        assert twice is not None
        assert twice.plan == less.plan
        more = replan_for_workers(less, residency, COSTS, full, 0, b"", again)
        assert more is not None
        assert more.plan.predicted_seconds <= min(less.plan.predicted_seconds, 1.1 * large.plan.predicted_seconds)
        carried_out(more, full)
        consistent(graph, more.plan, residency, full)


def test_what_does_not_have_to_move_stays(builder):
    graph = layers(builder, 200, 20)
    residency, full = (-1,) * 200, Cluster.of(20)
    large = make_clustered_plan(graph, residency, COSTS, full, 0, b"", 400, 2_000)
    less = replan_for_workers(large, residency, COSTS, Cluster(full.workers[1:]), 0, b"", 0)
    assert less is not None
    before = large.plan.node_worker
    assert all(was in (0, now + 1) for was, now in zip(before, less.plan.node_worker, strict=True))
    assert len(less.plan.segments) == len(large.plan.segments)


def test_what_cannot_be_made_again_is_made_afresh(builder):
    large = make_clustered_plan(ensemble(builder), (-1,), COSTS, Cluster.of(4), 0, b"")
    others = Cluster(tuple(WorkerSpec(f"other {index}") for index in range(4)))
    assert replan_for_workers(large, (-1,), COSTS, others, 0, b"") is None
    build = builder()
    build.op("sin", 0, pin=1)
    pinned = make_clustered_plan(build.graph(), (-1,), COSTS, Cluster.of(3), 0, b"")
    assert replan_for_workers(pinned, (-1,), COSTS, Cluster.of(2), 0, b"") is None
    planner = ClusteredPlanner()
    graph = ensemble(builder)
    for cluster, remade in ((Cluster.of(4), 0), (Cluster.of(3), 1), (others, 1), (Cluster.of(3), 1)):
        plan = planner.plan(graph, (-1,), COSTS, cluster, 0, b"")
        consistent(graph, plan, (-1,), cluster)
        assert planner.remade == remade


def test_for_the_only_worker_there_is_nothing_to_divide_and_for_others_it_is_planned_afresh(builder):
    build = builder()
    build.keep_on_worker(*[build.op("sin", build.op("cos", 0)) for _ in range(50)])
    graph, planner = build.graph(), ClusteredPlanner()
    alone = planner.plan(graph, (-1,), COSTS, Cluster.of(1), 0, b"")
    consistent(graph, alone, (-1,), Cluster.of(1))
    assert [one.nodes for one in alone.segments] == [tuple(range(100))]
    assert (
        planner.plan(graph, (-1,), COSTS, Cluster.of(2), 0, b"")
        == make_clustered_plan(graph, (-1,), COSTS, Cluster.of(2), 0, b"").plan
    )
    assert planner.remade == 0
    more = make_clustered_plan(graph, (-1,), replace(COSTS, more_come=True), Cluster.of(1), 0, b"")
    assert len(more.coarse.dag) > 1, "they are there to be divided later"


def test_the_planner_plans_large_graphs_so(builder, monkeypatch):
    monkeypatch.setattr(planner_module, "CLUSTERED_FROM", 20)
    graph = ensemble(builder)
    planner = Planner(Cluster.of(3), COSTS)
    planned = planner.plan(graph, (-1,), b"key")
    assert list(planned.programs) == list(lower(graph, planned.plan))
    assert planned.plan == make_plan(graph, (-1,), COSTS, Cluster.of(3), 0, b"key").plan
    planner.use_cluster(Cluster.of(2))
    assert planner.plan(graph, (-1,), b"key").plan.workers == ("worker 0", "worker 1")


@pytest.mark.parametrize("clustered_from", [20, 100_000])
def test_no_node_runs_on_a_lost_worker(builder, monkeypatch, clustered_from):
    monkeypatch.setattr(planner_module, "CLUSTERED_FROM", clustered_from)
    graph = ensemble(builder)
    planner = Planner(Cluster.of(4), COSTS)
    assert {*planner.plan(graph, (-1,), b"key").plan.node_worker} == {0, 1, 2, 3}
    for worker, left in ((1, {0, 2, 3}), (0, {2, 3}), (3, {2})):
        planner.use_cluster(planner.cluster.without(worker))
        planned = planner.plan(graph, (-1,), b"key")
        assert {*planned.plan.node_worker} == left
        consistent(graph, planned.plan, (-1,), planner.cluster)


def test_a_large_graph_under_memory_limits_is_planned_node_by_node(builder, monkeypatch):
    monkeypatch.setattr(planner_module, "CLUSTERED_FROM", 20)
    graph = ensemble(builder)
    peak = 13 * 4096 + 6 * 32
    cluster = Cluster(tuple(WorkerSpec(f"worker {index}", memory=peak) for index in range(2)))
    plan = Planner(cluster, COSTS).plan(graph, (-1,), b"key").plan
    assert plan == make_plan(graph, (-1,), COSTS, cluster, 0, b"key").plan
    assert max(plan.peaks[0][1]) <= peak
    consistent(graph, plan, (-1,), cluster)


def test_hash_of_a_plan_for_other_workers_names_the_plan_that_it_was_made_from(builder):
    """Blocks of two plans stay where they were, which is not the same place, when the same workers are left."""
    graph = ensemble(builder, members=8)
    residency = (-1,) * len(graph.externals)
    workers = Cluster.of(12).workers
    left = Cluster(workers[1:11])
    before = [Cluster(workers[:11]), Cluster(workers[1:])]
    firsts = [make_clustered_plan(graph, residency, Costs(), cluster, 0, b"key") for cluster in before]
    made: list[Any] = [replan_for_workers(first, residency, Costs(), left, 0, b"key") for first in firsts]
    fresh = make_clustered_plan(graph, residency, Costs(), left, 0, b"key")
    assert None not in made
    assert len({one.plan.hash for one in (*firsts, *made, fresh)}) == 5
    again: Any = replan_for_workers(firsts[0], residency, Costs(), left, 0, b"key")
    assert again.plan.hash == made[0].plan.hash
