import numpy as np

from raygrad.scheduler.model.critical_path import critical_path, lower_bound, node_levels, upward_rank
from raygrad.scheduler.model.dag import Platform, dag_of


def diamond():
    return dag_of([1.0, 2.0, 4.0, 1.0], [2, 0, 1, 0], [3, 2, 3, 1], [0.5, 0.25, 0.5, 0.25])


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
