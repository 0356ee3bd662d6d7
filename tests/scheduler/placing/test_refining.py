from __future__ import annotations

import numpy as np

from raygrad.scheduler.model.dag import Platform, dag_of
from raygrad.scheduler.placing.draws import SeededRandom
from raygrad.scheduler.placing.listing import ListSchedule
from raygrad.scheduler.placing.problem import problem_of_dag
from raygrad.scheduler.placing.refining import POOL_SIZE, ScheduleSearch, critical_chain


def tree(depth=6):
    """A binary tree that reduces to one node, with slow edges."""
    nodes = 2**depth - 1
    source = np.arange(nodes - 1)
    target = nodes - 1 - (nodes - 2 - source) // 2
    return problem_of_dag(dag_of(np.ones(nodes), source, target, np.full(nodes - 1, 5.0)), Platform.of(4))


def search(problem, seed=0, target=0.0):
    return ScheduleSearch(problem, SeededRandom(seed), target)


def test_the_pool_is_sorted_and_small():
    made = search(tree())
    made.start(12)
    made.refine(40)
    assert made.passes == 40
    spans = [found.listed.makespan for found in made.pool]
    assert spans == sorted(set(spans))
    assert len(spans) <= POOL_SIZE


def test_refining_improves_what_passes_from_scratch_found():
    made = search(tree())
    made.start(12)
    before = made.best.listed.makespan
    made.refine(100)
    assert made.best.listed.makespan < before


def test_a_search_is_repeated_by_its_seed():
    one, other = search(tree(), 3), search(tree(), 3)
    for made in (one, other):
        made.start(12)
        made.refine(30)
    assert one.pool == other.pool


def test_a_search_ends_when_there_is_nothing_to_gain():
    made = search(problem_of_dag(dag_of([1.0, 1.0], [], [], []), Platform.of(2)), target=1.0)
    made.start(12)
    made.refine(1000)
    assert made.passes == 1


def test_the_critical_chain_names_transfers_and_what_queued():
    #  0 -> 1 across; 2 queues behind 1
    problem = problem_of_dag(dag_of([1.0, 2.0, 3.0], [0], [1], [4.0]), Platform.of(2))
    assert critical_chain(problem, ListSchedule(10.0, [0, 1, 1], [1.0, 7.0, 10.0])) == ([(0, 1)], [2])
    assert critical_chain(problem_of_dag(dag_of([], [], [], []), Platform.of(2)), ListSchedule(0.0, [], [])) == ([], [])
