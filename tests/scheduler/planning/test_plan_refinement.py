from collections import Counter
from dataclasses import replace

import pytest

from raygrad.proto.codec.graphs import encode_graph
from raygrad.proto.ir.graph import CostHint, structural_hash
from raygrad.scheduler.model.arrays import graph_arrays
from raygrad.scheduler.model.cost_classes import PlanCostClasses, cost_classes_of
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.critical_path import lower_bound
from raygrad.scheduler.model.dag import Platform
from raygrad.scheduler.model.measured_costs import Estimate, MeasuredCosts, PlanTimes
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.planning.plan_refinement import (
    MIN_GAIN,
    MIN_SHIFT,
    cost_shift,
    is_due,
    refine,
    repredict,
)
from raygrad.scheduler.planning.planner import Planner, make_plan
from raygrad.scheduler.segments.timetable import predict_seconds, segment_loads

CLUSTER = Cluster.of(2)
KIND = "function @f cpu 6>"
PRIOR = Costs().function_overhead + 32 / Costs().function_bandwidth


def branches(builder):
    """Two calls of a Function that have nothing to do with each other."""
    build = builder(externals=2)
    for external in range(2):
        build.keep_on_worker(build.function("f", external)[1])
    return build.graph()


def known(seconds, count=5, spread=0.0):
    """What is known when one node of the branches takes so long."""
    measured = MeasuredCosts()
    settle(measured, seconds, count, spread)
    return measured


def settle(measured, seconds, count=5, spread=0.0):
    measured.kinds[KIND] = Estimate(seconds / PRIOR, spread, seconds, count)
    measured._functions.surplus(KIND)
    measured.links_were()


def counted(graph, plan, measured):
    """What is known of the nodes of a plan that has run."""
    kinds = cost_classes_of(graph, measured.prior)
    segments = [Counter(kinds.node[index] for index in segment.nodes) for segment in plan.segments]
    return PlanCostClasses(kinds.kinds, segments)


def workers_of(plan):
    return {segment.worker for segment in plan.segments}


class Ran:
    """A planner and runs of what it plans: each takes what the costs now known predict."""

    def __init__(self, builder, measured, monkeypatch):
        self.graph = branches(builder)
        self.measured = measured
        self.planner = Planner(CLUSTER, measured=measured)
        self.spans = {}
        self.alone = True
        monkeypatch.setattr(MeasuredCosts, "span_of", lambda _, plan: self.spans.setdefault(plan.hash, PlanTimes()))
        monkeypatch.setattr(MeasuredCosts, "counted", lambda _, plan: counted(self.graph, plan, measured))

    def submit(self, times=1):
        plan = self.planner.plan(self.graph, (-1, -1), structural_hash(encode_graph(self.graph))).plan
        self.planner.reconsider()
        costs = self.measured.costs()
        span = self.spans.setdefault(plan.hash, PlanTimes())
        span.measured += 1
        span.count += self.alone
        span.seconds = predict_seconds(
            plan.segments, segment_loads(plan.segments, PricedGraph(self.graph, costs)), (-1, -1), costs, CLUSTER
        )
        return plan if times == 1 else self.submit(times - 1)


@pytest.fixture
def ran(builder, monkeypatch):
    return lambda measured: Ran(builder, measured, monkeypatch)


def test_plans_are_looked_at_again_ever_more_rarely():
    assert [uses for uses in range(1, 40) if is_due(uses)] == [2, 3, 5, 9, 17, 33]


def test_no_plan_falls_below_the_least_time(builder):
    dag = graph_arrays(PricedGraph(branches(builder), known(0.5).costs())).dag()
    for workers, seconds in ((1, 1.0), (2, 0.5), (9, 0.5)):
        assert lower_bound(dag, Platform.of(workers)) == pytest.approx(seconds)


def test_a_better_plan_replaces_one_that_ran_twice_once_costs_have_settled(ran):
    run = ran(known(10e-6))
    first = run.submit()
    assert len(workers_of(first)) == 1
    settle(run.measured, 0.5, count=1)  # the Function takes far longer than was believed
    assert run.submit(2).hash == first.hash, "one measurement is none"
    settle(run.measured, 0.5)
    assert run.submit(2).hash == first.hash, "while workers run it, the next plan is made"
    assert run.planner.changes == 1
    second = run.submit()
    assert len(workers_of(second)) == 2
    assert second.predicted_seconds < 0.6
    assert run.planner.misses == 1, "the other plan took the place of the first"


