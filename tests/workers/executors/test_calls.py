"""What a call brings, reads and waits for, from its plan and from where earlier values are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from raygrad.proto.ir.program import Item, Pinned
from raygrad.scheduler.machine.commands import RunSegment
from raygrad.scheduler.model.plan import Cluster, InStore, OnWorker
from raygrad.scheduler.planning.planner import Planned, Planner
from raygrad.workers.executors import calls
from raygrad.workers.executors.base import ObjectId, SegmentId, Work, value_object
from raygrad.workers.executors.calls import (
    LocatedExternal,
    SuppliedExternal,
    key_of,
    residency_of,
    upcoming_programs,
    work_of,
)


def planned(graph: Any, *residency: int) -> Planned:
    return Planner(Cluster.of(2)).plan(graph, residency, b"key")


def work(plan: Planned, segment: int, *externals: SuppliedExternal | LocatedExternal) -> Work:
    worker = plan.plan.segments[segment].worker
    return work_of(RunSegment(run=3, segment=segment, attempt=1, worker=worker), plan, externals, (Pinned(1, 2),))


def test_a_call_names_its_program_its_attempt_and_what_is_to_be_let_go(graphs: Any):
    g = graphs()
    g.keep(g.mul(0, 0))
    plan = planned(g.graph(), -1)
    plan = plan._replace(
        plan=replace(plan.plan, headroom=(("cpu", (70,)),), limits=(("cpu", (90,)), ("cuda:0", (-1,))))
    )
    array = np.ones(4)
    made = work(plan, 0, SuppliedExternal(array))
    run, segment, attempt, program, values, unpin, headroom, limits, paths = made.call
    assert (run, segment, attempt, unpin, headroom) == (3, 0, 1, (Pinned(1, 2),), (("cpu", 70),))
    assert (limits, paths) == ((("cpu", 90),), ())
    assert program == key_of(plan.plan, 0)
    assert values[0] is array
    assert (made.arguments, made.after, made.program) == ((), (), plan.programs[0])


def test_what_another_segment_made_is_read_from_what_it_returned(graphs: Any):
    g = graphs()
    g.keep(g.mul(g.mul(0, 0, pin=0), 0, pin=1))
    plan = planned(g.graph(), -1)
    assert work(plan, 1, SuppliedExternal(np.ones(4))).arguments == (ObjectId(3, 0, 0),)


def test_a_value_of_an_earlier_run_is_named_by_where_it_is(graphs: Any):
    g = graphs(4)
    g.keep(g.mul(g.mul(0, 1, pin=0), g.mul(2, 3, pin=0), pin=0))
    here = LocatedExternal(1, 7, OnWorker(0, 5), 0)
    there = LocatedExternal(1, 8, OnWorker(1, 6), 1)
    stored, beside = LocatedExternal(2, 9, InStore(4, 0, 1), -1), LocatedExternal(2, 10, InStore(4, 0, 2), -1)
    sources = (here, there, stored, beside)
    plan = planned(g.graph(), *map(residency_of, sources))
    made = work(plan, 0, *sources)
    assert made.call.externals == (Pinned(1, 7), Item(0, 0), Item(1, 1), Item(1, 2)), "an object is read once"
    assert made.arguments == (value_object(1, 8), ObjectId(2, 4, 0))
    assert made.after == (SegmentId(1, 5),), "it is there once that has ended"
    assert residency_of(SuppliedExternal(1.0)) == -1


def test_programs_that_come_soon_are_those_of_the_same_worker_up_to_a_number_of_nodes(graphs: Any, monkeypatch: Any):
    g = graphs()
    value = 0
    for worker in (0, 1, 0, 1, 0):
        value = g.mul(value, value, pin=worker)
    g.keep(value)
    plan = planned(g.graph(), -1)
    assert [key for key, _ in upcoming_programs(plan, 0)] == [key_of(plan.plan, 2), key_of(plan.plan, 4)]
    assert work(plan, 3, SuppliedExternal(np.ones(4))).upcoming() is not None
    monkeypatch.setattr(calls, "LOOKAHEAD_NODES", 1)
    assert [key for key, _ in upcoming_programs(plan, 0)] == [key_of(plan.plan, 2)]
    monkeypatch.setattr(calls, "LOOKAHEAD_SEGMENTS", 1)
    assert list(upcoming_programs(plan, 0)) == []
