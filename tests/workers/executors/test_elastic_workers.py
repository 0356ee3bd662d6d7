"""How many workers there are to be, and what becomes of those that join and leave, on an executor of stand-ins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from raygrad.errors import ExecutionError, WorkerLost
from raygrad.scheduler.machine.commands import EndWorker
from raygrad.scheduler.machine.events import Event, RunSubmitted, SegmentFinished, SubmittedSegment, WorkerDied
from raygrad.scheduler.machine.machine import Machine
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.planning.planner import Planner
from raygrad.workers.executors.elastic_workers import ElasticWorkers, Scale


class StandIn:
    """An executor that counts what it is asked for, and the driver of its reports."""

    def __init__(self, count: int, scale: Scale | None = None, room: float = 100.0) -> None:
        self.cluster = Cluster.of(count)
        self.remote, self.host = True, ""
        self.joining = 0
        self.free = room
        self.now = 0.0
        self.ended: list[int] = []
        self.warned: list[str] = []
        self.machine = Machine()
        self.planner = Planner(self.cluster)
        executor: Any = self
        self.workers = ElasticWorkers(
            executor, self.planner, self.machine, self.dispatch, self.warned.append, lambda: self.now, scale
        )

    def dispatch(self, *events: Event) -> None:
        for command in self.machine.handle(*events):
            if isinstance(command, EndWorker):
                self.workers.end(command.worker)

    def add(self, count: int, options: Mapping[str, Any]) -> None:
        self.joining += count

    def stop_joining(self) -> None:
        self.joining = 0

    def room(self) -> float:
        return self.free

    def end(self, worker: int) -> None:
        self.ended.append(worker)

    def come(self) -> None:
        self.joining -= 1
        number = len(self.cluster.workers)
        self.cluster = replace(self.cluster, workers=(*self.cluster.workers, WorkerSpec(f"worker {number}")))
        self.workers.joined(number)

    def go(self, worker: int) -> None:
        self.dispatch(WorkerDied(at=self.now, worker=worker))
        self.workers.gone(worker)

    def submit(self, run: int, segments: int) -> None:
        part = SubmittedSegment(worker=0, seconds=1.0)
        self.dispatch(RunSubmitted(at=self.now, run=run, segments=(part,) * segments, replans=False))

    def finish(self, run: int, segments: int) -> None:
        for segment in range(segments):
            self.dispatch(SegmentFinished(at=self.now, run=run, segment=segment, attempt=0, status="done"))

    def look(self, seconds: float = 0.0, leaving: Mapping[int, float] | None = None) -> None:
        self.now += seconds
        self.workers.look(leaving or {})


def test_workers_are_asked_for_once_work_has_waited_and_no_more_than_the_most():
    talk = StandIn(1, Scale(1, 3))
    talk.submit(0, 5)
    talk.look()
    assert talk.joining == 0
    talk.look(1.1)
    assert talk.joining == 2
    talk.look(5.0)
    assert talk.joining == 2
    talk.come()
    talk.come()
    assert talk.workers.present == [0, 1, 2]
    talk.look(5.0)
    assert talk.joining == 0


def test_no_worker_is_asked_for_that_has_nothing_to_do_or_no_room():
    talk = StandIn(1, Scale(1, 9), room=1.0)
    talk.submit(0, 4)
    talk.look()
    talk.look(1.1)
    assert talk.joining == 1
    talk.come()
    talk.free = 0.0
    talk.look()
    talk.look(1.1)
    assert talk.joining == 0
    talk.finish(0, 4)
    talk.submit(1, 1)
    talk.free = 9.0
    talk.look(1.1)
    talk.look(1.1)
    assert talk.joining == 0


def test_idle_workers_are_given_back_one_by_one_down_to_the_least():
    talk = StandIn(3, Scale(2, 3, idle_seconds=10.0))
    talk.look()
    talk.look(9.0)
    assert talk.ended == []
    talk.look(2.0)
    assert talk.ended == [2]
    talk.go(2)
    talk.look(20.0)
    assert talk.ended == [2]
    assert talk.workers.present == [0, 1]


def test_workers_that_have_not_come_are_given_up_when_there_is_no_work_but_not_those_that_a_user_awaits():
    talk = StandIn(1, Scale(1, 3, idle_seconds=10.0))
    talk.submit(0, 3)
    talk.look()
    talk.look(1.1)
    talk.finish(0, 3)
    talk.look()
    talk.look(10.0)
    assert talk.joining == 0
    asked = talk.workers.ask(1, {})
    assert talk.workers.awaited
    talk.look(20.0)
    assert talk.joining == 1
    talk.come()
    assert asked.over
    assert asked.names == ["worker 1"]


def test_a_worker_that_does_not_come_is_told_once_and_no_other_is_asked_for_by_this_work():
    talk = StandIn(1, Scale(1, 2))
    talk.submit(0, 3)
    talk.look()
    talk.look(1.1)
    talk.joining = 0
    talk.workers.join_failed("it has no NumPy")
    assert talk.warned == ["a worker that work waits for could not join: it has no NumPy"]
    talk.look(5.0)
    talk.look(5.0)
    assert talk.joining == 0


def test_a_worker_that_is_refused_ends_and_gets_no_work():
    def refuse(_: WorkerSpec) -> WorkerSpec:
        raise ExecutionError("other bits")

    talk = StandIn(1)
    talk.workers.admit = refuse
    asked = talk.workers.ask(1, {})
    talk.come()
    assert [str(error) for error in asked.failed] == ["other bits"]
    assert talk.ended == [1]
    assert talk.workers.present == [0]
    assert talk.planner.cluster.workers[1].lost


def test_workers_of_machines_that_are_about_to_go_leave_but_never_the_last_one():
    talk = StandIn(3)
    talk.look(leaving={0: 20.0, 1: 5.0, 2: 10.0})
    assert talk.ended == [1, 2]
    assert talk.workers.present == [0]


def test_a_worker_that_dies_before_it_is_empty_says_so():
    talk = StandIn(2)
    talk.submit(0, 1)
    talk.workers.drain(0)
    assert talk.planner.cluster.workers[0].lost
    talk.go(0)
    with pytest.raises(WorkerLost, match="worker 0 died before it was empty"):
        talk.workers.check_removed(0)
    talk.workers.check_removed(0)


def test_a_worker_that_stays_after_all_gets_work_again():
    talk = StandIn(2)
    talk.submit(0, 1)
    talk.workers.drain(0)
    talk.workers.stop_draining(0)
    assert talk.workers.present == [0, 1]
    talk.finish(0, 1)
    assert talk.ended == []


def test_only_workers_on_other_machines_may_leave_unasked():
    talk = StandIn(2)
    assert not talk.workers.may_leave
    there = replace(talk.cluster.workers[1], host="there")
    talk.cluster = replace(talk.cluster, workers=(talk.cluster.workers[0], there))
    assert talk.workers.may_leave


def test_the_last_worker_is_replaced_before_its_machine_goes_where_the_session_says_how_many_there_are_to_be():
    talk = StandIn(1, Scale(1, 2))
    doomed = {0: 30.0}
    talk.look(leaving=doomed)
    talk.look(0.5, leaving=doomed)
    assert talk.joining == 1
    assert talk.ended == []
    talk.come()
    talk.look(0.5, leaving=doomed)
    assert talk.ended == [0]
    talk.go(0)
    assert talk.workers.present == [1]


def test_a_worker_that_comes_just_when_it_was_given_up_stays():
    talk = StandIn(1)
    talk.workers.ask(1, {})
    talk.workers.give_up()
    talk.joining = 1
    talk.come()
    assert talk.workers.present == [0, 1]
    talk.workers.join_failed("another one that was given up")
    assert talk.warned == []
