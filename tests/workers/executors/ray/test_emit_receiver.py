"""Emits that calls send ahead of their records, with requests and answers that stand in for Ray's."""

from __future__ import annotations

from typing import Any

from raygrad.proto.ir.program import Call
from raygrad.workers.executors.base import EmitsArrived, SegmentReturned, skipped_record
from raygrad.workers.executors.ray.emit_receiver import EmitReceiver
from raygrad.workers.values.emit_chunks import STREAMED, EmitChunk


def chunk() -> EmitChunk:
    return EmitChunk(0, 0, 0, "worker 0", (), 0)


def returned(chunks: int) -> SegmentReturned:
    record = skipped_record(Call(0, 0, 0, b"", (), ()), "worker 0")
    return SegmentReturned(record._replace(status="done", emits=((0, chunks, STREAMED, b""),)))


def taken(receiver: EmitReceiver, reference: Any, chunks: int) -> list[str]:
    worker = receiver.answered(reference)
    return [type(one).__name__ for one in receiver.take(worker, [chunk()] * chunks)]


def test_a_record_waits_for_the_chunks_before_it():
    receiver = EmitReceiver([lambda: "asked"])
    receiver.begin(0)
    report = returned(2)
    assert receiver.holds_back(0, report)
    assert taken(receiver, "asked", 2) == [EmitsArrived.__name__] * 2 + [SegmentReturned.__name__]
    assert not receiver.holds


def test_the_process_that_takes_the_place_of_a_lost_one_is_asked_and_counts_from_the_first_chunk():
    receiver = EmitReceiver([lambda: "the dead one"])
    receiver.begin(0)
    taken(receiver, "the dead one", 3)
    receiver.lose(0)
    receiver.restart(0, lambda: "the new one")
    receiver.begin(0)
    assert list(receiver.asked) == ["the new one"]
    assert receiver.holds_back(0, returned(2))
    assert len(taken(receiver, "the new one", 2)) == 3


def test_a_worker_that_joins_is_asked_as_any():
    receiver = EmitReceiver([lambda: "first"])
    receiver.add(lambda: "second")
    receiver.begin(1)
    assert receiver.asked == {"second": 1}
    assert receiver.holds_back(1, returned(1))
