"""On graphs of up to nine nodes: lower bound <= best schedule there is <= every heuristic's."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from raygrad.scheduler.model.critical_path import lower_bound
from raygrad.scheduler.model.dag import Platform, dag_of
from raygrad.scheduler.placing.scheduling import schedule

from ...baselines import check_schedule, cpop, heft, peft
from .graphs import RATIOS, Case, drawn
from .optimum import optimum

HEURISTICS = (heft, cpop, peft, schedule)
ROUNDING = 1e-9


def shape(case, slowness=1.0):
    graph = drawn(case)
    return dag_of(*graph[:4]), Platform(np.array(graph.speed), slowness)


def by_listing(dag, platform):
    """The least makespan over all orders and all placements, none left out."""
    best = np.inf
    edges = list(zip(dag.source.tolist(), dag.target.tolist(), dag.transfer.tolist(), strict=True))
    for order in permutations(range(len(dag))):
        if any(order.index(one) > order.index(other) for one, other, _ in edges):
            continue
        for workers in product(range(len(platform)), repeat=len(dag)):
            free, finish = [0.0] * len(platform), [0.0] * len(dag)
            for node in order:
                here = workers[node]
                come = [
                    finish[one] + (time * platform.slowness if workers[one] != here else 0.0)
                    for one, other, time in edges
                    if other == node
                ]
                finish[node] = free[here] = max([free[here], *come]) + dag.seconds[node] / platform.speed[here]
            best = min(best, max(finish))
    return best


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("ccr", RATIOS)
@pytest.mark.parametrize(("nodes", "workers"), [(5, 2), (4, 3)])
def test_the_optimum_is_that_of_all_schedules(nodes, workers, ccr, equal):
    for seed in range(3):
        dag, platform = shape(Case(nodes, workers, ccr, equal, seed=seed), slowness=1.5)
        made = optimum(dag, platform)
        check_schedule(made, dag, platform)
        assert made.makespan == pytest.approx(by_listing(dag, platform), rel=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("ccr", RATIOS)
@pytest.mark.parametrize(("nodes", "workers"), [(6, 2), (9, 2), (8, 3), (9, 3)])
def test_no_heuristic_beats_the_optimum_nor_that_the_bound(nodes, workers, ccr, equal):
    for seed in range(4):
        dag, platform = shape(Case(nodes, workers, ccr, equal, seed=seed))
        best = optimum(dag, platform)
        check_schedule(best, dag, platform)
        assert lower_bound(dag, platform) <= best.makespan * (1 + ROUNDING)
        for heuristic in HEURISTICS:
            made = heuristic(dag, platform)
            check_schedule(made, dag, platform)
            assert best.makespan <= made.makespan * (1 + ROUNDING)


def test_nodes_of_no_time_and_graphs_of_none():
    empty, apart = dag_of([], [], [], []), dag_of([0.0, 1.0, 0.0], [0, 1], [1, 2], [1.0, 1.0])
    assert optimum(empty, Platform.of(2)).makespan == 0.0
    assert optimum(apart, Platform.of(2)).makespan == 1.0
