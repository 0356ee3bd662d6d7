"""What a run did: times on one clock, waits, latencies and bytes, reckoned by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from raygrad.proto.ir.program import Record, Timing
from raygrad.scheduler.explain.actual_run import RunFacts, run_facts
from raygrad.scheduler.explain.clock_alignment import ClockOffset
from raygrad.scheduler.model.costs import Costs
from raygrad.scheduler.model.measured_costs import TimedRecord
from raygrad.scheduler.model.plan import Cluster, Plan
from raygrad.scheduler.planning.planner import make_plan

AHEAD = 1000.0
"""How far the clock of worker 1 is ahead."""


@pytest.fixture
def plan(builder: Any) -> Plan:
    """a on worker 0, b = f(a) on worker 1."""
    g = builder(size=100)
    g.op("b", g.op("a", 0, pin=0), pin=1)
    return make_plan(g.graph(), (-1,), Costs(), Cluster.of(2), 0, b"key").plan


def answer(segment: int, began: float, seconds: float, *, sent: float, came: float, **changes: Any) -> TimedRecord:
    timing = Timing(began, 0.5, seconds, 0.25, ((segment, 0.5, seconds),))
    blank = Record(1, segment, 0, f"worker {segment}", 7, 0.0, "done", (), (), (), (), (), (), (), timing=timing)
    return TimedRecord(blank._replace(**changes), sent, came)


@pytest.fixture
def facts(plan: Plan) -> RunFacts:
    answers = [
        answer(0, 102.0, 1.0, sent=101.0, came=104.5, exports=((900, 100),)),
        answer(1, AHEAD + 105.0, 2.0, sent=101.5, came=109.0),
    ]
    return run_facts(plan, answers, {"worker 0": ClockOffset(), "worker 1": ClockOffset(-AHEAD, -AHEAD)}, 100.0)


def test_times_of_all_workers_are_on_one_clock_since_submission(facts: RunFacts):
    first, second = facts.segments
    assert (first.sent, first.start, first.end, first.came) == (1.0, 2.0, 3.75, 4.5)
    assert (second.sent, second.start, second.end, second.came) == (1.5, 5.0, 7.75, 9.0)
    assert second.nodes == ((1, 5.5, 2.0),)
    assert facts.seconds == 9.0
    assert facts.unsent == 1.0


def test_a_wait_for_data_is_told_from_the_latency_after_it(facts: RunFacts):
    first, second = facts.segments
    assert (first.data_wait, first.latency, first.held_by) == (0.0, 1.0, -1)
    assert (second.data_wait, second.latency, second.held_by) == (2.25, 1.25, 0)
    assert (facts.data_wait, facts.latency) == (2.25, 2.25)


def test_the_most_bytes_of_a_worker_stand_beside_what_was_predicted(plan: Plan):
    answers = [
        answer(0, 102.0, 1.0, sent=101.0, came=104.5, peaks=(("cpu", 700),)),
        answer(1, AHEAD + 105.0, 2.0, sent=101.5, came=109.0, peaks=(("cpu", 900), ("cuda:0", 5))),
    ]
    offsets = {"worker 0": ClockOffset(), "worker 1": ClockOffset(-AHEAD, -AHEAD)}
    assert [one.peaks for one in run_facts(plan, answers, offsets, 100.0).workers] == [(), ()]
    limited = replace(plan, peaks=(("cuda:0", (1, 2)), ("cpu", (600, 800))))
    first, second = run_facts(limited, answers, offsets, 100.0).workers
    assert first.peaks == (("cuda:0", 1, 0), ("cpu", 600, 700))
    assert second.peaks == (("cuda:0", 2, 5), ("cpu", 800, 900))


def test_work_and_packing_are_summed_by_worker_beside_the_prediction(facts: RunFacts, plan: Plan):
    assert [(one.name, one.segments, one.seconds, one.packing) for one in facts.workers] == [
        ("worker 0", 1, 1.0, 0.75),
        ("worker 1", 1, 2.0, 0.75),
    ]
    assert facts.work == 3.0
    assert facts.predicted_work == pytest.approx(sum(one.predicted_seconds for one in plan.segments))
    assert facts.predicted_seconds == plan.predicted_seconds


def test_what_crossed_has_the_bytes_that_it_had(facts: RunFacts):
    assert facts.moved == ((0, 0, 1, 900, 1),)
    assert facts.segments[0].saved_bytes == 100
    assert [one.peak_stored for one in facts.workers] == [900, 0]


def test_a_run_that_has_not_ended_says_what_is_missing(plan: Plan):
    facts = run_facts(plan, [], {}, 100.0)
    assert [one.status for one in facts.segments] == ["missing", "missing"]
    stopped = run_facts(plan, [], {}, 100.0, stopped=True)
    assert [(one.status, one.recorded) for one in stopped.segments] == [("not run", False)] * 2
    assert (facts.seconds, facts.work) == (0.0, 0.0)


def test_a_call_that_never_ran_counts_from_sending_to_its_answer(plan: Plan):
    one = answer(0, 0.0, 0.0, sent=101.0, came=103.0, status="failed", timing=Timing())
    facts = run_facts(plan, [one], {"worker 0": ClockOffset()}, 100.0)
    assert (facts.segments[0].start, facts.segments[0].end) == (1.0, 3.0)
