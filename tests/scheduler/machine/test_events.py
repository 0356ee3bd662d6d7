import dataclasses
from dataclasses import replace
from typing import get_args

import pytest

from raygrad.scheduler.machine.events import Event, SubmittedSegment, priorities, run_submitted
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.plan import Cluster, InStore, OnWorker
from raygrad.scheduler.planning.planner import make_plan


@pytest.mark.parametrize("event", get_args(Event))
def test_every_event_is_frozen_and_carries_its_time(event):
    assert {"at"} <= {field.name for field in dataclasses.fields(event)}
    assert event.__dataclass_params__.frozen
    assert all(field.kw_only for field in dataclasses.fields(event))


def test_a_plan_is_submitted_with_what_the_machine_has_to_know(builder):
    build = builder(externals=3)
    context, y = build.function("f", 0, 1, pin=0)
    z = build.op("add", y, 2, pin=1)
    build.function_vjp("f", context, z, 0)
    build.keep_on_worker(z)
    build.keep_in_store(context)
    plan = make_plan(build.graph(), (-1, 0, 1), Costs(), Cluster.of(2), 0, b"").plan
    event = run_submitted(plan, at=2.0, run=7, sources=[None, (3, 11), (3, 11)])
    assert (event.at, event.run, event.open_ended) == (2.0, 7, False)
    assert [one.seconds for one in event.segments] == [one.predicted_seconds for one in plan.segments]
    first, second, third = [replace(one, seconds=0.0, priority=0.0) for one in event.segments]
    assert first == SubmittedSegment(worker=0, reads=((3, 11),), exports=(True, False))
    assert second == SubmittedSegment(worker=1, imports=((0, 1),), reads=((3, 11),), exports=(False,), pins=(z,))
    assert third == SubmittedSegment(worker=0, imports=((0, 0), (1, 0)))
    assert event.kept == ((context, InStore(0, 0, 0)), (z, OnWorker(1, 1)))


def test_a_kept_pin_that_its_own_run_reads_again_is_among_the_reads(builder):
    build = builder()
    a = build.op("sin", 0, pin=0)
    b = build.op("cos", a, pin=1)
    build.op("add", a, b, pin=0)
    c = build.op("sin", 0, pin=0)
    build.op("add", c, b, pin=0)
    build.keep_on_worker(c)
    plan = make_plan(build.graph(), (-1,), Costs(call_seconds=0.0), Cluster.of(2), 0, b"").plan
    readers = [number for number, segment in enumerate(plan.segments) if (c, False) in segment.unpins]
    assert readers
    event = run_submitted(plan, at=0.0, run=4, sources=[None])
    for number, segment in enumerate(event.segments):
        assert ((4, c) in segment.reads) == (number in readers)


def test_the_priority_of_a_segment_is_the_work_of_the_longest_chain_that_waits_for_it(builder):
    build = builder()
    first = build.function("first", 0, pin=0)[1]
    long = build.function("long", first, pin=1)[1]
    build.function("short", first, pin=0)
    build.function("last", long, pin=0)
    plan = make_plan(build.graph(), (-1,), Costs(call_seconds=0.0), Cluster.of(2), 0, b"").plan
    by_node = {node: index for index, one in enumerate(plan.segments) for node in one.nodes}
    seconds = [one.predicted_seconds for one in plan.segments]
    found = priorities(plan.segments)
    rank = {name: found[by_node[node]] for node, name in enumerate(("first", "long", "short", "last"))}
    assert rank["last"] == seconds[by_node[3]]
    assert rank["long"] == seconds[by_node[1]] + rank["last"]
    assert rank["first"] == seconds[by_node[0]] + rank["long"] > rank["short"]


def test_equal_branches_have_equal_priorities(builder):
    build = builder(externals=8)
    for value in range(8):
        build.function("f", value, pin=value % 4)
    plan = make_plan(build.graph(), (-1,) * 8, Costs(call_seconds=0.0), Cluster.of(4), 0, b"").plan
    per_node = [rank / len(one.nodes) for one, rank in zip(plan.segments, priorities(plan.segments), strict=True)]
    assert len(set(per_node)) == 1
