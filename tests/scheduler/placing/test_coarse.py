from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from raygrad.scheduler.model.dag import dag_of
from raygrad.scheduler.placing import coarse as module
from raygrad.scheduler.placing.coarse import coarsen


def free(dag):
    return np.zeros(len(dag), np.int64), np.arange(len(dag))


def chains(count, length):
    source = [chain * length + one for chain in range(count) for one in range(length - 1)]
    return dag_of(np.ones(count * length), source, [one + 1 for one in source], np.full(len(source), 0.5))


def test_a_chain_becomes_one_node():
    found = coarsen(chains(3, 5), *free(chains(3, 5)), workers=3)
    assert found.dag.seconds.tolist() == [5.0] * 3
    assert len(found.dag.source) == 0
    assert found.cluster.tolist() == [0] * 5 + [1] * 5 + [2] * 5


def test_what_is_asked_of_a_worker_keeps_nodes_apart():
    dag = chains(1, 4)
    found = coarsen(dag, np.array([0, 0, 1, 1]), np.arange(4), workers=1)
    assert found.cluster.tolist() == [0, 0, 1, 1]
    assert found.demand.tolist() == [0, 1]


def test_branches_of_little_work_join_and_long_ones_do_not():
    source, target = [0] * 4 + [1, 2, 3, 4], [1, 2, 3, 4] + [5] * 4
    short = dag_of([1.0, 0.1, 0.1, 0.1, 0.1, 0.1], source, target, [2.0] * 8)
    assert len(coarsen(short, *free(short), workers=1, nodes=1).dag) == 1
    long = dag_of([1.0, 90.0, 90.0, 90.0, 90.0, 1.0], source, target, [2.0] * 8)
    assert len(coarsen(long, *free(long), workers=1, nodes=6).dag) >= 4


def test_what_is_bound_forwards_and_backwards_stays_parted():
    """A chain and its backward: merging the forward nodes must not bind all of backward to one worker."""
    length = 40
    forward = list(range(length))
    back = [2 * length - 1 - one for one in forward]  # back[i] reads forward[i] and back[i + 1]
    source = [*forward[:-1], forward[-1], *forward[:-1], *back[1:]]
    target = [*forward[1:], back[-1], *back[:-1], *back[:-1]]
    dag = dag_of(np.ones(2 * length), source, target, np.full(len(source), 3.0))
    bound = np.arange(2 * length)
    bound[back] = forward
    found = coarsen(dag, np.zeros(2 * length, np.int64), bound, workers=2, nodes=10)
    assert len(found.dag) < 50
    assert len({*found.bound.tolist()}) > 2


@pytest.mark.slow
@given(data=st.data())
def test_clusters_make_a_graph_of_their_own(data, monkeypatch_levels):
    count = data.draw(st.integers(1, 30))
    node = st.integers(0, count - 1)
    edges = [(a, b) for a, b in data.draw(st.lists(st.tuples(node, node), max_size=60)) if a < b]
    seconds = data.draw(st.lists(st.sampled_from([0.1, 1.0, 5.0]), min_size=count, max_size=count))
    dag = dag_of(seconds, [a for a, _ in edges], [b for _, b in edges], [0.7] * len(edges))
    demand = np.array(data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)), np.int64)
    bound = np.arange(count)
    for one in data.draw(st.lists(node, max_size=8)):
        to = data.draw(node)
        if to < one and bound[to] == to and demand[to] == demand[one] and not (bound == one).sum() > 1:
            bound[one] = to
    nodes, most = data.draw(st.sampled_from([(1, 2), (4, 6), (10, 10), (100, 100)]))
    found = coarsen(dag, demand, bound, data.draw(st.integers(1, 3)), nodes, most)
    small = found.dag
    assert (small.source < small.target).all()
    assert np.bincount(found.cluster, dag.seconds).tolist() == pytest.approx(small.seconds.tolist())
    assert (found.demand[found.cluster] == demand).all()
    assert (found.bound[found.bound] == found.bound).all()
    assert (found.bound[found.cluster] == found.bound[found.cluster[bound]]).all()
    between = {(int(found.cluster[a]), int(found.cluster[b])) for a, b in edges}
    assert {(a, b) for a, b in between if a != b} == {*zip(small.source.tolist(), small.target.tolist(), strict=True)}
    again = coarsen(dag, demand, bound, 2, nodes, most)
    assert again.cluster.tolist() == coarsen(dag, demand, bound, 2, nodes, most).cluster.tolist()


@pytest.fixture(scope="module")
def monkeypatch_levels():
    """Levels of more than two nodes are wide, and passes are made for few nodes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "NARROW_LEVEL", 2)
        patch.setattr(module, "MIN_MERGEABLE", 0.0)
        yield
