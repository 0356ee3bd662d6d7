import pytest

from raygrad.errors import InvariantViolation
from raygrad.scheduler.machine.events import RunSubmitted, SegmentFinished, SubmittedSegment
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.machine.state import LiveRun, ObjectState, SegmentState
from raygrad.scheduler.model.plan import InStore, OnWorker

from .invariants import check_invariants


@pytest.fixture
def machine():
    """A machine with something of everything alive: done, running and waiting segments, kept values, objects."""
    machine = Machine(window=1)
    segments = (
        SubmittedSegment(worker=0, exports=(True, False), pins=(5,)),
        SubmittedSegment(worker=1, imports=((0, 0),)),
        SubmittedSegment(worker=1, imports=((0, 1),)),
    )
    kept = ((4, InStore(0, 0, 0)), (5, OnWorker(0, 0)))
    machine.handle(RunSubmitted(at=0.0, run=0, segments=segments, kept=kept))
    machine.handle(SegmentFinished(at=1.0, run=0, segment=0, attempt=0, status="done", export_bytes=(10, 20)))
    reader = SubmittedSegment(worker=0, reads=((0, 5),))
    machine.handle(RunSubmitted(at=2.0, run=1, segments=(reader,)))
    check_invariants(machine)
    return machine


BREAKS = {
    "are counted": lambda state: state.in_flight.update({1: 2}),
    "in flight, more than": lambda state: (
        state.runs[0].segments[2].__setattr__("state", SegmentState.RUNNING) or state.in_flight.update({1: 2})
    ),
    "is lost and has segments": lambda state: state.lost_workers.add(1),
    "could be commanded": lambda state: (
        state.runs[0].segments[1].__setattr__("state", SegmentState.DONE) or state.in_flight.update({1: 0})
    ),
    "in no queue": lambda state: state.queues[1].clear(),
    "bytes are exported": lambda state: setattr(state, "exported_bytes", 1),
    "bytes are saved": lambda state: setattr(state, "saved_bytes", 1),
    "a peak is below": lambda state: setattr(state, "peak_saved_bytes", 0),
    "unfinished segments": lambda state: setattr(state.runs[0], "unfinished", 7),
    "finished and failed": lambda state: (
        state.runs[0].__setattr__("failed", True) or setattr(state.runs[0], "finished", True)
    ),
    "is not listed": lambda state: setattr(state.runs[1], "failed", True),
    "finished with a segment": lambda state: setattr(state.runs[0], "finished", True),
    "has not failed": lambda state: setattr(state.runs[0].segments[0], "state", SegmentState.FAILED),
    "still to be started": lambda state: state.failed_runs.add(0) or setattr(state.runs[0], "failed", True),
    "not forgotten": lambda state: state.runs.update({9: LiveRun(9, [], False, 0, finished=True)}),
    "nobody was told": lambda state: state.runs.update({9: LiveRun(9, [], False, 0)}),
    "which is gone": lambda state: state.runs[1].waits_for.add(77),
    "before segment 0 was commanded": lambda state: setattr(state.runs[0].segments[0], "dispatched", False),
    "readers, and": lambda state: setattr(state.runs[0].values[5], "readers", 0),
    "not released": lambda state: setattr(state.runs[0].values[4], "held", False),
    "lost and an object": lambda state: (
        state.runs[0].values[5].__setattr__("lost", True)
        or setattr(state.runs[0].values[5], "object", ObjectState.LIVE)
    ),
    "in an object that was dropped": lambda state: (
        state.runs[0].exports.pop((0, 0)) and (setattr(state, "exported_bytes", 20), setattr(state, "saved_bytes", 0))
    ),
    "miscounted": lambda state: setattr(state.runs[0].exports[0, 0], "readers", 5),
    "still to be read": lambda state: state.runs[0].exports.pop((0, 1)) and setattr(state, "exported_bytes", 10),
}


@pytest.mark.parametrize("problem", BREAKS)
def test_a_broken_account_is_found(machine, problem):
    BREAKS[problem](machine.state)
    with pytest.raises(InvariantViolation, match=problem):
        check_invariants(machine)


def test_an_object_that_nobody_needs_is_found(machine):
    export = machine.state.runs[0].exports[0, 1]
    export.readers = 0
    waiting = machine.state.runs[0].segments[2]
    waiting.state = SegmentState.DONE
    machine.state.runs[0].unfinished -= 1
    with pytest.raises(InvariantViolation, match="not dropped"):
        check_invariants(machine)


def test_waiting_for_nothing_is_found():
    machine = Machine()
    machine.handle(RunSubmitted(at=0.0, run=0, segments=(SubmittedSegment(worker=0),)))
    machine.state.runs[0].segments[0].state = SegmentState.WAITING
    machine.state.in_flight[0] = 0
    with pytest.raises(InvariantViolation, match="waits for ever"):
        check_invariants(machine)
