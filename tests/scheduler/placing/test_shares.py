from __future__ import annotations

from hypothesis import given, strategies as st

from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.dag import Platform, dag_of
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.model.priced_graph import PricedGraph
from raygrad.scheduler.placing.branches import Branches
from raygrad.scheduler.placing.constraints import find_constraints
from raygrad.scheduler.placing.place import problem_of_graph
from raygrad.scheduler.placing.problem import problem_of_dag
from raygrad.scheduler.placing.shares import place_branches

from ..conftest import random_graphs

LIGHT = 1e-4


def problem(seconds, edges, workers=2, group=None):
    dag = dag_of(seconds, [a for a, _ in edges], [b for _, b in edges], [0.001] * len(edges))
    return problem_of_dag(dag, Platform.of(workers), group=group)


def test_a_chain_has_no_shares():
    assert list(place_branches(problem([1.0] * 6, [(one, one + 1) for one in range(5)]))) == []


def test_chains_are_branches_in_whatever_order_they_were_recorded():
    """First all firsts, then all seconds: 0 -> 4, 1 -> 5, 2 -> 6, 3 -> 7."""
    first, *_ = place_branches(problem([1.0] * 8, [(one, one + 4) for one in range(4)]))
    assert first == [0, 0, 1, 1, 0, 0, 1, 1]


def test_branches_of_unknown_seconds_are_divided_after_the_others_of_their_level():
    """Two chains and three, of which the three begin with a guess: were they one share, a worker might be left idle."""
    given = problem([1.0] * 10, [(one, one + 5) for one in range(5)])
    for placement in place_branches(given, unknown={2, 3, 4}):
        assert placement[:5] == placement[5:]
        assert sorted(placement[:2]) == [0, 1]
        assert set(placement[2:5]) == {0, 1}


def test_what_is_left_goes_to_the_workers_that_have_less():
    given = problem([1.0] * 4, [], workers=2)
    for seed in (0, 1):
        for placement in place_branches(given, seed, unknown={3}):
            assert sorted(placement.count(worker) for worker in (0, 1)) == [2, 2]
            assert len({*placement[:3]}) == 2


def test_what_several_branches_share_is_a_level_of_its_own():
    """An encoder, and four heads that read it."""
    given = problem([1.0] * 5, [(0, one) for one in range(1, 5)])
    assert Branches(given).levels == [[0], [1, 2, 3, 4]]
    first, *_ = place_branches(given)
    assert first in ([0, 0, 0, 1, 1], [0, 1, 1, 0, 0])


def test_a_fold_crosses_workers_once_and_is_gathered_by_the_second_placement():
    """Four branches, then a fold of their losses: 4 = 0 + 1, 5 = 4 + 2, 6 = 5 + 3."""
    given = problem([1.0] * 4 + [LIGHT] * 3, [(0, 4), (1, 4), (4, 5), (2, 5), (5, 6), (3, 6)])
    fold, gathered, _ = place_branches(given)
    assert fold == [0, 0, 1, 1, 0, 1, 1]
    assert gathered == [0, 0, 1, 1, 0, 0, 0]


def test_the_last_placement_balances_unequal_branches():
    given = problem([5.0, 1.0, 1.0, 1.0, 1.0, 4.0, 1.0], [])
    *_, balanced = place_branches(given)
    assert sum(took for took, worker in zip(given.seconds, balanced, strict=True) if worker) == 7.0


def test_a_tied_backward_belongs_to_its_forward_though_it_reads_all_others():
    """Four forwards, a join, and four backwards that read it."""
    group = [0, 1, 2, 3, 4, 0, 1, 2, 3]
    edges = [(one, 4) for one in range(4)] + [(4, one) for one in range(5, 9)]
    first, *_ = place_branches(problem([1.0] * 4 + [LIGHT] + [1.0] * 4, edges, group=group))
    assert first[:4] == first[5:] == [0, 0, 1, 1]


@given(data=st.data())
def test_constraints_are_kept(data):
    graph = data.draw(random_graphs(pins=3, least=1))
    residency = data.draw(st.lists(st.integers(-1, 2), min_size=len(graph.externals), max_size=len(graph.externals)))
    priced = PricedGraph(graph, Costs())
    constraints = find_constraints(priced, residency, Cluster.of(3))
    given = problem_of_graph(priced, constraints, residency, 3)
    held = len(given) - len(graph.nodes)
    for placement in place_branches(given, data.draw(st.integers(0, 5))):
        homes = placement[held:]
        assert all(0 <= home < 3 for home in homes)
        for index, root in enumerate(constraints.group):
            assert homes[index] == homes[root]
            assert homes[index] == constraints.forced.get(root, homes[index])
