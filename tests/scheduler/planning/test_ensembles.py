"""Plans of ensembles are those that a person would write."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import make_plan
from raygrad.scheduler.simulation.simulate import simulate

from ..ensembles import STYLES, Ensemble, ensemble

SEGMENTS_PER_WORKER = 24


def planned(given: Ensemble, workers: int, seed: int = 0):
    return make_plan(given.graph, (-1,) * len(given.graph.externals), given.costs, Cluster.of(workers), seed, b"key")


def contiguous(count: int, workers: int) -> list[range]:
    """Return contiguous shares that differ by one branch at most."""
    return [range(count * one // workers, count * (one + 1) // workers) for one in range(workers)]


def homes(given: Ensemble, plan) -> list[set[int]]:
    """Return, per branch, the workers of its Functions."""
    return [{plan.node_worker[node] for node in branch} for branch in given.branches]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_equal_branches_are_divided_into_contiguous_shares_forward_and_backward(style, workers):
    given = ensemble([(0.0175, 0.0175)] * 4 * workers, style)
    found = homes(given, planned(given, workers).plan)
    assert all(len(one) == 1 for one in found)
    changes = sum(one != other for one, other in pairwise(found))
    assert changes == workers - 1
    assert sorted(map(found.count, [{one} for one in range(workers)])) == [4] * workers


@pytest.mark.parametrize("style", STYLES)
def test_a_sum_of_gradients_crosses_workers_as_often_as_they_halve(style):
    given = ensemble([(0.03, 0.03)] * 16, style, out=1_000_000)
    plan = planned(given, 4).plan
    priced = given.priced
    crossing = {
        value
        for index, node in enumerate(given.graph.nodes)
        for value in node.inputs
        if node.role == "sum" and plan.node_worker[priced.maker[value]] != plan.node_worker[index]
    }
    assert len(crossing) == 3  # a tree over four shares


def check_against_hand(given: Ensemble, workers: int, shares, factor: float = 1.02, *, small: bool = True) -> None:
    cluster = Cluster.of(workers)
    made = planned(given, workers)
    ours = simulate(made, cluster, given.costs).makespan
    by_hand = simulate(given.by_hand(cluster, shares), cluster, given.costs).makespan
    assert ours <= factor * by_hand
    if small:  # else the order of nodes is one that needs less memory
        assert len(made.plan.segments) <= workers * SEGMENTS_PER_WORKER


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("count", "workers"), [(16, 2), (8, 2), (16, 4), (5, 2), (7, 3), (64, 8)])
def test_equal_branches_take_no_longer_than_by_hand(style, count, workers):
    check_against_hand(ensemble([(0.0175, 0.0175)] * count, style), workers, contiguous(count, workers))


def test_short_branches_take_no_longer_than_by_hand():
    given = ensemble([(0.001, 0.001)] * 64, "fold", kept=100_000, out=8_000)
    check_against_hand(given, 2, contiguous(64, 2), 1.05)


def test_one_heavy_branch_has_a_worker_for_itself():
    given = ensemble([(0.01, 0.02)] * 3 + [(0.08, 0.16)] + [(0.01, 0.02)] * 5, "stack")
    shares = [[3], [0, 1, 2, 4, 5, 6, 7, 8]]
    check_against_hand(given, 2, shares)


def test_one_function_more_takes_its_share_of_a_worker():
    given = ensemble([(0.02, 0.04)] * 8, "stack", extra=0.12)
    check_against_hand(given, 2, [range(3), range(3, 8)], 1.05)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_ensembles_take_no_longer_than_by_hand(data):
    workers = data.draw(st.integers(2, 6))
    count = data.draw(st.integers(1, 6)) * workers
    forward, backward = data.draw(st.floats(0.015, 0.2)), data.draw(st.floats(0.015, 0.4))
    kept = data.draw(st.sampled_from([1_000, 1_000_000, 30_000_000]))
    given = ensemble(
        [(forward, backward)] * count,
        data.draw(st.sampled_from(STYLES)),
        kept=kept,
        out=data.draw(st.sampled_from([8, 10_000, 1_000_000])),
        chained=data.draw(st.integers(1, 3)),
        costs=Costs(follow_seconds=data.draw(st.sampled_from([0.0, 0.3e-3]))),
    )
    small = kept <= 1_000_000
    check_against_hand(given, workers, contiguous(count, workers), 1.02 if small else 1.03, small=small)


@pytest.mark.parametrize("style", ["stack", "fold", "list"])
def test_no_segment_holds_more_than_other_workers_have_left(style):
    given = ensemble([(0.0175, 0.0175)] * 16, style)
    made = planned(given, 2)
    run = simulate(made, Cluster.of(2), given.costs)
    times = {trace.segment: (trace.start, trace.finish) for trace in run.segments}
    most = max(0.010, 0.05 * run.makespan)
    for index, segment in enumerate(made.plan.segments):
        start, _ = times[index]
        left = sum(
            max(times[number][1] - max(times[number][0], start), 0.0)
            for number, other in enumerate(made.plan.segments)
            if other.worker != segment.worker
        )
        longest = max(given.priced.seconds[node] for node in segment.nodes)
        assert segment.predicted_seconds <= max(most + left, 1.1 * longest)
        assert segment.predicted_seconds <= 0.6 * run.makespan
