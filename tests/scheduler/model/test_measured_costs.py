import json
from dataclasses import replace

import pytest

from raygrad.errors import CostsError
from raygrad.proto.ir.program import Record, Timing
from raygrad.proto.ir.specs import ArraySpec
from raygrad.scheduler.model.costs import Costs, LinkCost
from raygrad.scheduler.model.measured_costs import (
    MAX_FIRST_RUN_FACTOR,
    NEWEST_WEIGHT,
    SLOWER_WEIGHT,
    Estimate,
    MeasuredCosts,
    TimedRecord,
)
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.planning.planner import make_plan

CLUSTER = Cluster.of(2)
SIN, FUNCTION = "op sin cpu 6>6", "function @f cpu 6>"


def planned(graph):
    return make_plan(graph, (-1,) * len(graph.externals), Costs(), CLUSTER, 0, b"").plan


def called(segment, began=0.0, steps=1.0, nodes=(), sent=0.0, came=2.0, inputs=0.0, outputs=0.0, waited=0.0):
    timing = Timing(began, inputs, steps, outputs, tuple(nodes), waited)
    record = Record(1, segment, 0, "worker 0", 7, steps, "done", (), (), (), (), (), (), (), None, (), timing)
    return TimedRecord(record, sent, came)


def chain(builder, *pins):
    build = builder()
    value = 0
    for pin in pins:
        value = build.op("sin", value, pin=pin)
    build.keep_on_worker(value)
    return build.graph()


def test_a_long_node_is_measured_by_itself_and_the_others_share_the_rest(builder):
    build = builder()
    _, value = build.function("f", 0, pin=0)
    for _ in range(4):
        value = build.op("sin", value, pin=0)
    build.keep_on_worker(value)
    measured = MeasuredCosts()
    measured.take(build.graph(), planned(build.graph()), [called(0, steps=3.0, nodes=[(0, 0.0, 2.0)])], CLUSTER, "")
    assert measured.kinds[FUNCTION].seconds == pytest.approx(2.0)
    assert measured.kinds[SIN].seconds == pytest.approx(0.25)
    assert measured.runs == 1


def test_what_a_segment_waited_for_other_threads_is_no_node_s_time(builder):
    build = builder()
    build.keep_on_worker(build.op("sin", build.op("sin", 0, pin=0), pin=0))
    measured = MeasuredCosts()
    measured.take(build.graph(), planned(build.graph()), [called(0, steps=3.0, waited=2.5)], CLUSTER, "")
    assert measured.kinds[SIN].seconds == pytest.approx(0.25)


def test_short_nodes_share_their_time_as_was_expected_of_them(builder):
    build = builder()
    large = build.spec(ArraySpec((1 << 16,), "float64"))
    value = build.op("sin", build.op("cos", 0, pin=0, spec=large), pin=0)
    build.keep_on_worker(value)
    measured = MeasuredCosts()
    before = measured.costs()
    measured.take(build.graph(), planned(build.graph()), [called(0, steps=1.0)], CLUSTER, "")
    cos, sin = measured.kinds["op cos cpu 6>20"], measured.kinds["op sin cpu 20>6"]
    assert cos.factor == pytest.approx(sin.factor)
    assert cos.seconds + sin.seconds == pytest.approx(1.0)
    assert not before.factors


def test_a_record_counts_for_unknown_functions_before_its_run_has_ended(builder):
    build = builder(externals=2)
    build.keep_on_worker(build.function("f", 0, pin=0)[1], build.function("f", 1, pin=1)[1])
    graph = build.graph()
    plan, measured = planned(graph), MeasuredCosts()
    records = [called(0, steps=5.0, nodes=[(0, 0.0, 5.0)]), called(1, steps=3.0, nodes=[(1, 0.0, 3.0)])]
    assert measured.costs().is_unknown(graph.nodes[0])
    measured.arrived(graph, plan, records[0].record)
    assert PricedGraph(graph, measured.costs()).seconds == pytest.approx([5.0, 5.0])
    measured.take(graph, plan, records, CLUSTER, "")
    assert PricedGraph(graph, measured.costs()).seconds == pytest.approx([3.0, 3.0]), (
        "the other is the first of its code"
    )
    assert (measured.kinds[FUNCTION].count, measured.early) == (1, {})
    measured.arrived(graph, plan, records[0].record)
    assert not measured.early, "what has been measured is not measured again"


