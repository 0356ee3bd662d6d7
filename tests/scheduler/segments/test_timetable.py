from dataclasses import replace

import pytest

from raygrad.proto.ir.specs import ArraySpec
from raygrad.scheduler.model.costs import Costs, LinkCost
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.planning.planner import make_plan
from raygrad.scheduler.segments.timetable import predict_seconds, segment_loads
from raygrad.scheduler.simulation.simulate import simulate

COSTS = Costs(op_bandwidth=1e30)


def predicted(build, workers=2, residency=None):
    graph = build.graph()
    residency = (-1,) * len(graph.externals) if residency is None else residency
    return make_plan(graph, residency, COSTS, Cluster.of(workers), 0, b"").plan.predicted_seconds


def test_segments_of_one_worker_follow_each_other_and_others_wait_for_the_hop(builder):
    build = builder(size=1000)
    a = build.op("sin", 0, pin=0)
    build.op("sin", a, pin=1)
    once = COSTS.call_seconds + COSTS.op_seconds
    assert abs(predicted(build) - (2 * once + COSTS.transfer_seconds(8000))) < 1e-9


def test_values_that_travel_in_one_object_arrive_together(builder):
    build = builder(size=1_000_000)
    a, b = build.op("sin", 0, pin=0), build.op("cos", 0, pin=0)
    build.op("add", a, b, pin=1)
    least = 2 * COSTS.call_seconds + 3 * COSTS.op_seconds
    assert abs(predicted(build) - (least + COSTS.transfer_seconds(16_000_000))) < 1e-9


def test_an_external_on_another_worker_is_waited_for(builder):
    build = builder(size=1_000_000)
    build.op("sin", 0, pin=0)
    once = COSTS.call_seconds + COSTS.op_seconds
    assert abs(predicted(build, residency=(1,)) - (once + COSTS.transfer_seconds(8_000_000))) < 1e-9
    assert abs(predicted(build, residency=(0,)) - once) < 1e-9


FREE = Costs(call_seconds=0.0, hop_seconds=0.0, bandwidth=1e12, op_seconds=1.0, op_bandwidth=1e30)


def seconds_of(graph, costs, cluster=None):
    cluster = cluster or Cluster.of(2)
    residency = (-1,) * len(graph.externals)
    plan = make_plan(graph, residency, costs, cluster, 0, b"").plan
    assert plan.predicted_seconds == predict_seconds(
        plan.segments, segment_loads(plan.segments, PricedGraph(graph, costs)), residency, costs, cluster
    )
    return plan.predicted_seconds


def across(builder):
    """Two nodes of a second on two workers, the second of which reads what the first makes."""
    build = builder()
    build.op("sin", build.op("sin", 0, pin=0), pin=1)
    return build.graph()


def test_a_segment_starts_when_what_it_reads_has_come(builder):
    assert seconds_of(across(builder), FREE) == pytest.approx(2.0)
    costs = Costs(call_seconds=0.25, hop_seconds=0.5, bandwidth=64.0, op_seconds=1.0, op_bandwidth=1e30)
    assert seconds_of(across(builder), costs) == pytest.approx(2.0 + 2 * 0.25 + 0.5 + 32 / 64)


def test_a_worker_stores_what_it_exports_before_its_next_segment(builder):
    build = builder()
    a = build.op("sin", 0, pin=0)
    build.op("sin", a, pin=1)
    build.op("cos", a, pin=0)
    costs = replace(FREE, store_bandwidth=16.0)
    assert seconds_of(build.graph(), FREE) == pytest.approx(2.0)
    graph = build.graph()
    plan = make_plan(graph, (-1,), costs, Cluster.of(2), 0, b"")
    sizes = [segment.bytes_out for segment in plan.plan.segments if segment.worker == 0]
    assert sizes == [32, 0]
    assert seconds_of(graph, costs) == pytest.approx(1.0 + 32 / 16 + 1.0)
    shown = simulate(plan, Cluster.of(2), costs)
    assert shown.makespan == pytest.approx(plan.plan.predicted_seconds)


def test_calls_are_sent_one_by_one_and_the_record_comes_back(builder):
    build = builder(externals=2)
    build.op("sin", 0, pin=0)
    build.op("sin", 1, pin=1)
    costs = Costs(
        call_seconds=0.0, op_seconds=1.0, op_bandwidth=1e30, submit_seconds=0.1, send_seconds=0.5, return_seconds=0.25
    )
    assert seconds_of(build.graph(), costs) == pytest.approx(0.2 + 0.5 + 1.0 + 0.25)


def test_calls_take_no_less_than_they_cost_the_client(builder):
    build = builder(externals=2)
    build.op("sin", 0, pin=0)
    build.op("sin", 1, pin=1)
    costs = Costs(call_seconds=0.0, op_seconds=1.0, op_bandwidth=1e30, client_seconds=3.0)
    assert seconds_of(build.graph(), costs) == pytest.approx(6.0)
    assert seconds_of(build.graph(), replace(costs, client_seconds=0.25)) == pytest.approx(1.0)


def test_a_link_that_was_measured_counts_between_its_hosts(builder):
    workers = tuple(WorkerSpec(name, host=name) for name in ("a", "b"))
    costs = Costs(
        call_seconds=0.0, hop_seconds=9.0, op_seconds=1.0, op_bandwidth=1e30, links={("a", "b"): LinkCost(0.5, 32.0)}
    )
    assert seconds_of(across(builder), costs, Cluster(workers)) == pytest.approx(2.0 + 0.5 + 1.0)
    assert seconds_of(across(builder), costs, Cluster(workers[:1] * 2)) > 11.0


def test_a_large_value_that_the_client_gives_takes_its_time(builder):
    build = builder()
    build.externals = [build.spec(ArraySpec((1 << 20,), "float64"))]
    build.op("sin", 0, pin=1)
    build.op("sin", 0, pin=1)
    costs = Costs(call_seconds=0.0, op_seconds=1.0, op_bandwidth=1e30, give_bandwidth=float(1 << 20))
    assert seconds_of(build.graph(), costs) == pytest.approx(2.0 + 8.0)


def test_nothing_takes_no_time(builder):
    assert seconds_of(builder().graph(), Costs(return_seconds=1.0)) == 0.0
