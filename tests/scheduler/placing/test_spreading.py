from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from raygrad.scheduler.model.dag import Platform, dag_of
from raygrad.scheduler.placing.problem import depth_first_order
from raygrad.scheduler.placing.spreading import NodeDemands, rank_order, schedule_many_workers

from ...baselines import check_schedule


def anywhere(dag, held=None):
    return NodeDemands(demand=[0] * len(dag), bound=range(len(dag)), allowed=[None], held=held or {})


def test_equal_work_is_spread_evenly():
    dag = dag_of(np.ones(12), [], [], [])
    schedule = schedule_many_workers(dag, 4, anywhere(dag), rank_order(dag), seed=1)
    assert np.bincount(schedule.worker).tolist() == [3] * 4
    assert schedule.makespan == 3.0


def test_a_chain_stays_where_it_is():
    dag = dag_of([1.0] * 3, [0, 1], [1, 2], [0.5] * 2)
    assert schedule_many_workers(dag, 3, anywhere(dag), rank_order(dag), seed=2).worker.tolist() == [
        2,
        2,
        2,
    ]


def test_work_goes_to_what_it_reads_unless_moving_pays():
    dag = dag_of([1.0, 1.0], [], [], [])
    schedule = schedule_many_workers(dag, 2, anywhere(dag, {0: [(1, 5.0)], 1: [(1, 0.5)]}), [0, 1])
    assert schedule.worker.tolist() == [1, 0]
    assert schedule.start.tolist() == [0.0, 0.5]


def test_an_idle_gap_is_used():
    dag = dag_of([4.0, 1.0, 1.0], [0], [1], [2.0])
    demands = NodeDemands(demand=[0, 1, 1], bound=[0, 1, 2], allowed=[[0], [1]])
    schedule = schedule_many_workers(dag, 2, demands, [0, 1, 2])
    assert schedule.worker.tolist() == [0, 1, 1]
    assert schedule.start.tolist() == [0.0, 6.0, 0.0]


@pytest.mark.slow
@given(data=st.data())
def test_any_schedule_is_one_and_meets_its_demands(data):
    count = data.draw(st.integers(1, 20))
    node = st.integers(0, count - 1)
    edges = [(a, b) for a, b in data.draw(st.lists(st.tuples(node, node), max_size=40)) if a < b]
    numbers = st.sampled_from([0.1, 1.0, 5.0])
    seconds = data.draw(st.lists(numbers, min_size=count, max_size=count))
    transfer = data.draw(st.lists(numbers, min_size=len(edges), max_size=len(edges)))
    dag = dag_of(seconds, [a for a, _ in edges], [b for _, b in edges], transfer)
    workers = data.draw(st.integers(1, 5))
    some = st.lists(st.integers(0, workers - 1), min_size=1, unique=True)
    allowed = [None, data.draw(some), data.draw(some)]
    demand = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    bound = list(range(count))
    for one in data.draw(st.lists(node, max_size=5)):
        root = bound[one // 2]
        if demand[one] == demand[root] and one not in bound[one + 1 :]:
            bound[one] = root
    demands = NodeDemands(demand=demand, bound=bound, allowed=allowed, held={0: [(workers - 1, 1.0)]})
    for order in (rank_order(dag), depth_first_order(range(len(dag)), dag.edges_in(), dag.edges_out())):
        schedule = schedule_many_workers(dag, workers, demands, order, seed=3)
        check_schedule(schedule, dag, Platform.of(workers))
        for one, worker in enumerate(schedule.worker.tolist()):
            options = allowed[demand[one]]
            assert options is None or worker in options
            assert worker == schedule.worker[bound[one]]
        assert schedule.start.tolist() == schedule_many_workers(dag, workers, demands, order, seed=3).start.tolist()