def test_costs_go_by_what_was_measured_and_sizes_within_a_kind_still_tell(builder):
    graph = chain(builder, 0)
    measured = MeasuredCosts()
    measured.take(graph, planned(graph), [called(0, steps=1.0)], CLUSTER, "")
    costs, node = measured.costs(), graph.nodes[0]
    spec = graph.specs[1]
    assert costs.node_seconds(node, [spec], [spec]) == pytest.approx(1.0)
    more = ArraySpec((7,), "float64")
    ratio = costs.prior_seconds(node, [more], [more]) / costs.prior_seconds(node, [spec], [spec])
    assert costs.node_seconds(node, [more], [more]) == pytest.approx(ratio)
    assert costs.node_seconds(node, [ArraySpec((4,), "float64", "cuda:0")], [spec]) < 1e-3, "another device"


def test_a_new_epoch_begins_only_when_something_was_learned(builder):
    graph = chain(builder, 0)
    measured = MeasuredCosts()
    first = measured.costs()
    assert measured.costs() is first
    measured.take(graph, planned(graph), [called(0)], CLUSTER, "")
    second = measured.costs()
    assert second.epoch == first.epoch + 1
    assert measured.costs() is second


def test_the_first_measurement_is_replaced_and_later_ones_are_weighted():
    estimate = Estimate()
    estimate.take(100.0, 1.0)
    assert estimate.spread == 1.0
    estimate.take(10.0, 0.1)
    assert (estimate.factor, estimate.seconds) == (10.0, 0.1)
    estimate.take(20.0, 0.2)
    assert estimate.factor == 15.0
    for _ in range(80):
        estimate.take(20.0, 0.2)
    assert estimate.factor == pytest.approx(20.0, rel=1e-3)
    assert estimate.spread < 0.01
    estimate.take(24.0, 0.2)
    assert estimate.factor == pytest.approx(20.0 + 4 * SLOWER_WEIGHT, rel=1e-3)
    estimate.take(10.0, 0.2)
    assert estimate.factor == pytest.approx(20.4 - 10.4 * NEWEST_WEIGHT, rel=1e-3)


def test_a_pause_of_the_machine_in_every_third_run_does_not_make_a_node_heavy():
    estimate = Estimate()
    for run in range(60):
        estimate.take(100.0 if run % 3 == 2 else 1.0, 0.1)
    assert estimate.factor < 1.5
    assert estimate.spread < 0.5, "which counts as settled"


def test_what_has_become_heavy_for_good_is_believed_step_by_step():
    estimate = Estimate(1.0, 0.0, 1.0, 10)
    for _ in range(100):
        estimate.take(100.0, 0.1)
    assert estimate.factor == pytest.approx(100.0, rel=0.05)


def test_costs_have_settled_when_most_of_the_time_is_agreed_upon():
    measured = MeasuredCosts()
    for factor in (1.0, 1.0, 1.1):
        measured.kinds.setdefault("a", Estimate()).take(factor, 1.0)
    assert measured.settled({"a": 1.0})
    assert measured.settled({"a": 1.0, "b": 0.05})
    assert not measured.settled({"a": 1.0, "b": 0.5})
    measured.kinds["b"] = Estimate(1.0, 0.9, 1.0, 5)
    assert not measured.settled({"a": 1.0, "b": 0.5})


def test_the_first_run_of_a_plan_teaches_links_but_for_each_worker_s_first_call(builder):
    graph = chain(builder, 0, 1, 0)
    plan = planned(graph)
    assert [segment.worker for segment in plan.segments] == [0, 1, 0]
    measured = MeasuredCosts()
    measured.links_were(send_seconds=0.001, hop_seconds=0.02)
    first = called(0, began=1.0, steps=0.1, sent=0.99, came=1.4)
    second = called(1, began=1.2, steps=0.1, sent=0.99, came=1.4)  # 100 ms after what it reads
    third = called(2, began=1.31, steps=0.1, sent=0.99, came=1.5)  # 10 ms
    measured.take(graph, plan, [first, second, third], CLUSTER, "")
    assert measured.costs().hop_seconds == pytest.approx(0.02 + NEWEST_WEIGHT * (0.01 - 0.02), rel=1e-4)


