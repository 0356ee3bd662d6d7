"""HEFT, CPOP and PEFT do what their papers say: published examples, a plain transcription, anrg-saga's figures."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from raygrad.errors import PlanError
from raygrad.scheduler.model.critical_path import upward_rank
from raygrad.scheduler.model.dag import Platform, dag_of

from ...baselines import WorkerTimeline, check_schedule, cpop, heft, optimistic_cost_table, peft
from .graphs import AGAINST_SAGA, RATIOS, Case, drawn

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
    rank = upward_rank(WorkerTimeline(dag, three, times).averaged, 1.0)
    assert rank.round(3).tolist() == [108.0, 77.0, 80.0, 80.0, 69.0, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert heft(dag, three, times=times).makespan == 80.0
    assert cpop(dag, three, times=times).makespan == 86.0


def test_the_published_example_of_peft():
    dag, times = arabnejad()
    three = Platform.of(3)
    table = optimistic_cost_table(dag, times, 1.0)
    assert table[0].tolist() == [64.0, 68.0, 86.0]
    assert peft(dag, three, times=times).makespan == 122.0
    assert heft(dag, three, times=times).makespan == 133.0


# ---- anrg-saga -----------------------------------------------------------------------------------------------------

RECORD = Path(__file__).with_name("record_saga.py")
RECORDED = json.loads(RECORD.with_name("saga.json").read_text())["makespans"]


def shape(graph):
    return dag_of(*graph[:4]), Platform(np.array(graph.speed))


def test_what_was_recorded_is_what_shall_be_compared():
    assert [tuple(one[field] for field in Case._fields) for one in RECORDED] == [tuple(case) for case in AGAINST_SAGA]
    assert sum("heft" in one for one in RECORDED) >= 30


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda one: "-".join(str(one[field]) for field in Case._fields))
def test_heft_and_cpop_are_those_of_saga(recorded):
    dag, workers = shape(drawn(Case(*(recorded[field] for field in Case._fields))))
    share = (len(workers) - 1) / (len(workers) + 1)  # see record_saga.py
    for name, algorithm in (("heft", heft), ("cpop", cpop), ("cpop_as_released", cpop)):
        if name in recorded:
            made = algorithm(dag, workers, share=share)
            check_schedule(made, dag, workers)
            assert made.makespan == pytest.approx(recorded[name], rel=1e-9), name


@pytest.mark.slow
def test_the_record_is_what_saga_gives():
    pytest.importorskip("saga", reason="anrg-saga is not installed: its figures are those recorded in saga.json")
    done = subprocess.run([sys.executable, str(RECORD), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ---- a plain transcription -----------------------------------------------------------------------------------------


def plainly(dag, times, order, forced, later):
    """Workers and starts, each node of `order` on `forced` or where its finish plus `later` is least, by looping over
    everything."""
    workers = times.shape[1]
    worker, start, finish = np.full(len(dag), -1), np.zeros(len(dag)), np.zeros(len(dag))
    for node in order:
        edges = np.flatnonzero(dag.target == node)
        choices = []
        for one in range(workers) if node not in forced else [forced[node]]:
            begin = 0.0
            for edge in edges:
                source = dag.source[edge]
                begin = max(begin, finish[source] + (dag.transfer[edge] if worker[source] != one else 0.0))
            for other in sorted(np.flatnonzero(worker == one), key=lambda other: start[other]):
                if begin + times[node, one] <= start[other]:
                    break
                begin = max(begin, finish[other])
            choices.append((begin + times[node, one] + later[node, one], one, begin))
        _, worker[node], start[node] = min(choices)
        finish[node] = start[node] + times[node, worker[node]]
    return worker, start


def longest(dag, seconds, starts, ends):
    """Per node the longest time over all ways that go from it along edges, from `starts` to `ends`."""

    @cache
    def of(node):
        ways = [dag.transfer[edge] + of(ends[edge]) for edge in np.flatnonzero(starts == node)]
        return seconds[node] + max(ways, default=0.0)

    return np.array([of(node) for node in range(len(dag))])


@pytest.mark.parametrize("ccr", RATIOS)
@pytest.mark.parametrize("seed", range(4))
def test_each_is_what_its_paper_says_word_by_word(ccr, seed):
    dag, workers = shape(drawn(Case(25, 3, ccr, seed=seed)))
    times = dag.seconds[:, None] / workers.speed
    mean = times.mean(axis=1)
    nothing = np.zeros_like(times)
    up = longest(dag, mean, dag.source, dag.target)
    down = longest(dag, mean, dag.target, dag.source) - mean

    def ready_first(priority):
        order = []
        while len(order) < 25:
            ready = [n for n in range(25) if n not in order and {*dag.source[dag.target == n].tolist()} <= {*order}]
            order.append(max(ready, key=lambda node: priority[node]))
        return order

    @cache
    def optimistic(node, one):
        return max(
            (
                min(
                    optimistic(dag.target[edge], other)
                    + times[dag.target[edge], other]
                    + (dag.transfer[edge] if other != one else 0.0)
                    for other in range(3)
                )
                for edge in np.flatnonzero(dag.source == node)
            ),
            default=0.0,
        )

    critical = np.flatnonzero(np.isclose(up + down, up.max(), rtol=1e-12))
    favoured = int(times[critical].sum(axis=0).argmin())
    table = np.array([[optimistic(node, one) for one in range(3)] for node in range(25)])
    for made, order, forced, later in (
        (heft(dag, workers), np.argsort(-up), {}, nothing),
        (cpop(dag, workers), ready_first(up + down), dict.fromkeys(critical.tolist(), favoured), nothing),
        (peft(dag, workers), ready_first(table.mean(axis=1)), {}, table),
    ):
        worker, start = plainly(dag, times, order, forced, later)
        assert made.worker.tolist() == worker.tolist()
        assert made.start == pytest.approx(start, rel=1e-12)


# ---- what holds of every schedule ----------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALL)
def test_no_nodes_and_no_edges(algorithm):
    empty = dag_of([], [], [], [])
    assert len(algorithm(empty, Platform.of(2)).worker) == 0
    apart = dag_of([3.0, 1.0, 1.0, 1.0, 0.0], [], [], [])
    made = algorithm(apart, Platform.of(2))
    check_schedule(made, apart, Platform.of(2))
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
