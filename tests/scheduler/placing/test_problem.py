from __future__ import annotations

import numpy as np

from raygrad.scheduler.model import critical_path
from raygrad.scheduler.model.dag import Platform, dag_of
from raygrad.scheduler.placing.problem import order_by_falling, problem_of_dag


def diamond():
    return dag_of([1.0, 2.0, 4.0, 1.0], [0, 0, 1, 2], [1, 2, 3, 3], [0.25, 0.25, 0.5, 0.5])


def test_a_problem_lists_edges_both_ways_and_the_pace_of_each_worker():
    problem = problem_of_dag(diamond(), Platform(np.array([1.0, 4.0]), slowness=2.0))
    assert problem.before == [[], [(0, 0.5)], [(0, 0.5)], [(1, 1.0), (2, 1.0)]]
    assert problem.after == [[(1, 0.5), (2, 0.5)], [(3, 1.0)], [(3, 1.0)], []]
    assert problem.pace == [1.0, 0.25]
    assert problem.fixed == [-1] * 4
    assert problem.group == [0, 1, 2, 3]


def test_a_turned_problem_has_its_edges_turned():
    problem = problem_of_dag(diamond(), Platform.of(2))
    turned = problem.turned()
    assert turned.before is problem.after
    assert list(turned.order()) == [3, 2, 1, 0]
    assert turned.turned() == problem


def test_ranks_are_upward_ranks_in_either_direction():
    dag = diamond()
    problem = problem_of_dag(dag, Platform.of(2))
    assert problem.upward_rank(1.0) == critical_path.upward_rank(dag, 1.0).tolist()
    assert problem.turned().upward_rank(0.5) == [1.0, 3.125, 5.125, 6.375]
    assert problem_of_dag(dag, Platform(np.array([0.5, 0.25]))).upward_rank(0.0) == [18.0, 9.0, 15.0, 3.0]


def test_equal_keys_keep_a_topological_order_in_either_direction():
    nothing = dag_of([0.0] * 3, [0, 1], [1, 2], [0.0, 0.0])
    problem = problem_of_dag(nothing, Platform.of(1))
    assert order_by_falling(problem, problem.upward_rank(1.0)) == [0, 1, 2]
    assert order_by_falling(problem.turned(), problem.turned().upward_rank(1.0)) == [2, 1, 0]


def test_depth_first_ends_one_branch_before_the_next():
    two = problem_of_dag(dag_of([1.0] * 5, [0, 1, 2, 3], [2, 3, 4, 4], [1.0] * 4), Platform.of(1))
    assert two.depth_first_order() == [0, 2, 1, 3, 4]
    assert two.turned().depth_first_order() == [4, 2, 0, 3, 1]
