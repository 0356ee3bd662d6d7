from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, strategies as st

from raygrad.proto.ir.program import Call, Program
from raygrad.workers.executors.base import ObjectId, SegmentId, Work
from raygrad.workers.executors.ready_queue import Fetch, Outstanding, ReadyQueue

EMPTY = Program(0, (), (), (), (), (), (), (), ())


def work(
    segment: int,
    *,
    run: int = 1,
    worker: int = 0,
    priority: float = 0.0,
    after: Sequence[int] = (),
    reads: Sequence[int] = (),
) -> Work:
    return Work(
        worker=worker,
        call=Call(run, segment, 0, b"k", ()),
        program=EMPTY,
        arguments=tuple(ObjectId(run, source, 0) for source in reads),
        after=tuple(SegmentId(run, source) for source in after),
        priority=priority,
    )


def order_of(works: Sequence[Work | Fetch]) -> list[int]:
    """Return the segments of one worker in the order in which they run; -1 for a fetch."""
    queue, outstanding = ReadyQueue(), Outstanding()
    for one in works:
        queue.add(one, heavy=False)
        if isinstance(one, Work):
            outstanding.segments.add(SegmentId(one.call.run, one.call.segment))
    done: list[int] = []
    while (one := queue.next(outstanding)) is not None:
        queue.remove(one)
        if isinstance(one, Work):
            outstanding.ended(SegmentId(one.call.run, one.call.segment))
        done.append(-1 if isinstance(one, Fetch) else one.call.segment)
    assert not len(queue)
    return done


def test_equal_calls_run_in_the_order_given():
    assert order_of([work(0), work(1), work(2)]) == [0, 1, 2]


def test_of_ready_calls_the_one_with_the_highest_priority_runs_first():
    assert order_of([work(0, priority=1.0), work(1, priority=3.0), work(2, priority=2.0)]) == [1, 2, 0]


def test_calls_of_the_earliest_run_go_before_those_of_later_ones():
    assert order_of([work(7, run=2, priority=9.0), work(1), work(2, priority=1.0)]) == [2, 1, 7]


def test_a_call_waits_for_those_that_it_names_whatever_its_priority():
    assert order_of([work(0), work(1, priority=5.0, after=[0]), work(2, priority=1.0)]) == [2, 0, 1]


def test_a_fetch_goes_first_once_its_segment_has_ended():
    fetch = Fetch(0, 1, 3, SegmentId(1, 0), False)
    assert order_of([work(1), work(0, priority=1.0), fetch]) == [0, -1, 1]


def test_work_that_has_started_is_not_offered_again():
    queue, outstanding = ReadyQueue(), Outstanding()
    first, second = work(0), work(0)
    queue.add(first, heavy=True)
    queue.add(second, heavy=False)
    assert queue.next(outstanding) is first
    queue.remove(first)
    assert not queue.has_heavy
    assert queue.next(outstanding) is second
    queue.clear()
    assert queue.next(outstanding) is None


def test_a_call_is_found_by_its_segment_until_it_starts():
    calls = [work(0), work(1)]
    queue = ReadyQueue()
    for one in calls:
        queue.add(one, heavy=False)
    assert queue.find(SegmentId(1, 1)) is calls[1]
    queue.remove(calls[1])
    assert queue.find(SegmentId(1, 1)) is None
    assert queue.find(SegmentId(2, 0)) is None


@pytest.mark.parametrize("pick", [max, min])
def test_ordered_segments_run_one_at_a_time_in_the_order_given(pick: Callable[[list[int]], int]):
    outstanding = Outstanding()
    works = [work(n, worker=n % 2, priority=float(n)) for n in range(6)]
    for one in works:
        outstanding.segments.add(SegmentId(1, one.call.segment))
        if one.call.segment != 3:
            outstanding.ordered.append(SegmentId(1, one.call.segment))
    done: list[int] = []
    while works:
        ready = [one.call.segment for one in works if outstanding.is_ready(one)]
        assert [n for n in ready if n != 3] == [min([one.call.segment for one in works if one.call.segment != 3])] or (
            ready == [3]
        )
        segment = pick(ready)
        works = [one for one in works if one.call.segment != segment]
        outstanding.ended(SegmentId(1, segment))
        done.append(segment)
    assert [n for n in done if n != 3] == [0, 1, 2, 4, 5]


@given(st.integers(0, 2**32))
def test_some_work_is_always_ready_until_all_has_run(seed: int):
    """Whatever waits for whatever was given before it, on any worker, in any order of ends."""
    chance = random.Random(seed)
    workers, count = chance.randint(1, 4), chance.randint(1, 30)
    queues, outstanding = [ReadyQueue() for _ in range(workers)], Outstanding()
    home: list[int] = []
    for segment in range(count):
        home.append(chance.randrange(workers))
        before = chance.sample(range(segment), min(segment, chance.randint(0, 3)))
        own = [one for one in before if home[one] == home[-1]]
        one = work(
            segment,
            worker=home[-1],
            priority=chance.random(),
            after=own,
            reads=[other for other in before if other not in own],
        )
        outstanding.segments.add(SegmentId(1, segment))
        outstanding.objects.add(ObjectId(1, segment, 0))
        if chance.random() < 0.3:
            outstanding.ordered.append(SegmentId(1, segment))
        queues[home[-1]].add(one, heavy=chance.random() < 0.5)
    running: list[Work] = []
    ended = 0
    while ended < count:
        busy = {one.worker for one in running}
        for worker, queue in enumerate(queues):
            one = None if worker in busy else queue.next(outstanding)
            if one is not None:
                assert isinstance(one, Work)
                queue.remove(one)
                running.append(one)
        assert running
        one = running.pop(chance.randrange(len(running)))
        outstanding.ended(SegmentId(1, one.call.segment))
        outstanding.objects.discard(ObjectId(1, one.call.segment, 0))
        ended += 1
    assert not outstanding.ordered
