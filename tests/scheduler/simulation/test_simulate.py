import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from raygrad.errors import PlanError
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import make_plan
from raygrad.scheduler.simulation.scenario import (
    SegmentRaise,
    VirtualLink,
    VirtualSubmission,
    WorkerLoss,
)
from raygrad.scheduler.simulation.simulate import simulate, what_if

from ..ensembles import ensemble
from ..machine.invariants import check_invariants
from .submissions import several

COSTS = Costs()


def planned(graph, workers=2, costs=COSTS, residency=None, seed=0):
    residency = (-1,) * len(graph.externals) if residency is None else residency
    return make_plan(graph, residency, costs, Cluster.of(workers), seed, b"")


def chain(builder, workers, hops):
    """A chain that changes worker at each node."""
    build = builder()
    value = 0
    for hop in range(hops):
        value = build.op("sin", value, pin=hop % workers)
    return build.graph()


@pytest.mark.slow
@given(data=st.data())
def test_any_runs_with_any_failures_end_with_every_invariant_held_and_the_same_each_time(graphs, data):
    slow = Costs(hop_seconds=0.0, bandwidth=1e4, store_bandwidth=1e5)
    some = [COSTS, Costs(call_seconds=0.0), slow]
    runs = several(graphs, some, workers=st.integers(1, 4), pinned=st.just(True), pause=1e-3)
    submissions, cluster, costs = data.draw(runs)
    workers = len(cluster.workers)
    segments = [(run, k) for run, one in enumerate(submissions) for k in range(len(one.planned.plan.segments))]
    lost = st.builds(WorkerLoss, st.integers(0, workers - 1), st.none() | st.sampled_from([0.0, 3e-4, 1e-3]))
    broken = st.sampled_from(segments).map(lambda one: SegmentRaise(*one)) if segments else lost
    failures = data.draw(st.lists(lost | broken, max_size=3))
    speeds = data.draw(st.lists(st.sampled_from([0.5, 1.0, 4.0]), min_size=workers, max_size=workers))
    options: dict[str, Any] = {
        "speeds": speeds,
        "failures": failures,
        "jitter": data.draw(st.sampled_from([0.0, 0.5])),
        "seed": data.draw(st.integers(0, 3)),
        "in_order": data.draw(st.booleans()),
        "window": data.draw(st.sampled_from([1, 2, 16])),
        "dispatch_seconds": data.draw(st.sampled_from([0.0, 1e-4])),
        "recovery_time": data.draw(st.sampled_from([math.inf, 0.0, 5e-4])),
    }
    made = simulate(submissions, cluster, costs, watch=check_invariants, **options)
    assert made == simulate(submissions, cluster, costs, **options)
    failed = {one.run for failure in made.failures for one in failure.runs}
    assert {run for run, _ in made.finished}.isdisjoint(failed)
    if not failures:
        assert len(made.finished) == len(submissions)
        assert sorted((one.run, one.segment) for one in made.segments) == segments


@pytest.mark.slow
@given(data=st.data())
def test_a_run_without_failures_ends_when_its_plan_says(graphs, data):
    graph = data.draw(graphs(pins=3))
    some = (COSTS, Costs(call_seconds=0.0), Costs(hop_seconds=0.0, bandwidth=1e4), Costs(store_bandwidth=1e5))
    costs = data.draw(st.sampled_from(some))
    residency = tuple(data.draw(st.integers(-1, 2)) for _ in graph.externals)
    made = planned(graph, 3, costs, residency)
    sizes = tuple([costs.value_bytes(graph.specs[spec]) for spec in graph.externals])
    one = VirtualSubmission(planned=made, residency=residency, external_bytes=sizes)
    shown = simulate(one, Cluster.of(3), costs, window=100)
    assert shown.makespan == pytest.approx(made.plan.predicted_seconds, rel=1e-9)
    work = sum(segment.predicted_seconds + costs.call_seconds for segment in made.plan.segments)
    storing = sum(segment.bytes_out for segment in made.plan.segments) / costs.store_bandwidth
    assert work * (1 - 1e-9) <= sum(shown.busy) <= (work + storing) * (1 + 1e-9)


def test_a_faster_worker_and_a_slower_link_are_felt(builder):
    graph = chain(builder, 2, 6)
    costs = Costs(op_seconds=1e-2)
    made, cluster = planned(graph, costs=costs), Cluster.of(2)
    base = simulate(made, cluster, costs)
    assert [one.worker for one in base.segments] == [0, 1] * 3
    assert simulate(made, cluster, costs, speeds=(2.0, 2.0)).makespan < 0.6 * base.makespan
    slow = simulate(made, cluster, costs, links={(0, 1): VirtualLink(1.0, 1e9)})
    assert slow.makespan == pytest.approx(base.makespan + 3 * (1.0 - costs.hop_seconds))
    assert [(one.source, one.target, one.size) for one in base.transfers] == [(0, 1, 32), (1, 0, 32)] * 2 + [(0, 1, 32)]
    assert sum(one.finish - one.start for one in base.waits) == pytest.approx(
        2 * base.makespan - sum(base.busy), rel=0.5
    )


