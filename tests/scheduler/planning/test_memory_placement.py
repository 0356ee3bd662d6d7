"""Graphs on workers with limited memories: what an error says would do, does."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from raygrad.errors import PlanError
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.planning import memory_placement
from raygrad.scheduler.planning.planner import make_plan

COSTS = Costs(function_seconds=1e-2)


def cluster_of(limits: list[int | None]) -> Cluster:
    return Cluster(tuple([WorkerSpec(f"worker {index}", memory=limit) for index, limit in enumerate(limits)]))


def chain(builder: Any) -> Any:
    build = builder()
    value = 0
    for _ in range(4):
        value = build.op("sin", value)
    build.keep_on_worker(value)
    return build.graph()


def test_an_error_keeps_what_it_says_when_it_is_called_or_sent_otherwise(builder: Any) -> None:
    with pytest.raises(PlanError) as caught:
        make_plan(chain(builder), (-1,), COSTS, cluster_of([8]), 0, b"")
    error = caught.value
    ((worker, memory, size),) = error.needs
    assert (worker, memory) == (0, "memory")
    assert f"needs memory={size}" in str(error)
    error.call_nodes(lambda index: f"number {index}")
    again = pickle.loads(pickle.dumps(error.with_more("; and more")))
    assert (again.needs, again.workers, str(again)) == (error.needs, (0,), f"{error}; and more")
    assert "number" in str(again)


def test_what_is_needed_where_nodes_are_placed_otherwise_is_named_too(builder: Any, monkeypatch: Any) -> None:
    """The first figure would not do, because a worker with that much memory is given more nodes."""
    placed = memory_placement._placed_and_ordered
    asked: list[tuple[int | None, ...]] = []

    def two_rounds(priced: Any, residency: Any, costs: Any, cluster: Cluster, seed: int) -> Any:
        asked.append(tuple([worker.memory for worker in cluster.workers]))
        wanted = {1: (0, 100), 2: (0, 150), 3: (1, 70)}.get(len(asked))
        if wanted is None:
            return placed(priced, residency, costs, Cluster.of(2), seed)
        raise PlanError("too small. Give it that much", workers=(wanted[0],), needs=((wanted[0], "memory", wanted[1]),))

    monkeypatch.setattr(memory_placement, "_placed_and_ordered", two_rounds)
    cluster = cluster_of([50, 60])
    with pytest.raises(PlanError) as caught:
        make_plan(chain(builder), (-1,), COSTS, cluster, 0, b"")
    assert asked == [(50, 60), (100, 60), (150, 60), (150, 70)]
    assert str(caught.value) == (
        "too small. Give it that much; nodes are placed otherwise with that: worker 0 then needs memory=150, "
        "worker 1 then needs memory=70"
    )
    assert memory_placement._with_limits(cluster, {(1, "gpu_memory"): 9}).workers[1] == replace(
        cluster.workers[1], gpu_memory=9
    )
