"""Where work that is all on one worker is cut."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import make_plan

from ..ensembles import Ensemble, ensemble


def segments(made: Ensemble, costs: Costs) -> list[float]:
    planned = make_plan(made.graph, (-1,) * len(made.graph.externals), costs, Cluster.of(1), 0, b"")
    return [one.predicted_seconds for one in planned.plan.segments]


def test_work_on_one_worker_is_cut_only_where_others_may_come():
    made = ensemble([(0.3, 0.3)] * 8)
    assert len(segments(made, made.costs)) == 1
    cut = segments(made, replace(made.costs, more_come=True))
    assert len(cut) >= 8
    assert max(cut) < 0.4
    assert abs(sum(cut) - 4.8) < 0.1


def test_small_work_is_not_cut_for_workers_that_may_come():
    made = ensemble([(0.0005, 0.0005)] * 8)
    assert len(segments(made, replace(made.costs, more_come=True))) == 1


@pytest.mark.parametrize("workers", [1, 2])
def test_no_segment_of_several_nodes_holds_more_work_than_may_be_lost_with_a_worker(builder: Any, workers: int):
    build = builder()
    value = 0
    for number in range(20):
        value = build.op("sin", value, pin=number * workers // 20)
    build.keep_on_worker(value)
    graph, costs = build.graph(), Costs(op_seconds=0.3)

    def cut(most: float) -> list[int]:
        planned = make_plan(graph, (-1,), replace(costs, recovery_time=most), Cluster.of(workers), 0, b"")
        return [len(one.nodes) for one in planned.plan.segments]

    assert max(cut(math.inf)) == 20 // workers
    assert max(cut(1.0)) == 3
    assert cut(0.1) == [1] * 20
    assert sum(cut(1.0)) == 20
