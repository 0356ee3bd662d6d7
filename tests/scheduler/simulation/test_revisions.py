"""Plans that are revised while they run, in virtual time: any order of answers, withdrawals too late, failures."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import make_plan
from raygrad.scheduler.simulation.scenario import SegmentRaise, WorkerLoss
from raygrad.scheduler.simulation.simulate import simulate

from ..ensembles import ensemble as recorded
from ..machine.invariants import check_invariants
from .submissions import several

SLOW = Costs(op_seconds=0.02, function_seconds=0.05, hook_seconds=0.02)
FREE = Costs(op_seconds=0.02, function_seconds=0.05, hook_seconds=0.02, call_seconds=0.0, hop_seconds=0.0)


def ran(shown: Any) -> Counter[tuple[int, int]]:
    """Count how often each (run, node) ran to its end."""
    return Counter(
        (one.run, node)
        for one in shown.segments
        if one.status == "done"
        for node in shown.planned[one.run].plan.segments[one.segment].nodes
    )


@pytest.mark.slow
@given(data=st.data())
def test_whatever_is_withdrawn_and_whenever_every_run_ends_and_no_node_runs_twice(graphs: Any, data: Any):
    pinned = st.sampled_from([False, False, True])
    runs = several(graphs, [SLOW, FREE], workers=st.integers(2, 4), pinned=pinned, least=4, pause=1e-2)
    submissions, cluster, costs = data.draw(runs)
    workers = len(cluster.workers)
    segments = [(run, k) for run, one in enumerate(submissions) for k in range(len(one.planned.plan.segments))]
    lost = st.builds(WorkerLoss, st.integers(0, workers - 1), st.sampled_from([0.0, 0.03, 0.1, 0.3]))
    broken = st.sampled_from(segments).map(lambda one: SegmentRaise(*one))
    failures = data.draw(st.lists(lost | broken, max_size=1))
    options: dict[str, Any] = {
        "speeds": data.draw(st.lists(st.sampled_from([0.2, 1.0, 4.0]), min_size=workers, max_size=workers)),
        "failures": failures,
        "jitter": data.draw(st.sampled_from([0.0, 1.5])),
        "seed": data.draw(st.integers(0, 3)),
        "in_order": data.draw(st.booleans()),
        "window": data.draw(st.sampled_from([1, 2, 16])),
        "dispatch_seconds": data.draw(st.sampled_from([0.0, 1e-3])),
        "withdraw_seconds": data.draw(st.sampled_from([0.0, 1e-3, 0.05])),
        "recovery_time": data.draw(st.sampled_from([0.0, 0.1, float("inf")])),
    }
    shown = simulate(submissions, cluster, costs, watch=check_invariants, **options)
    assert shown == simulate(submissions, cluster, costs, **options)
    failed = {one.run for failure in shown.failures for one in failure.runs}
    finished = {run for run, _ in shown.finished}
    assert finished.isdisjoint(failed)
    assert failures or finished == set(range(len(submissions)))
    times = ran(shown)
    assert set(times.values()) <= {1}
    for run in finished:
        assert {node for one, node in times if one == run} == set(range(len(submissions[run].planned.graph.nodes)))


def ensemble(builder: Any, branches: int) -> Any:
    """Branches of two chained Functions, each with its gradient, and the sum of all."""
    build = builder()
    total = -1
    for number in range(branches):
        one = build.op("branch", 0)
        build.keep_on_worker(one)
        total = one if number == 0 else build.sum(total, one)
    build.keep_on_worker(total)
    return build.graph()


def test_an_ensemble_with_one_slow_branch_ends_about_as_early_as_a_work_queue(builder: Any):
    costs = Costs(op_seconds=1.0)
    graph = ensemble(builder, 8)
    planned = make_plan(graph, (-1,), costs, Cluster.of(2), 0, b"")
    seconds = [5.0 if index == 0 else 1.0 if node.fn == "branch" else 1e-6 for index, node in enumerate(graph.nodes)]
    options: dict[str, Any] = {"node_seconds": [seconds], "in_order": False}
    static = simulate(planned, Cluster.of(2), costs, **options)
    revised = simulate(planned, Cluster.of(2), costs, withdraw_seconds=1e-3, watch=check_invariants, **options)
    assert revised.revisions
    assert revised.makespan <= 1.15 * 6.0 < static.makespan
    assert len(revised.revisions) <= 8


def test_vjps_leave_the_worker_of_their_forwards_when_another_has_nothing_left():
    made, cluster = recorded([(0.3, 0.3)] * 8), Cluster.of(2)
    planned = make_plan(made.graph, (-1,) * len(made.graph.externals), made.costs, cluster, 0, b"")
    seconds = [5 * one if node in made.branches[0] else one for node, one in enumerate(made.priced.seconds)]
    options: dict[str, Any] = {"node_seconds": [seconds], "in_order": False, "recovery_time": 0.5}
    shown = simulate(planned, cluster, made.costs, withdraw_seconds=1e-3, watch=check_invariants, **options)
    queue = sum(seconds) / 2  # a perfect division
    assert shown.makespan <= 1.1 * queue
    assert shown == simulate(planned, cluster, made.costs, withdraw_seconds=1e-3, **options)


def test_a_run_as_predicted_is_not_disturbed(builder: Any):
    costs = Costs(op_seconds=1.0)
    planned = make_plan(ensemble(builder, 16), (-1,), costs, Cluster.of(4), 0, b"")
    static = simulate(planned, Cluster.of(4), costs, in_order=False)
    revised = simulate(planned, Cluster.of(4), costs, in_order=False, withdraw_seconds=1e-3)
    assert not revised.revisions
    assert revised.segments == static.segments