def test_a_plan_whose_runs_others_are_always_in_the_way_of_gives_way_by_its_parts(ran):
    run = ran(known(10e-6))
    run.alone = False
    assert len(workers_of(run.submit(3))) == 1
    settle(run.measured, 0.5)
    assert len(workers_of(run.submit(4))) == 2


def test_a_plan_that_is_hardly_worse_stays_and_its_programs_with_it(ran):
    run = ran(known(0.5))
    first = run.submit()
    for seconds in (0.4, 0.6, 0.5, 0.45):
        settle(run.measured, seconds)
        again = run.submit(8)
        assert again.hash == first.hash
    assert again.predicted_seconds == pytest.approx(0.45, rel=0.1), "what is predicted of it follows"
    assert run.planner.changes == 0


def test_a_plan_that_went_by_a_guess_gives_way_before_its_second_submission(ran):
    """The two unknown branches are divided; as one run shows, that is not worth it."""
    run = ran(MeasuredCosts())
    assert len(workers_of(run.submit())) == 2
    settle(run.measured, 20e-6, count=1)
    assert len(workers_of(run.submit())) == 1
    settle(run.measured, 0.5, count=1)
    assert len(workers_of(run.submit())) == 1, "once: further changes wait until costs have settled"


def test_a_hint_that_was_wrong_counts_no_more_after_one_run(ran):
    run = ran(MeasuredCosts())
    run.alone = False
    run.graph = run.graph._replace(hints=(CostHint(0, 1e-6, ""), CostHint(1, 1e-6, "")))
    assert len(workers_of(run.submit())) == 1
    settle(run.measured, 0.5, count=1)
    assert len(workers_of(run.submit())) == 2


def test_a_plan_made_before_its_function_was_measured_elsewhere_is_made_again(builder):
    graph, measured = branches(builder), MeasuredCosts()
    planner, key = Planner(CLUSTER, measured=measured), structural_hash(encode_graph(branches(builder)))
    assert len(workers_of(planner.plan(graph, (-1, -1), key).plan)) == 2
    settle(measured, 1e-6)
    assert len(workers_of(planner.plan(graph, (-1, -1), key).plan)) == 1
    assert planner.misses == 2
    planner.plan(graph, (-1, -1), key)
    assert planner.misses == 2


def test_plans_do_not_take_turns(ran, monkeypatch):
    """Costs that move to and fro each time: each change asks for a larger gain, so that changes end."""
    monkeypatch.setattr("raygrad.scheduler.planning.planner.is_due", lambda _: True)
    run = ran(known(10e-6))
    plans = []
    for number in range(60):
        settle(run.measured, (0.7e-3, 10e-6)[number % 2])
        plans.append(run.submit().hash)
    assert len({*plans[-20:]}) == 1
    assert run.planner.changes <= 12


class Compare:
    """Compares the plan that takes 0.5 s on two workers with others: what became of it, and by which costs others were
    made."""

    def __init__(self, graph, monkeypatch):
        self.graph, self.measured, self.monkeypatch = graph, known(0.5), monkeypatch
        self.plan = make_plan(graph, (-1, -1), self.measured.costs(), CLUSTER, 0, b"").plan
        self.counted = counted(graph, self.plan, self.measured)
        monkeypatch.setattr(MeasuredCosts, "counted", lambda *_: self.counted)

    def __call__(self, seconds, compared, pace=1.0):
        made = []
        self.monkeypatch.setattr(MeasuredCosts, "span_of", lambda *_: PlanTimes(seconds, 2, measured=2))

        def make(costs):
            made.append(costs)
            return self.plan

        now = repredict(self.graph, self.plan, (-1, -1), self.measured, CLUSTER)
        assert now.predicted_seconds == seconds
        self.measured.pace = pace
        return refine(self.graph, now, (-1, -1), self.measured, CLUSTER, 0, compared, make), made


@pytest.fixture
def compare(builder, monkeypatch):
    return Compare(branches(builder), monkeypatch)


def test_where_no_plan_can_gain_enough_none_is_made(compare):
    cheap = known(10e-6).costs()
    refined, made = compare(0.5 * (1 + MIN_GAIN / 2), cheap)
    assert refined.plan is None
    assert not made
    assert compare(0.7, cheap)[1]
    assert not compare(0.7, cheap, pace=1.4)[1], "others would take longer than is predicted from their parts, too"


