"""What a plan would do and why, against plans small enough to reckon by hand, and against the planner's own figures."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from raygrad.proto.ir.specs import ArraySpec
from raygrad.scheduler.explain.explanation import Reason, explain_plan
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.planning.planner import make_plan

COSTS = Costs()
TWO = Cluster.of(2)


def explained(
    graph: Any, cluster: Cluster = TWO, residency: tuple[int, ...] | None = None, costs: Costs = COSTS
) -> Any:
    residency = (-1,) * len(graph.externals) if residency is None else residency
    plan = make_plan(graph, residency, costs, cluster, 0, b"key").plan
    return explain_plan(graph, residency, costs, cluster, plan), plan


def reasons(facts: Any) -> dict[int, Reason]:
    return dict(enumerate(facts.node_reason))


@pytest.fixture
def crossing(builder: Any) -> Any:
    """a on worker 0, b = f(a) on worker 1, c = g(b) on worker 0, with 800 bytes each way."""
    g = builder(size=100)
    g.op("c", g.op("b", g.op("a", 0, pin=0), pin=1), pin=0)
    return g.graph()


def test_the_timetable_waits_for_what_crosses(crossing: Any):
    facts, plan = explained(crossing)
    node, hop = plan.segments[0].predicted_seconds, COSTS.transfer_seconds(800)
    first, second, third = facts.segments
    assert first.start == 0.0
    assert first.end == pytest.approx(COSTS.call_seconds + node)
    assert second.start == pytest.approx(first.end + hop)
    assert third.start == pytest.approx(second.end + hop)
    assert facts.seconds == pytest.approx(third.end)
    assert [one.held_by for one in facts.segments] == [-1, 0, 1]
    assert facts.chain == (0, 1, 2)


def test_what_crosses_is_told_by_segment_and_in_sum(crossing: Any):
    facts, plan = explained(crossing)
    assert facts.moved == ((0, 0, 1, 800, 1), (1, 1, 2, 800, 1))
    assert facts.crossing_bytes == 1600 == plan.crossing_bytes


def test_what_an_earlier_run_left_elsewhere_crosses_too(builder: Any):
    g = builder(externals=2, size=100)
    g.op("a", 0, 1, pin=1)
    facts, _ = explained(g.graph(), residency=(0, 1))
    assert facts.moved == ((-1, 0, 0, 800, 1),)
    assert facts.segments[0].start == pytest.approx(COSTS.transfer_seconds(800))


def test_the_critical_path_is_the_longest_way_with_transfers(builder: Any):
    g = builder(size=100)
    a = g.op("a", 0, pin=0)
    beside = g.op("beside", g.op("beside", a, pin=0), pin=0)
    g.op("c", g.op("b", a, pin=1), beside, pin=1)
    facts, _ = explained(g.graph())
    each = COSTS.node_seconds(g.nodes[0], [g.specs[1]], [g.specs[1]])
    assert facts.critical == (0, 1, 2, 4)
    late = COSTS.node_seconds(g.nodes[4], [g.specs[1]] * 2, [g.specs[1]])
    assert facts.critical_seconds == pytest.approx(3 * each + late + COSTS.transfer_seconds(800))
    assert facts.work == pytest.approx(4 * each + late)


def test_reasons_name_pins_contexts_and_devices_first(builder: Any):
    g = builder()
    cuda = g.spec(ArraySpec((4,), "float64", "cuda:0"))
    context, out = g.function("f", 0, pin=0)
    g.function_vjp("f", context, out, 0)
    g.op("on the gpu", 0, spec=cuda)
    facts, _ = explained(g.graph(), Cluster((WorkerSpec("w0"), WorkerSpec("w1", ("cpu", "cuda:0")))))
    why = reasons(facts)
    assert (why[0], why[1], why[2]) == (Reason.PINNED, Reason.NEAR, Reason.DEVICE)
    assert {one.device for one in facts.segments} == {"cpu", "cuda:0"}


def test_one_worker_and_work_too_small_to_divide_are_reasons_of_their_own(builder: Any):
    g = builder()
    g.op("a", 0)
    one, _ = explained(g.graph(), Cluster.of(1))
    two, _ = explained(g.graph())
    assert reasons(one) == {0: Reason.ONLY}
    assert reasons(two) == {0: Reason.TOGETHER}


def test_a_node_follows_its_data_or_idle_time(builder: Any):
    g = builder(size=1000)
    left, right = g.function("f", 0, pin=0), g.function("f", 0, pin=1)
    g.function("joins", right[1], right[1])
    g.sum(left[1], right[1])
    graph = g.graph()
    facts, plan = explained(graph, costs=Costs(function_seconds=1.0))
    why = reasons(facts)
    assert plan.node_worker[2] == 1
    assert why[2] is Reason.READS
    assert why[3] is Reason.EARLIEST  # as much on either


def test_workers_that_do_nothing_are_listed(crossing: Any):
    facts, _ = explained(crossing, Cluster.of(3))
    assert [(one.name, one.segments, one.nodes) for one in facts.workers] == [
        ("worker 0", 2, 2),
        ("worker 1", 1, 1),
        ("worker 2", 0, 0),
    ]
    assert facts.workers[2].memory == (0, 0, 0)


def test_an_empty_graph_is_explained(builder: Any):
    facts, _ = explained(builder(externals=0).graph())
    assert (facts.segments, facts.critical, facts.chain, facts.seconds) == ((), (), (), 0.0)


@pytest.fixture(scope="module")
def any_graph(graphs: Any) -> Any:
    return graphs(pins=3, least=1)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), workers=st.integers(3, 4))
def test_any_plan_takes_as_long_as_its_timetable(any_graph: Any, data: Any, workers: int):
    graph = data.draw(any_graph)
    cluster = Cluster.of(workers)
    residency = tuple(data.draw(st.integers(-1, workers - 1)) for _ in graph.externals)
    facts, plan = explained(graph, cluster, residency)
    assert max(one.end for one in facts.segments) == pytest.approx(facts.seconds)
    assert facts.critical_seconds <= facts.seconds + 1e-12
    assert facts.work == pytest.approx(sum(one.predicted_seconds for one in plan.segments))
    assert sum(one.bytes for one in facts.moved) >= 0
    for one in facts.segments:
        assert sum(count for _, count in one.reasons) == len(one.nodes)
        assert one.held_by < one.index
    for worker in facts.workers:
        assert 0 <= worker.memory.saved <= worker.memory.bytes
