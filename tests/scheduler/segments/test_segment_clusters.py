from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from raygrad.scheduler.model.dag import Schedule, dag_of
from raygrad.scheduler.placing.spreading import NodeDemands, rank_order, schedule_many_workers
from raygrad.scheduler.segments.segment_clusters import segment_clusters


def spread_out(dag, workers):
    demands = NodeDemands(demand=[0] * len(dag), bound=range(len(dag)), allowed=[None])
    return schedule_many_workers(dag, workers, demands, rank_order(dag))


def exchange():
    return dag_of([1.0, 1.0, 1.0, 1.0], [0, 1, 1, 0], [2, 2, 3, 3], [0.1] * 4)


def scheduled(dag, worker, start):
    start = np.array(start)
    return Schedule(np.array(worker), start, start + dag.seconds)


def test_h6_of_two_blocks_that_would_wait_for_each_other_one_is_cut():
    dag = exchange()
    packed = segment_clusters(dag, scheduled(dag, [0, 1, 0, 1], [0.0, 0.0, 1.1, 1.1]), 2, 0.25)
    assert packed.blocks == [[1], [0], [2], [3]] or packed.blocks == [[1], [0], [3], [2]]
    assert packed.seconds == pytest.approx(2 * 1.25 + 0.1)


def test_what_follows_shortly_shares_the_block():
    dag = dag_of([1.0, 0.1, 1.0], [0], [2], [0.1])
    packed = segment_clusters(dag, scheduled(dag, [0, 0, 1], [0.0, 1.0, 1.2]), 2, 0.25)
    assert packed.blocks == [[0, 1], [2]]
    packed = segment_clusters(dag, scheduled(dag, [0, 0, 1], [0.0, 1.0, 1.2]), 2, 0.05)
    assert packed.blocks == [[0], [1], [2]] or packed.blocks == [[0], [2], [1]]


def test_what_is_on_another_worker_is_waited_for():
    dag = dag_of([1.0, 1.0], [], [], [])
    schedule = scheduled(dag, [0, 0], [0.0, 1.0])
    packed = segment_clusters(dag, schedule, 2, 0.5, {1: [(1, 4.0)]})
    assert (packed.blocks, packed.seconds) == ([[0], [1]], 5.5)
    packed = segment_clusters(dag, schedule, 2, 0.5, {1: [(0, 4.0)]})
    assert (packed.blocks, packed.seconds) == ([[0, 1]], 2.5)


def test_heavy_work_does_not_wait_for_what_only_a_later_node_reads():
    """Node 2 reads what is predicted to be there in time, and may come late."""
    dag = dag_of([0.0001, 1.0, 1.0], [0], [2], [0.0001])
    schedule = scheduled(dag, [1, 0, 0], [0.0, 0.0, 1.0])
    assert segment_clusters(dag, schedule, 2, 0.001).blocks == [[0], [1], [2]]


def test_no_block_holds_much_more_than_other_workers_have_left():
    dag = dag_of([0.01] * 400, [], [], [])
    packed = segment_clusters(dag, spread_out(dag, 2), 2, 0.0003)
    work = [0.01 * len(block) for block in packed.blocks]
    for worker in (0, 1):
        mine = [one for one, home in zip(work, packed.worker, strict=True) if home == worker]
        assert mine[0] == pytest.approx(1.0)
        assert all(later <= earlier + 1e-9 for earlier, later in pairwise(mine))
        assert mine[-1] <= 0.11
        assert len(mine) <= 8


@given(data=st.data())
def test_blocks_are_in_an_order_in_which_they_can_be_submitted(data):
    count = data.draw(st.integers(1, 12))
    edges = data.draw(
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=24).map(
            lambda some: [(a, b) for a, b in some if a < b]
        )
    )
    seconds = data.draw(st.lists(st.sampled_from([0.1, 1.0, 5.0]), min_size=count, max_size=count))
    dag = dag_of(seconds, [a for a, _ in edges], [b for _, b in edges], [0.7] * len(edges))
    workers = data.draw(st.integers(1, 4))
    last = count - 1 if data.draw(st.booleans()) else -1
    packed = segment_clusters(dag, spread_out(dag, workers), workers, 0.3, None, last)
    flat = [node for block in packed.blocks for node in block]
    place = {node: position for position, node in enumerate(flat)}
    assert sorted(flat) == list(range(count))
    assert all(place[a] < place[b] for a, b in edges)
    assert all(packed.blocks)
    if last >= 0:
        assert flat[-1] == last
