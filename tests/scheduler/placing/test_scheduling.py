from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from raygrad.errors import PlanError
from raygrad.scheduler.model.critical_path import lower_bound
from raygrad.scheduler.model.dag import Platform, dag_of
from raygrad.scheduler.placing.scheduling import schedule

from ...baselines import check_schedule, heft


@st.composite
def dags(draw):
    count = draw(st.integers(0, 30))
    seconds = draw(st.lists(st.integers(0, 8), min_size=count, max_size=count))
    edges = []
    if count > 1:
        pairs = st.tuples(st.integers(0, count - 2), st.integers(1, count - 1)).filter(lambda pair: pair[0] < pair[1])
        edges = draw(st.lists(st.tuples(pairs, st.integers(0, 20)), max_size=3 * count))
    source, target = [pair[0] for pair, _ in edges], [pair[1] for pair, _ in edges]
    return dag_of(seconds, source, target, [cost for _, cost in edges])


@pytest.mark.slow
@settings(deadline=None)  # no test asserts a time
@given(dag=dags(), speed=st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=5), seed=st.integers(0, 3))
def test_a_schedule_is_one_and_never_worse_than_that_of_heft(dag, speed, seed):
    platform = Platform(np.array(speed, float), slowness=0.5)
    made = schedule(dag, platform, seed)
    check_schedule(made, dag, platform)
    assert made.makespan >= lower_bound(dag, platform) * (1 - 1e-9)
    assert made.makespan <= heft(dag, platform).makespan * (1 + 1e-9)
    again = schedule(dag, platform, seed)
    assert made.worker.tolist() == again.worker.tolist()
    assert made.start.tolist() == again.start.tolist()


def test_a_platform_without_workers_is_refused():
    with pytest.raises(PlanError, match="no workers"):
        schedule(dag_of([1.0], [], [], []), Platform.of(0))


def test_a_tree_with_slow_edges_is_placed_better_than_by_heft():
    nodes = 255
    source = np.arange(nodes - 1)
    target = nodes - 1 - (nodes - 2 - source) // 2
    dag = dag_of(np.ones(nodes), source, target, np.full(nodes - 1, 5.0))
    platform = Platform.of(8)
    assert schedule(dag, platform).makespan <= 0.92 * heft(dag, platform).makespan
