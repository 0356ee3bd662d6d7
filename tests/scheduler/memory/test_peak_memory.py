"""Peaks of memory, reckoned by hand."""

from __future__ import annotations

from typing import Any

from raygrad.scheduler.explain.explanation import explain_plan
from raygrad.scheduler.memory.peak_memory import FOREVER, Lifetime, Peak, peak_bytes
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster
from raygrad.scheduler.planning.planner import make_plan

COSTS = Costs(context_bytes=10)


def memory(graph: Any, workers: int = 1) -> list[Peak]:
    cluster, residency = Cluster.of(workers), (-1,) * len(graph.externals)
    plan = make_plan(graph, residency, COSTS, cluster, 0, b"key").plan
    return [one.memory for one in explain_plan(graph, residency, COSTS, cluster, plan).workers]


def test_what_dies_at_a_moment_makes_room_for_what_is_born_then():
    lives = [Lifetime(0, 0.0, 1.0, 5), Lifetime(0, 1.0, 2.0, 7), Lifetime(1, 0.0, FOREVER, 3), Lifetime(1, 1.0, 2.0, 1)]
    assert peak_bytes(lives, 3) == [7, 4, 0]


def test_a_value_lives_until_its_last_reader(builder: Any):
    g = builder(size=1)  # 8 bytes each
    a = g.op("a", 0)
    b = g.op("b", a)
    g.op("c", g.op("d", b), a)
    assert memory(g.graph()) == [Peak(bytes=24, saved=0, stored=0)]  # the external goes with its reader: a, b, d


def test_what_a_vjp_reads_is_saved_until_it_has_run(builder: Any):
    g = builder(size=1)
    context, y = g.function("f", 0)  # 10 bytes of context
    z = g.op("mul", y, y)
    gz = g.op_vjp("mul", (y, y), z)
    g.function_vjp("f", context, gz, 0)
    (peak,) = memory(g.graph())
    assert peak.saved == 10 + 8
    assert peak.stored == 0  # one segment: nothing leaves it


def test_what_crosses_is_stored_by_its_maker_and_copied_to_its_reader(builder: Any):
    g = builder(size=100)
    g.op("b", g.op("a", 0, pin=0), pin=1)
    first, second = memory(g.graph(), workers=2)
    assert (first.stored, second.stored) == (800, 0)
    assert second.bytes == 1600
    assert first.bytes == 1600


def test_what_the_client_keeps_never_goes(builder: Any):
    g = builder(size=1)
    kept = [g.op("a", 0), g.op("b", 0)]
    g.keep_in_store(*kept)
    (peak,) = memory(g.graph())
    assert (peak.stored, peak.saved) == (16, 16)
