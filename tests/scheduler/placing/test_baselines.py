"""HEFT, CPOP and PEFT do what their papers say: published examples, a plain transcription, anrg-saga's figures."""

from __future__ import annotations

import numpy as np
import pytest

from raygrad.errors import PlanError
from raygrad.scheduler.dag import Platform, check, dag_of, upward_rank
from raygrad.scheduler.placing.baselines import Board, cpop, heft, optimistic_costs, peft

ALL = (heft, cpop, peft)


def example(edges, times):
    """A graph numbered from 1, each edge as (from, to, time), and the nodes' times on each worker."""
    source, target, transfer = zip(*edges, strict=True)
    times = np.array(times, np.float64)
    return dag_of(times.mean(axis=1), np.array(source) - 1, np.array(target) - 1, transfer), times


def topcuoglu():
    """Figure 2 and table of "Performance-effective and low-complexity task scheduling", 2002."""
    edges = [(1, 2, 18), (1, 3, 12), (1, 4, 9), (1, 5, 11), (1, 6, 14), (2, 8, 19), (2, 9, 16), (3, 7, 23), (4, 8, 27)]
    edges += [(4, 9, 23), (5, 9, 13), (6, 8, 15), (7, 10, 17), (8, 10, 11), (9, 10, 13)]
    times = [[14, 16, 9], [13, 19, 18], [11, 13, 19], [13, 8, 17], [12, 13, 10], [13, 16, 9], [7, 15, 11], [5, 11, 14]]
    return example(edges, [*times, [18, 12, 20], [21, 7, 16]])


def arabnejad():
    """Figure 2 and table of "List scheduling algorithm for heterogeneous systems by an optimistic cost table", 2014."""
    edges = [(1, 2, 17), (1, 3, 31), (1, 4, 29), (1, 5, 13), (1, 6, 7), (2, 8, 3), (2, 9, 30), (3, 7, 16), (4, 8, 11)]
    edges += [(4, 9, 7), (5, 9, 57), (6, 8, 5), (7, 10, 9), (8, 10, 42), (9, 10, 7)]
    times = [
        [22, 21, 36],
        [22, 18, 18],
        [32, 27, 43],
        [7, 10, 4],
        [29, 27, 35],
        [26, 17, 24],
        [14, 25, 30],
        [29, 23, 36],
    ]
    return example(edges, [*times, [15, 21, 8], [13, 16, 33]])


def test_the_published_example_of_heft_and_cpop():
    dag, times = topcuoglu()
    three = Platform.of(3)
    rank = upward_rank(Board(dag, three, times).averaged, 1.0)
    assert rank.round(3).tolist() == [108.0, 77.0, 80.0, 80.0, 69.0, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert heft(dag, three, times=times).makespan == 80.0
    assert cpop(dag, three, times=times).makespan == 86.0


def test_the_published_example_of_peft():
    dag, times = arabnejad()
    three = Platform.of(3)
    table = optimistic_costs(dag, times, 1.0)
    assert table[0].tolist() == [64.0, 68.0, 86.0]
    assert peft(dag, three, times=times).makespan == 122.0
    assert heft(dag, three, times=times).makespan == 133.0


# ---- what holds of every schedule ----------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALL)
def test_no_nodes_and_no_edges(algorithm):
    empty = dag_of([], [], [], [])
    assert len(algorithm(empty, Platform.of(2)).worker) == 0
    apart = dag_of([3.0, 1.0, 1.0, 1.0, 0.0], [], [], [])
    made = algorithm(apart, Platform.of(2))
    check(made, apart, Platform.of(2))
    assert made.makespan == 3.0


@pytest.mark.parametrize("algorithm", ALL)
def test_times_must_fit(algorithm):
    dag = dag_of([1.0, 1.0], [0], [1], [1.0])
    with pytest.raises(PlanError, match=r"per node and worker, \(2, 3\), got \(2, 2\)"):
        algorithm(dag, Platform.of(3), times=np.ones((2, 2)))


@pytest.mark.parametrize("algorithm", ALL)
def test_equal_choices_go_to_the_lower_worker_and_twice_the_same(algorithm):
    dag = dag_of(np.ones(4), [0, 0, 0], [1, 2, 3], [9.0, 9.0, 9.0])
    one, two = algorithm(dag, Platform.of(3)), algorithm(dag, Platform.of(3))
    assert one.worker.tolist() == two.worker.tolist() == [0, 0, 0, 0]
    assert one.start.tolist() == [0.0, 1.0, 2.0, 3.0]
