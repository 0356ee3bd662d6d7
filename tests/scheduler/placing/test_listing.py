from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from raygrad.scheduler.model.dag import Platform, Schedule, dag_of
from raygrad.scheduler.placing.listing import PassPreferences, list_schedule, urgent_successors
from raygrad.scheduler.placing.problem import order_by_falling, problem_of_dag

from ...baselines import check_schedule, heft


def random_dag(seed, nodes=40, edges=80, transfer=9):
    rng = np.random.default_rng(seed)
    source = rng.integers(0, nodes - 1, edges)
    target = rng.integers(source + 1, nodes)
    return dag_of(rng.integers(0, 9, nodes), source, target, rng.integers(0, transfer, edges))


def forwards(problem, listed):
    finish = np.array(listed.finish)
    worker = np.array(listed.worker)
    took = np.array(problem.seconds) * np.array(problem.pace)[worker]
    if problem.backwards:
        return Schedule(worker, listed.makespan - finish, listed.makespan - finish + took)
    return Schedule(worker, finish - took, finish)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("speed", [(1, 1, 1), (1, 2, 4, 4), (1,)])
def test_a_plain_pass_by_upward_rank_is_heft(seed, speed):
    dag, platform = random_dag(seed), Platform(np.array(speed, float))
    problem = problem_of_dag(dag, platform)
    listed = list_schedule(problem, order_by_falling(problem, problem.upward_rank(1.0)))
    expected = heft(dag, platform)
    assert listed.worker == expected.worker.tolist()
    np.testing.assert_allclose(listed.finish, expected.finish)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("speed", [(1, 1, 1), (1, 2, 4, 4)])
def test_every_taste_gives_schedules(seed, backwards, speed):
    dag, platform = random_dag(seed), Platform(np.array(speed, float))
    problem = problem_of_dag(dag, platform)
    problem = problem.turned() if backwards else problem
    ranks = problem.upward_rank(1.0)
    hint = np.random.default_rng(seed).integers(0, len(speed), len(dag)).tolist()
    successors = urgent_successors(problem, ranks)
    for preferences in (
        PassPreferences(successors=successors),
        PassPreferences(hint=hint, bias=2.0),
        PassPreferences(hint=hint, bias=0.5, stickiness=0.5, successors=successors, best_fit=True),
        PassPreferences(stickiness=-1.0, best_fit=True),
    ):
        check_schedule(
            forwards(problem, list_schedule(problem, order_by_falling(problem, ranks), preferences)), dag, platform
        )


def test_an_idle_gap_is_used():
    dag = dag_of([1.0, 1.0, 3.0, 1.0], [0], [1], [4.0])
    problem = problem_of_dag(dag, Platform.of(2))
    order, fixed = [0, 1, 2, 3], [0, 1, 1, -1]
    assert list_schedule(problem, order, fixed=fixed).finish == [1.0, 6.0, 3.0, 2.0]


def test_a_strong_hint_is_followed_and_a_weak_one_is_not():
    problem = problem_of_dag(dag_of([1.0, 1.0], [0], [1], [3.0]), Platform.of(2))
    assert list_schedule(problem, [0, 1], PassPreferences(hint=[0, 1], bias=2.0)).worker == [0, 0]
    assert list_schedule(problem, [0, 1], PassPreferences(hint=[0, 1], bias=4.0)).worker == [0, 1]


def test_branches_that_join_come_together():
    problem = problem_of_dag(dag_of([1.0, 1.0, 1.0], [0, 1], [2, 2], [5.0, 5.0]), Platform.of(2))
    ranks = problem.upward_rank(1.0)
    assert list_schedule(problem, [0, 1, 2]).makespan == 7.0
    assert (
        list_schedule(problem, [0, 1, 2], PassPreferences(successors=urgent_successors(problem, ranks))).makespan == 3.0
    )


def test_who_is_keen_stays():
    problem = problem_of_dag(dag_of([1.0, 1.0, 3.0], [0, 0], [1, 2], [1.5, 1.5]), Platform.of(2))
    assert list_schedule(problem, [0, 2, 1], PassPreferences()).worker == [0, 1, 0]
    assert list_schedule(problem, [0, 2, 1], PassPreferences(stickiness=1.1)).worker == [0, 0, 0]


def test_groups_go_together_and_only_where_they_may():
    dag = random_dag(3)
    problem = problem_of_dag(dag, Platform.of(3))
    tied = replace(problem, group=[node % 5 for node in range(len(dag))], allowed={1: (2,), 2: (1, 2)})
    tied.fixed[0] = 1
    for one in (tied, tied.turned()):
        hint = list_schedule(one, list(one.order())).worker
        for preferences in (
            PassPreferences(),
            PassPreferences(hint=hint, bias=1.0, successors=urgent_successors(one, one.upward_rank(1.0))),
        ):
            listed = list_schedule(one, order_by_falling(one, one.upward_rank(1.0)), preferences)
            check_schedule(forwards(one, listed), dag, Platform.of(3))
            by_group = [set(listed.worker[group::5]) for group in range(5)]
            assert all(len(workers) == 1 for workers in by_group)
            assert by_group[:2] == [{1}, {2}]
            assert by_group[2] <= {1, 2}