def test_a_driver_that_is_slow_to_command_holds_up_many_workers(builder):
    build = builder(externals=64)
    for value in range(64):
        build.function("f", value, pin=value)
    made, cluster = planned(build.graph(), 64), Cluster.of(64)
    fast = simulate(made, cluster, COSTS).makespan
    slow = simulate(made, cluster, COSTS, dispatch_seconds=1e-2).makespan
    assert slow == pytest.approx(fast + 64e-2)


def test_a_worker_that_takes_what_is_ready_does_not_wait_for_what_is_late(builder):
    build = builder(externals=2)
    late = build.function("slow", 0, pin=1)[1]
    build.function("f", late, pin=0)
    for _ in range(4):
        build.function("f", 1, pin=0)
    costs = Costs(function_seconds=1e-2)
    made, cluster = planned(build.graph(), costs=costs), Cluster.of(2)
    ordered = simulate(made, cluster, costs, speeds=(1.0, 0.1))
    free = simulate(made, cluster, costs, speeds=(1.0, 0.1), in_order=False)
    assert free.makespan <= ordered.makespan


def test_a_lost_worker_fails_what_ran_there_and_what_reads_from_it(builder):
    build = builder()
    y = build.function("f", 0, pin=0)[1]
    z = build.function("g", y, pin=1)[1]
    build.keep_in_store(z)
    graph = build.graph()
    first = planned(graph)
    second = planned(graph)
    runs = [VirtualSubmission(planned=first), VirtualSubmission(planned=second, sources=((0, z),))]
    costs = COSTS
    made = simulate(runs, Cluster.of(2), costs, failures=[WorkerLoss(1, 1e-3)], watch=check_invariants)
    (failure,) = made.failures
    assert failure.at == 1e-3
    assert [one.run for one in failure.runs] == [0, 1]
    assert (0, 1) in failure.segments
    assert made.finished == ()
    assert {one.status for one in made.segments if one.worker == 1} == {"lost"}
    later = simulate(runs, Cluster.of(2), costs, failures=[WorkerLoss(1, 9.0)])
    assert later.failures == ()
    assert len(later.finished) == 2


def test_code_that_raises_has_what_reads_from_it_skipped(builder):
    graph = chain(builder, 2, 4)
    costs = Costs(op_seconds=1e-2)
    made = simulate(
        planned(graph, costs=costs), Cluster.of(2), costs, failures=[SegmentRaise(0, 1)], watch=check_invariants
    )
    assert [one.status for one in made.segments] == ["done", "failed", "skipped", "skipped"]
    assert made.failures[0].segments == ((0, 1),)


def test_losses_at_random_times_are_those_of_the_seed(builder):
    graph = chain(builder, 2, 20)
    made, cluster = planned(graph), Cluster.of(2)
    at = [simulate(made, cluster, COSTS, failures=[WorkerLoss(0)], seed=seed).failures[0].at for seed in (1, 1, 2)]
    assert at[0] == at[1] != at[2]
    generator = np.random.default_rng(1)
    assert simulate(made, cluster, COSTS, failures=[WorkerLoss(0)], seed=generator).failures[0].at == at[0]


def test_jitter_does_not_depend_on_who_runs_what(builder):
    graph = chain(builder, 2, 6)
    made, cluster = planned(graph), Cluster.of(2)
    one = simulate(made, cluster, COSTS, jitter=0.3, seed=5)
    other = simulate(made, cluster, COSTS, jitter=0.3, seed=5, dispatch_seconds=1e-3)
    assert sum(one.busy) == pytest.approx(sum(other.busy))
    assert one.makespan != other.makespan


def test_what_more_machines_would_bring(builder):
    build = builder(externals=32)
    for branch in range(32):
        value = branch
        for _ in range(20):
            value = build.function("f", value)[1]
    graph = build.graph()
    spans = [what_if(graph, COSTS, workers=workers).simulated.makespan for workers in (1, 4, 16, 32)]
    assert spans[1] < 0.3 * spans[0]
    assert spans[2] < 0.3 * spans[1]
    assert spans[3] < 0.6 * spans[2]


def test_more_machines_have_the_limits_of_those_they_are_like(builder):
    build = builder(externals=8, size=1000)
    for branch in range(8):
        build.op("exp", branch)
    graph = build.graph()
    costs = Costs(hop_seconds=0.0, call_seconds=0.0, bandwidth=1e15)
    assert set(what_if(graph, costs, workers=4).planned.plan.node_worker) == {0, 1, 2, 3}
    like = Cluster.of(2).limited([20_000, 12_000])
    assert set(what_if(graph, costs, workers=4, like=like).planned.plan.node_worker) == {0, 2}
    with pytest.raises(PlanError, match="memory=12000 and needs memory=16000"):
        what_if(graph, costs, workers=3, like=Cluster.of(1).limited(12_000))


