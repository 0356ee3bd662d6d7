"""The bound that counts communication is one: no schedule of a small graph is below it, and it is sometimes reached."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from raygrad.scheduler.model.critical_path import lower_bound
from raygrad.scheduler.model.dag import Platform, dag_of

TESTS = Path(__file__).parents[1]


def loaded(file: Path):
    spec = importlib.util.spec_from_file_location(f"benchmark_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bounds = loaded(TESTS.parent / "benchmarks" / "bounds.py")


@pytest.fixture(scope="module")
def small():
    """Graphs of up to nine nodes, with workers and the least makespan."""
    graphs, best = (loaded(TESTS / "scheduler" / "placing" / f"{name}.py") for name in ("graphs", "optimum"))
    found = []
    sizes = [(5, 2), (7, 2), (7, 3), (9, 2), (9, 3), (9, 3), (9, 2), (8, 3), (6, 2), (8, 2), (8, 3), (9, 3)]
    for seed, (nodes, workers) in enumerate(sizes):
        for ccr in (0.1, 1.0, 5.0):
            for plain in (False, True):
                drawn = graphs.drawn(graphs.Case(nodes, workers, ccr, True, plain, seed))
                dag, platform = dag_of(*drawn[:4]), Platform(np.array(drawn.speed), slowness=0.8)
                found.append((dag, platform, best.optimum(dag, platform).makespan))
    for ccr in (0.1, 1.0, 5.0):
        for seed in range(3):
            draw = np.random.default_rng(seed).uniform
            one, two = [0, 0, 0, 1, 2, 3, 4, 4, 5, 6], [1, 2, 3, 4, 4, 4, 5, 6, 7, 7]  # two stages
            dag = dag_of(draw(0.2, 1.8, 8), one, two, ccr * draw(0.2, 1.8, len(one)))
            assert bounds.barriers(dag) == [0, 4, 7]
            found.append((dag, Platform.of(2), best.optimum(dag, Platform.of(2)).makespan))
    return found


@pytest.mark.slow
def test_no_schedule_is_below_the_bound_and_it_is_no_less_than_the_plain_one(small):
    closer = 0
    for dag, platform, makespan in small:
        bound = bounds.communicating_bound(dag, platform)
        assert lower_bound(dag, platform) <= bound <= makespan * (1 + 1e-9)
        closer += bound > lower_bound(dag, platform) * 1.01
    assert closer >= len(small) / 4


def test_what_a_fork_costs_is_counted():
    fork = dag_of([1.0, 1.0, 1.0, 1.0], [0, 0, 1, 2], [1, 2, 3, 3], [5.0, 5.0, 5.0, 5.0])
    assert lower_bound(fork, Platform.of(2)) == 3.0
    assert bounds.communicating_bound(fork, Platform.of(2)) == 4.0  # all on one worker
    twice = dag_of([1.0, 1.0], [0, 0], [1, 1], [2.0, 3.0])
    assert bounds.communicating_bound(twice, Platform.of(2)) == 2.0


def test_it_is_for_equal_workers():
    with pytest.raises(ValueError, match="speed 1"):
        bounds.communicating_bound(dag_of([1.0], [], [], []), Platform(np.array([1.0, 2.0])))
