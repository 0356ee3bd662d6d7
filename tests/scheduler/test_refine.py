import pytest

from raygrad.proto.graph import structural_hash
from raygrad.scheduler.costs import Costs
from raygrad.scheduler.measured import Estimate, MeasuredCosts, Span
from raygrad.scheduler.plan import Cluster
from raygrad.scheduler.planner import Planner, make_plan
from raygrad.scheduler.predict import predict
from raygrad.scheduler.priced import price
from raygrad.scheduler.refine import GAIN, least_seconds, look_again, refine

CLUSTER = Cluster.of(2)
KIND = "function @f cpu 6>context,6"
PRIOR = Costs().function_seconds + (2 * 32 + Costs().context_bytes) / Costs().function_bandwidth


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
    measured.links_were()


def workers_of(plan):
    return {segment.worker for segment in plan.segments}


class Ran:
    """A planner and runs of what it plans: each takes what the costs now known predict."""

    def __init__(self, builder, measured, monkeypatch):
        self.graph = branches(builder)
        self.measured = measured
        self.planner = Planner(CLUSTER, measured=measured)
        self.spans = {}
        monkeypatch.setattr(MeasuredCosts, "span_of", lambda _, plan: self.spans.setdefault(plan.hash, Span()))

    def submit(self, times=1):
        plan = self.planner.plan(self.graph, (-1, -1), structural_hash(self.graph.encode())).plan
        costs = self.measured.costs()
        span = self.spans.setdefault(plan.hash, Span())
        span.count += 1
        span.seconds = predict(plan.segments, price(self.graph, costs), (-1, -1), costs, CLUSTER)
        return plan if times == 1 else self.submit(times - 1)


@pytest.fixture
def ran(builder, monkeypatch):
    return lambda measured: Ran(builder, measured, monkeypatch)


def test_plans_are_looked_at_again_ever_more_rarely():
    assert [uses for uses in range(1, 40) if look_again(uses)] == [2, 3, 5, 9, 17, 33]


def test_no_plan_falls_below_the_least_time(builder):
    graph = branches(builder)
    priced = price(graph, known(0.5).costs())
    assert least_seconds(priced, 1) == pytest.approx(1.0)
    assert least_seconds(priced, 2) == pytest.approx(0.5)
    assert least_seconds(priced, 9) == pytest.approx(0.5)


def test_a_better_plan_replaces_one_that_ran_twice_once_costs_have_settled(ran):
    run = ran(known(10e-6))
    first = run.submit()
    assert len(workers_of(first)) == 1
    settle(run.measured, 0.5, count=1)  # the Function takes far longer than was believed
    assert run.submit(2).hash == first.hash, "one measurement is none"
    settle(run.measured, 0.5)
    assert run.submit(2).hash != first.hash
    assert run.planner.changes == 1
    second = run.submit()
    assert len(workers_of(second)) == 2
    assert second.predicted_seconds < 0.6
    assert run.planner.misses == 1, "the other plan took the place of the first"


def test_a_plan_that_is_hardly_worse_stays_and_its_programs_with_it(ran):
    run = ran(known(0.5))
    first = run.submit()
    for seconds in (0.4, 0.6, 0.5, 0.45):
        settle(run.measured, seconds)
        again = run.submit(8)
        assert again.hash == first.hash
    assert again.predicted_seconds == pytest.approx(0.45, rel=0.1), "what is predicted of it follows"
    assert run.planner.changes == 0


def test_plans_do_not_take_turns(ran, monkeypatch):
    """Costs that move to and fro each time: each change asks for a larger gain, so that changes end."""
    monkeypatch.setattr("raygrad.scheduler.planner.look_again", lambda _: True)
    run = ran(known(10e-6))
    plans = []
    for number in range(60):
        settle(run.measured, (0.7e-3, 10e-6)[number % 2])
        plans.append(run.submit().hash)
    assert len({*plans[-20:]}) == 1
    assert run.planner.changes <= 12


def test_where_no_plan_can_gain_enough_none_is_made(builder, monkeypatch):
    graph, measured = branches(builder), known(0.5)
    plan = make_plan(graph, (-1, -1), measured.costs(), CLUSTER, 0, b"").plan
    span = Span(0.5 * (1 + GAIN / 2), 2)
    monkeypatch.setattr(MeasuredCosts, "span_of", lambda *_: span)
    made = []

    def make(costs):
        made.append(costs)
        return plan

    now, changed = refine(graph, plan, (-1, -1), measured, CLUSTER, 0, make)
    assert not changed
    assert now.predicted_seconds == span.seconds
    assert not made
    span.seconds = 0.7
    refine(graph, plan, (-1, -1), measured, CLUSTER, 0, make)
    assert made


def test_of_a_plan_that_never_ran_the_pace_of_others_is_expected(builder):
    graph, measured = branches(builder), known(0.5)
    measured.pace = 2.0
    plan = make_plan(graph, (-1, -1), measured.costs(), CLUSTER, 0, b"").plan
    now, changed = refine(graph, plan, (-1, -1), measured, CLUSTER, 0, lambda costs: plan)
    assert now.predicted_seconds == pytest.approx(2.0 * plan.predicted_seconds)
    assert not changed


def test_without_measurements_the_costs_given_are_used(builder):
    graph = branches(builder)
    planner = Planner(CLUSTER, Costs(op_seconds=1.0))
    key = structural_hash(graph.encode())
    plans = {planner.plan(graph, (-1, -1), key).plan.hash for _ in range(6)}
    assert len(plans) == 1
    assert planner.changes == 0
