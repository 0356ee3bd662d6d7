"""Where work that is all on one worker is cut."""

from __future__ import annotations

from dataclasses import replace

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