def test_what_a_segment_waited_for_last_teaches_its_link(builder):
    graph = chain(builder, 0, 1)
    plan = planned(graph)
    assert len(plan.segments) == 2
    measured = MeasuredCosts()
    measured.links_were(
        send_seconds=0.001, hop_seconds=0.02, return_seconds=0.02, links={("", ""): LinkCost(0.02, 1e9)}
    )

    def run(at, alone=True):
        first = called(0, began=at + 0.001, steps=0.1, sent=at, came=at + 0.11)
        second = called(1, began=at + 0.111, steps=0.1, sent=at + 0.002, came=at + 0.25)
        measured.take(graph, plan, [second, first], CLUSTER, "", alone=alone)

    run(1.0)
    assert measured.costs().hop_seconds == 0.02, "the first call to a worker waits for its programs"
    assert measured.costs().submit_seconds == 0.0
    returned = measured.costs().return_seconds
    assert returned == pytest.approx(0.02 + SLOWER_WEIGHT * (0.039 - 0.02))
    run(2.0)
    costs = measured.costs()
    assert costs.hop_seconds == pytest.approx(0.02 + NEWEST_WEIGHT * (0.01 - 0.02), rel=1e-4)
    assert costs.links["", ""].hop_seconds == costs.hop_seconds
    assert costs.return_seconds == pytest.approx(returned + SLOWER_WEIGHT * (0.039 - returned))
    assert costs.submit_seconds == pytest.approx(SLOWER_WEIGHT * 80e-6), "from nothing known, in small steps"
    run(2.1, alone=False)  # who waited for what cannot be told
    after = measured.costs()
    assert (after.hop_seconds, after.return_seconds) == (costs.hop_seconds, costs.return_seconds)
    assert after.submit_seconds == costs.submit_seconds, "nor when a call could have been sent"
    span = measured.span_of(plan)
    assert (span.count, span.measured) == (2, 3)


def test_record_that_nobody_waited_for_counts_from_when_the_worker_had_ended(builder):
    graph = chain(builder, 0)
    plan = planned(graph)
    measured = MeasuredCosts()
    measured.links_were(return_seconds=0.02)
    for at in (1.0, 2.0):
        late = called(0, began=at + 0.01, steps=0.1, sent=at, came=at + 7.0)._replace(awaited=False)
        measured.take(graph, plan, [late], CLUSTER, "")
    assert measured.span_of(plan).seconds == pytest.approx(0.13)
    assert measured.costs().return_seconds == 0.02
    soon = called(0, began=3.01, steps=0.1, sent=3.0, came=3.11)._replace(awaited=False)
    measured.take(graph, plan, [soon], CLUSTER, "")
    assert measured.span_of(plan).seconds == pytest.approx(0.12)


def test_what_calls_cost_the_client_is_learned_whatever_else_goes_on(builder):
    graph = chain(builder, 0, 1)
    plan = planned(graph)
    measured = MeasuredCosts()
    for spent in (9.0, 2e-3, 4e-3):
        calls = [called(0, sent=1.0)._replace(spent=spent), called(1, sent=1.0)._replace(spent=spent)]
        measured.take(graph, plan, calls, CLUSTER, "", alone=False)
    assert measured.costs().client_seconds == pytest.approx(2e-3 + NEWEST_WEIGHT * 2e-3)


def test_what_a_call_costs_its_worker_is_seen_where_one_follows_another(builder):
    graph = chain(builder, 0, 1, 0)
    plan = planned(graph)
    measured = MeasuredCosts()
    measured.links_were(call_seconds=0.4e-3, hop_seconds=1e-6)
    before = measured.costs()

    def run(gap):
        first = called(0, began=1.0, steps=0.1, sent=0.9)
        second = called(1, began=0.95, steps=0.01, sent=0.9)
        third = called(2, began=1.1 + gap, steps=0.1, sent=0.9, inputs=1e-4)
        measured.take(graph, plan, [first, second, third], CLUSTER, "", alone=False)

    run(1.0)
    assert measured.costs().call_seconds == before.call_seconds, "the first run of a plan waits for its programs"
    run(0.1e-3)
    assert measured.costs().call_seconds == pytest.approx(0.4e-3 + NEWEST_WEIGHT * (0.2e-3 - 0.4e-3), rel=1e-3)


