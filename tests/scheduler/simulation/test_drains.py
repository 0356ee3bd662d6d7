"""Workers that are emptied and end while runs go on, in virtual time: nothing is lost, and no node runs twice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import make_plan
from raygrad.scheduler.simulation.scenario import WorkerDrain
from raygrad.scheduler.simulation.simulate import simulate

from ..ensembles import ensemble
from ..machine.invariants import check_invariants
from .submissions import several

SLOW = Costs(op_seconds=0.02, function_seconds=0.05, hook_seconds=0.02)
FREE = Costs(op_seconds=0.02, function_seconds=0.05, hook_seconds=0.02, call_seconds=0.0, hop_seconds=0.0)


@pytest.mark.slow
@given(data=st.data())
def test_whichever_workers_are_emptied_and_whenever_every_run_ends_with_all_of_its_nodes(graphs: Any, data: Any):
    pinned = st.sampled_from([False, False, True])
    runs = several(graphs, [SLOW, FREE], workers=st.integers(2, 4), pinned=pinned, least=4, pause=1e-2)
    submissions, cluster, costs = data.draw(runs)
    workers, last = len(cluster.workers), submissions[-1].at  # no plan made before has work for one that is gone
    drain = st.builds(WorkerDrain, st.integers(0, workers - 1), st.sampled_from([1e-6, 0.01, 0.03, 0.1]))
    drains = [one._replace(at=last + one.at) for one in data.draw(st.lists(drain, min_size=1, max_size=3))]
    options: dict[str, Any] = {
        "speeds": data.draw(st.lists(st.sampled_from([0.2, 1.0, 4.0]), min_size=workers, max_size=workers)),
        "failures": drains,
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
    assert {run for run, _ in shown.finished} == set(range(len(submissions)))
    assert {one.status for one in shown.segments} <= {"done", "withdrawn"}
    ran = Counter(
        (one.run, node)
        for one in shown.segments
        if one.status == "done"
        for node in shown.planned[one.run].plan.segments[one.segment].nodes
    )
    assert set(ran.values()) <= {1}
    assert set(ran) == {
        (run, node) for run, one in enumerate(submissions) for node in range(len(one.planned.graph.nodes))
    }


def test_the_rest_of_an_ensemble_leaves_a_worker_that_ends_when_its_segment_has_ended():
    made, cluster = ensemble([(0.3, 0.3)] * 8), Cluster.of(2)
    planned = make_plan(made.graph, (-1,) * len(made.graph.externals), made.costs, cluster, 0, b"")
    options: dict[str, Any] = {"in_order": False, "withdraw_seconds": 1e-3, "watch": check_invariants}
    static = simulate(planned, cluster, made.costs, **options)
    shown = simulate(planned, cluster, made.costs, failures=[WorkerDrain(1, 0.4)], **options)
    ((worker, at),) = shown.drained
    assert worker == 1
    assert at == pytest.approx(1.2, abs=0.01)  # what runs there at 0.4 s ends then
    assert not shown.failures[0].segments
    assert static.makespan < shown.makespan <= 8 * 0.6 * 1.05