def test_while_costs_stay_as_they_are_plans_are_compared_once(compare):
    refined, made = compare(0.7, known(10e-6).costs())
    assert made == [refined.compared]
    again, made = compare(0.7, refined.compared)
    assert not made
    assert again.compared is None
    settle(compare.measured, 0.55)
    assert not compare(0.8, refined.compared)[1], "all has become slower by a tenth: nothing has moved"
    compare.measured.links_were(call_seconds=0.1)
    assert compare(0.8, refined.compared)[1]


def test_what_moves_is_the_part_of_the_time_that_goes_elsewhere(compare):
    before = Costs(call_seconds=0.0, hop_seconds=0.25)  # two segments and two workers: a second
    assert cost_shift(compare.plan, compare.counted, before, before) == 0.0
    after = replace(before, hop_seconds=0.125, functions=compare.measured.costs().functions)
    settle(compare.measured, 1.0)
    before = replace(before, functions=compare.measured.costs().functions)
    assert cost_shift(compare.plan, compare.counted, before, after) == pytest.approx(
        0.0, abs=1e-6
    )  # both are half of it
    after = replace(before, hop_seconds=0.0)
    assert cost_shift(compare.plan, compare.counted, before, after) == pytest.approx(1 / 3, rel=1e-3)
    assert cost_shift(compare.plan, compare.counted, before, replace(before, bandwidth=1e3)) < MIN_SHIFT


def test_of_a_plan_that_never_ran_the_pace_of_others_is_expected(builder):
    graph, measured = branches(builder), known(0.5)
    measured.pace = 2.0
    plan = make_plan(graph, (-1, -1), measured.costs(), CLUSTER, 0, b"").plan
    now = repredict(graph, plan, (-1, -1), measured, CLUSTER)
    assert now.predicted_seconds == pytest.approx(2.0 * plan.predicted_seconds)
    assert refine(graph, now, (-1, -1), measured, CLUSTER, 0, Costs(), lambda costs: plan).plan is None


def test_a_first_run_and_what_the_parts_say_are_each_half_of_what_is_predicted(builder):
    graph, measured = branches(builder), known(0.5)
    plan = make_plan(graph, (-1, -1), measured.costs(), CLUSTER, 0, b"").plan
    spans = iter([PlanTimes(9.0, 1, measured=1), PlanTimes(7.0, 2, measured=2)])
    measured.span_of = lambda plan: next(spans)
    first = repredict(graph, plan, (-1, -1), measured, CLUSTER)
    assert first.predicted_seconds == pytest.approx((plan.predicted_seconds + 9.0) / 2)
    assert repredict(graph, plan, (-1, -1), measured, CLUSTER).predicted_seconds == 7.0


def test_without_measurements_the_costs_given_are_used(builder):
    graph = branches(builder)
    planner = Planner(CLUSTER, Costs(op_seconds=1.0))
    key = structural_hash(encode_graph(graph))
    plans = set()
    for _ in range(6):
        plans.add(planner.plan(graph, (-1, -1), key).plan.hash)
        planner.reconsider()
    assert len(plans) == 1
    assert planner.changes == 0


def test_of_a_large_graph_the_plan_that_was_taken_is_made_again_for_other_workers(ran, monkeypatch):
    run = ran(known(10e-6))
    assert len(workers_of(run.submit())) == 1
    monkeypatch.setattr("raygrad.scheduler.planning.planner.CLUSTERED_FROM", 2)
    settle(run.measured, 0.5)
    run.submit(2)
    changed = run.submit()
    assert (len(workers_of(changed)), run.planner.changes) == (2, 1)
    run.planner.use_cluster(Cluster((*CLUSTER.workers, WorkerSpec("new"))))
    assert run.submit().node_worker == changed.node_worker


def test_a_plan_for_workers_of_before_is_not_looked_at(ran):
    run = ran(known(10e-6))
    run.submit(2)
    settle(run.measured, 0.5)
    key = structural_hash(encode_graph(run.graph))
    run.planner.plan(run.graph, (-1, -1), key)
    run.planner.use_cluster(Cluster.of(1))
    run.planner.reconsider()
    assert run.planner.changes == 0
    run.planner.use_cluster(CLUSTER)
    assert len(workers_of(run.planner.plan(run.graph, (-1, -1), key).plan)) == 2
