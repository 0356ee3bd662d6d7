from __future__ import annotations

import numpy as np
import pytest

from raygrad.errors import PlanError
from raygrad.scheduler.model.critical_path import critical_path, lower_bound, node_levels, upward_rank
from raygrad.scheduler.model.dag import Platform, Schedule, dag_of, dag_of_merged_edges

from ...baselines import check_schedule


def diamond():
    return dag_of([1.0, 2.0, 4.0, 1.0], [2, 0, 1, 0], [3, 2, 3, 1], [0.5, 0.25, 0.5, 0.25])


def test_edges_are_sorted_both_ways():
    dag = diamond()
    assert dag.source.tolist() == [0, 0, 1, 2]
    assert dag.target.tolist() == [1, 2, 3, 3]
    assert dag.before.tolist() == [0, 0, 1, 2, 4]
    assert dag.outgoing.tolist() == [0, 1, 2, 3]
    assert dag.after.tolist() == [0, 2, 3, 4, 4]
    assert len(dag) == 4


def test_bounds_levels_and_ranks():
    dag = diamond()
    assert node_levels(dag).tolist() == [0, 1, 1, 2]
    assert critical_path(dag) == 6.0
    assert lower_bound(dag, Platform.of(1)) == 8.0
    assert lower_bound(dag, Platform.of(2)) == 6.0
    assert lower_bound(dag, Platform(np.array([2.0, 2.0]))) == 3.0
    assert upward_rank(dag, 0.0).tolist() == [6.0, 3.0, 5.0, 1.0]
    assert upward_rank(dag, 1.0).tolist() == [6.75, 3.5, 5.5, 1.0]
    empty = dag_of([], [], [], [])
    assert lower_bound(empty, Platform.of(2)) == critical_path(empty) == 0.0


@pytest.mark.parametrize(
    ("seconds", "source", "target", "transfer", "match"),
    [
        ([1.0, 1.0], [1], [0], [0.0], "from a node to a later one of the 2"),
        ([1.0, 1.0], [0], [2], [0.0], "from a node to a later one"),
        ([1.0, 1.0], [-1], [1], [0.0], "from a node to a later one"),
        ([1.0, -1.0], [0], [1], [0.0], "not negative"),
        ([1.0, 1.0], [0], [1], [np.nan], "finite"),
        ([1.0, 1.0], [0], [1], [], "equal lengths"),
    ],
)
def test_what_is_no_graph_is_refused(seconds, source, target, transfer, match):
    with pytest.raises(PlanError, match=match):
        dag_of(seconds, source, target, transfer)


def schedule(worker, start, dag, platform):
    worker, start = np.array(worker), np.array(start)
    return Schedule(worker, start, start + dag.seconds / platform.speed[worker])


def test_a_schedule_is_checked():
    dag, two = diamond(), Platform.of(2)
    right = schedule([0, 1, 0, 0], [0.0, 1.25, 1.0, 5.0], dag, two)
    check_schedule(right, dag, two)
    assert right.makespan == 6.0
    for worker, start, match in (
        ([0, 1, 0, 0], [0.0, 1.0, 1.0, 5.0], "node 1 starts before what node 0 makes"),
        ([0, 0, 0, 0], [0.0, 1.0, 2.0, 7.0], "nodes 1 and 2 run at once on worker 0"),
        ([0, 2, 0, 0], [0.0, 1.25, 1.0, 5.0], "on no worker"),
    ):
        made = Schedule(np.array(worker), np.array(start), np.array(start) + dag.seconds)
        with pytest.raises(PlanError, match=match):
            check_schedule(made, dag, two)
    with pytest.raises(PlanError, match="node 2 does not run for its time"):
        check_schedule(Schedule(right.worker, right.start, right.finish + np.array([0, 0, 1.0, 0])), dag, two)
    slow = Platform(np.ones(2), slowness=2.0)
    with pytest.raises(PlanError, match="node 1 starts before"):
        check_schedule(right, dag, slow)


def test_edges_between_the_same_nodes_become_one():
    dag = dag_of_merged_edges(
        np.ones(3), np.array([1, 0, 0, 0]), np.array([2, 2, 1, 1]), np.array([0.5, 1.0, 2.0, 3.0])
    )
    plain = dag_of(np.ones(3), [0, 0, 1], [1, 2, 2], [3.0, 1.0, 0.5])
    for name in ("seconds", "source", "target", "transfer", "before", "outgoing", "after"):
        assert getattr(dag, name).tolist() == getattr(plain, name).tolist()
    assert len(dag_of_merged_edges(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))) == 0