def test_nodes_for_a_gpu_go_to_workers_that_would_have_one(builder):
    build = builder(externals=1)
    build.spec(replace(build.specs[1], device="cuda:0"))
    for _ in range(8):
        build.op("sin", 0, spec=2)
    plan = what_if(build.graph(), COSTS, workers=8, gpus=2).planned.plan
    assert set(plan.node_worker) <= {0, 1}
    with pytest.raises(PlanError, match="cuda"):
        what_if(build.graph(), COSTS, workers=8)
    with pytest.raises(PlanError, match="3 GPUs need as many workers"):
        what_if(build.graph(), COSTS, workers=2, gpus=3)


def test_arguments_that_do_not_fit_together_are_refused(builder):
    made, cluster = planned(chain(builder, 2, 2)), Cluster.of(2)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"speeds": (1.0,)}, "one per worker"),
        ({"speeds": (1.0, 0.0)}, "positive"),
        ({"jitter": -1.0}, "jitter"),
        ({"dispatch_seconds": -1.0}, "dispatch_seconds"),
        ({"links": {(0, 2): VirtualLink(0.0, 1.0)}}, "no link"),
        ({"links": {(0, 1): VirtualLink(0.0, 0.0)}}, "no link"),
        ({"failures": [WorkerLoss(2)]}, "no worker"),
        ({"failures": [WorkerLoss(0, -1.0)]}, "no time"),
        ({"failures": [SegmentRaise(1, 0)]}, "no segment"),
        ({"failures": [SegmentRaise(0, 9)]}, "no segment"),
    ]
    for options, why in wrong:
        with pytest.raises(PlanError, match=why):
            simulate(made, cluster, COSTS, **options)
    one = VirtualSubmission(planned=made)
    for submissions, why in [
        ([one, replace(one, sources=((1, 0),))], "does not precede"),
        ([one, replace(one, sources=((0, 0),))], "not kept"),
        ([replace(one, at=1.0), one], "before the one that precedes"),
        ([replace(one, residency=(0,))], "needs its bytes"),
    ]:
        with pytest.raises(PlanError, match=why):
            simulate(submissions, cluster, COSTS)
    with pytest.raises(PlanError, match="planned for 2 workers"):
        simulate(made, Cluster.of(1), COSTS)


def test_a_thousand_workers_are_commanded(builder):
    """Each worker has a chain of segments that hands on to the next worker: nothing here is quadratic in
    workers or segments, else this would not come back."""
    workers, rounds = 1000, 20
    build = builder(externals=1)
    values = [build.op("sin", 0, pin=worker) for worker in range(workers)]
    for step in range(1, rounds):
        values = [build.op("sin", values[worker - step % 7 - 1], pin=worker) for worker in range(workers)]
    costs = Costs(op_seconds=1e-2)
    made = planned(build.graph(), workers, costs)
    assert len(made.plan.segments) == workers * rounds
    shown = simulate(made, Cluster.of(workers), costs)
    assert shown.makespan == pytest.approx(made.plan.predicted_seconds)
    assert shown.utilisation > 0.7


def test_h18_what_is_saved_is_copied_while_its_worker_waits(builder):
    build = builder()
    context, y = build.function("f", 0, pin=0)
    z = build.op("exp", y, pin=1)
    build.function_vjp("f", context, z, 0)
    costs = Costs(context_bytes=1000)
    plan = make_plan(build.graph(), (-1,), costs, Cluster.of(2), 0, b"")
    without, with_copies = (
        simulate(plan, Cluster.of(2), costs, in_order=False, recovery_time=seconds, watch=check_invariants)
        for seconds in (math.inf, 0.0)
    )
    assert (without.peak_saved, with_copies.peak_saved) == ((1000, 0), (2000, 0))
    assert with_copies.saved[0][-1][1] == 0
    assert with_copies.makespan == without.makespan


def test_what_is_made_again_is_shared_with_the_worker_that_comes_back():
    made = ensemble([(0.1, 0.1)] * 16)
    cluster = Cluster.of(2)
    plan = make_plan(made.graph, (-1,) * len(made.graph.externals), made.costs, cluster, 0, b"")

    def makespan(restart_seconds: float | None) -> float:
        shown = simulate(
            plan,
            cluster,
            made.costs,
            failures=[WorkerLoss(0, 0.4)],
            in_order=False,
            withdraw_seconds=1e-3,
            retries=3,
            restart_seconds=restart_seconds,
            watch=check_invariants,
        )
        return shown.makespan

    assert makespan(None) > 3.0
    assert makespan(0.1) < 2.3
