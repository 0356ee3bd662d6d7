"""The graphs of the benchmarks are what they say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from raygrad.scheduler.model.critical_path import critical_path, lower_bound
from raygrad.scheduler.model.dag import Platform
from raygrad.scheduler.placing.scheduling import schedule

from ..baselines import check_schedule, cpop, heft, peft

FILE = Path(__file__).parents[2] / "benchmarks" / "families.py"
spec = importlib.util.spec_from_file_location("benchmark_families", FILE)
assert spec is not None
assert spec.loader is not None
families = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = families  # where its dataclass looks for the file's names
spec.loader.exec_module(families)
NAMES = tuple(families.FAMILIES)


def made(name, size=300, ccr=1.0, seed=0):
    return families.make(families.FAMILIES[name], size, ccr, seed)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ccr", families.RATIOS)
def test_means_are_as_asked(name, ccr):
    dag = made(name, ccr=ccr)
    assert dag.seconds.mean() == pytest.approx(1.0)
    assert dag.transfer.mean() == pytest.approx(ccr)
    assert dag.seconds.min() > 0
    assert dag.transfer.min() > 0
    assert 0.6 * 300 <= len(dag) <= 1.3 * 300


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_follows_from_its_seed_and_its_ratio_scales_edges_alone(name):
    one, same, other, cheap = made(name), made(name), made(name, seed=1), made(name, ccr=0.1)
    for field in ("seconds", "source", "target", "transfer"):
        assert np.array_equal(getattr(one, field), getattr(same, field))
    assert not np.array_equal(one.seconds, other.seconds)
    assert np.array_equal(one.seconds, cheap.seconds)
    assert np.allclose(one.transfer, 10 * cheap.transfer)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [10, 40])
def test_small_graphs_are_graphs(name, size):
    assert 1 <= len(made(name, size=size)) <= 2.5 * size


def degrees(dag):
    return np.diff(dag.before), np.diff(dag.after)


def test_shapes():
    reads, _ = degrees(made("chain"))
    assert reads.tolist() == [0] + [1] * 299
    reads, read = degrees(made("chains"))
    assert max(reads.max(), read.max()) == 1
    assert (reads == 0).sum() > 5
    reads, read = degrees(made("out-tree"))
    assert reads.tolist() == [0] + [1] * 299
    assert {0, 2, 3} <= set(read.tolist()) <= {0, 1, 2, 3}
    _, read = degrees(made("in-tree"))
    assert read.tolist() == [1] * 299 + [0]
    reads, read = degrees(made("fork-join"))
    assert read[0] > 10
    assert reads.max() == read.max() == read[0]
    reads, _ = degrees(made("layered"))
    assert reads.max() == 4
    reads, _ = degrees(made("fft", size=80))
    assert sorted(set(reads.tolist())) == [0, 2]
    assert critical_path(made("fft", size=80)) < 5.5
    reads, read = degrees(made("cholesky", size=20))  # 4 tiles: 4 POTRF, 6 TRSM, 6 SYRK, 4 GEMM
    assert len(reads) == 20
    assert (read == 0).sum() == 1
    assert reads.max() == 3


def test_a_training_graph_goes_forward_and_back():
    dag = made("transformer", size=106)  # 4 blocks of 2 nodes, 6 microbatches
    reads, read = degrees(dag)
    assert (reads == 0).sum() == 6
    assert (read == 0).sum() == 4
    assert reads.max() == 12  # a step reads the gradients of both nodes of its block, from each microbatch


def test_an_ensemble_of_ten_thousand_nodes_has_a_thousand_members():
    reads, read = degrees(made("ensemble", size=10_000))
    assert read[0] == 1000
    assert reads[-1] == 1000
    assert len(reads) == 10_002


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [heft, cpop, peft, schedule])
@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_schedules_every_family(name, algorithm):
    unequal = Platform(np.array([1.0, 1.0, 0.5, 2.0]), slowness=0.7)
    for ccr, platform in zip(families.RATIOS, (Platform.of(5), unequal, Platform.of(3)), strict=True):
        dag = made(name, size=40, ccr=ccr)
        found = algorithm(dag, platform)
        check_schedule(found, dag, platform)
        assert found.makespan >= lower_bound(dag, platform) * (1 - 1e-9)
