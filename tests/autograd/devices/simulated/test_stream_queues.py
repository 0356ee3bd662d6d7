"""What late streams may do, and what they may not."""

from __future__ import annotations

import itertools

import pytest

from raygrad.autograd.devices.simulated.stream_queues import EAGERNESS, StreamQueues

A, B, C = (0, 0), (0, 1), (1, 0)


def hasty(haste: float) -> StreamQueues:
    return next(queues for queues in map(StreamQueues, itertools.count()) if queues._eagerness == haste)


def test_without_a_seed_all_is_done_at_once():
    queues, done = StreamQueues(), []
    mark = queues.put(A, lambda: done.append(1))
    assert (mark.done, done, queues.late) == (True, [1], False)


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_keeps_its_order_and_waits_for_marks(seed: int):
    queues, done = StreamQueues(seed), []
    assert queues.late
    first = queues.put(A, lambda: done.append("a1"))
    queues.put(A, lambda: done.append("a2"))
    queues.put(B, lambda: done.append("b1"))
    queues.put(B, after=first)
    queues.put(B, lambda: done.append("b2"))
    last = queues.put(C, after=queues.put(B, lambda: done.append("b3")))
    queues.finish(last)
    assert last.done
    assert [one for one in done if one[0] == "b"] == ["b1", "b2", "b3"]
    assert done.index("a1") < done.index("b2")
    queues.finish_all(0)
    assert sorted(done) == ["a1", "a2", "b1", "b2", "b3"]
    assert done.index("a1") < done.index("a2")


def test_what_nobody_waits_for_may_stay_undone():
    queues, done = hasty(0.0), []
    queues.put(A, lambda: done.append("a"))
    mark = queues.put(B, lambda: done.append("b"))
    assert not queues.is_done(mark)
    queues.finish(mark)
    assert done == ["b"]


def test_what_nobody_waits_for_may_be_done_in_another_order():
    def order(seed: int) -> str:
        queues, done = StreamQueues(seed), []
        for name, place in zip("ABC", (A, B, C), strict=True):
            queues.put(place, lambda name=name: done.append(name))
        queues.finish_all(0)
        queues.finish_all(1)
        return "".join(done)

    assert len({order(seed) for seed in range(60)}) >= 4
    assert min(EAGERNESS) == 0


def test_what_goes_wrong_is_raised_to_who_waits_and_holds_nobody_up():
    queues, done = hasty(0.0), []
    mark = queues.put(A, lambda: done.remove("nothing"))
    after = queues.put(A, lambda: done.append("after"))
    with pytest.raises(ValueError, match="not in list"):
        queues.finish(mark)
    queues.finish(after)
    assert done == ["after"]