def test_what_storing_takes_of_a_worker_s_time_is_no_cost_of_its_next_call(builder):
    graph = chain(builder, 0, 1, 0)
    plan = planned(graph)
    first = next(segment for segment in plan.segments if segment.worker == 0)
    assert first.bytes_out > 0
    learned: list[float] = []
    for rate in (float("inf"), first.bytes_out / 0.2e-3):
        measured = MeasuredCosts()
        measured.links_were(call_seconds=0.4e-3, hop_seconds=1e-6, store_bandwidth=rate)
        for _ in range(2):
            calls = [
                called(0, began=1.0, steps=0.1, sent=0.9),
                called(1, began=0.95, steps=0.01, sent=0.9),
                called(2, began=1.1 + 0.2e-3, steps=0.1, sent=0.9),
            ]
            measured.take(graph, plan, calls, CLUSTER, "", alone=False)
        learned.append(measured.costs().call_seconds)
    assert learned[1] < learned[0] == pytest.approx(0.4e-3 + NEWEST_WEIGHT * (0.2e-3 - 0.4e-3), rel=1e-3)
    assert learned[1] == pytest.approx(0.4e-3 + NEWEST_WEIGHT * (0.0 - 0.4e-3), rel=1e-3)


def test_of_a_host_with_another_clock_only_nodes_are_learned(builder):
    graph = chain(builder, 0, 1)
    plan = planned(graph)
    measured = MeasuredCosts()
    before = measured.costs()
    for at in (1.0, 2.0):
        calls = [called(0, began=1e6, sent=at), called(1, began=5.0, sent=at, came=at + 0.5)]
        measured.take(graph, plan, calls, CLUSTER, "elsewhere")
    after = measured.costs()
    assert (after.hop_seconds, after.return_seconds) == (before.hop_seconds, before.return_seconds)
    assert SIN in measured.kinds


def test_what_was_measured_is_kept_as_data_and_taken_over(builder):
    graph = chain(builder, 0)
    measured = MeasuredCosts()
    measured.links_were(hop_seconds=0.125)
    measured.take(graph, planned(graph), [called(0, steps=1.0)], CLUSTER, "")
    data = json.loads(json.dumps(measured.as_data()))
    other = MeasuredCosts()
    other.use_data(data)
    assert other.kinds == measured.kinds
    assert other.costs().hop_seconds == 0.125
    assert other.costs().factors == measured.costs().factors
    assert other.as_data() == data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "no costs"),
        ({"nodes": {}}, "no costs"),
        ({"raygrad costs": 9}, "of version 9; this raygrad reads 2"),
        ({"raygrad costs": 1, "nodes": {}, "links": {}}, "of version 1; this raygrad reads 2: measure again"),
        ({"raygrad costs": 2, "nodes": {}}, "damaged: KeyError"),
        ({**MeasuredCosts().as_data(), "nodes": {"a": [1.0]}}, "damaged: ValueError"),
        ({**MeasuredCosts().as_data(), "nodes": {"a": [float("nan"), 0.0, 0.0, 1, False]}}, "no time"),
        ({**MeasuredCosts().as_data(), "nodes": {"a": [-1.0, 0.0, 0.0, 1, False]}}, "no time"),
    ],
)
def test_data_that_is_none_is_refused_and_changes_nothing(data, message):
    measured = MeasuredCosts()
    with pytest.raises(CostsError, match=message):
        measured.use_data(data)
    assert not measured.kinds
    assert measured.costs() == Costs()


def test_after_the_first_runs_of_a_plan_some_are_measured(builder):
    graph = chain(builder, 0)
    plan, measured = planned(graph), MeasuredCosts()
    wanted = []
    for _ in range(33):
        wanted.append(measured.wants(plan))
        if wanted[-1]:
            measured.take(graph, plan, [called(0)], CLUSTER, "")
    assert [number for number, want in enumerate(wanted) if want] == [*range(8), 8, 16, 24, 32]


def test_what_first_runs_take_longer_is_expected_of_the_first_run_of_another_plan(builder):
    graph, measured = chain(builder, 0, 1), MeasuredCosts()
    plan = planned(graph)
    said = plan.predicted_seconds
    assert measured.first_run(plan) == said
    for _ in range(2):
        first, second = called(0, sent=1.0, came=1.5), called(1, sent=1.1, came=1.0 + 1.5 * said + 0.5)
        measured.take(graph, plan, [first, second], CLUSTER, "")
    assert measured.news_seconds == pytest.approx((1.5 * said + 0.5 - said) / 2), "of the first run alone"
    assert measured.first_run(plan) == pytest.approx(said * (1.0 + MAX_FIRST_RUN_FACTOR)), (
        "but not many times what is predicted"
    )
    other = replace(plan, predicted_seconds=10.0)
    assert measured.first_run(other) == pytest.approx(10.0 + 2 * measured.news_seconds)
    quick = [called(number, sent=1.0, came=1.0) for number in range(2)]
    measured.take(graph, replace(other, hash=b"other"), quick, CLUSTER, "")
    assert measured.news_seconds == 0.0
