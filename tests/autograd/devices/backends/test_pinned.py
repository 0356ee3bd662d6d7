"""Pinned buffers: so many and no more, each somebody's or nobody's."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from raygrad.autograd.devices import StandIn
from raygrad.autograd.devices.backends.pinned import PinnedBuffers
from raygrad.autograd.devices.simulated.simulated_streams import StandInCudaError


def buffers(count: int = 2, late: int | None = None) -> tuple[Any, PinnedBuffers]:
    cuda = StandIn(1, late=late).streams
    return cuda, PinnedBuffers(cuda, 64, count)


def test_a_buffer_that_came_back_is_taken_again():
    _, pool = buffers()
    first, second = pool.take(), pool.take()
    assert first is not None
    assert second is not first
    assert pool.take(wait=False) is None
    pool.give(first)
    assert pool.take() is first
    assert pool.made == 2


def test_it_is_an_array_of_any_kind():
    _, pool = buffers()
    one = pool.take()
    assert one is not None
    for dtype in (np.float64, np.complex64, np.int8, np.bool_):
        part = one.like(np.zeros(3, dtype))
        part[:] = 1
        assert (part.dtype, part.shape) == (dtype, (3,))
        assert one.like(part).tolist() == part.tolist()


def test_who_waits_for_a_copy_gets_its_buffer_when_that_is_done():
    cuda, pool = buffers(1, late=2)
    stream = cuda.Stream(non_blocking=True)
    done: list[int] = []
    for number in range(3):
        one = pool.take()
        assert done == list(range(number))
        cuda.queues.put(stream.place(), lambda number=number: done.append(number))
        assert one is not None
        pool.give(one, stream.record())
    assert pool.made == 1


def test_who_waits_for_another_thread_gets_the_buffer_that_it_gives_back():
    _, pool = buffers(1)
    held, got = pool.take(), []
    assert held is not None
    waiting = threading.Thread(target=lambda: got.append(pool.take()), daemon=True)
    waiting.start()
    pool.give(held)
    waiting.join(30)
    assert got == [held]


def test_a_buffer_whose_holder_was_interrupted_is_replaced():
    _, pool = buffers(1)
    held = pool.take()
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(pool.take()), daemon=True)
    waiting.start()
    assert (held is None, pool.made) == (False, 1)
    del held
    waiting.join(30)
    assert len(got) == pool.made == 1


def test_what_nobody_uses_is_let_go_of():
    cuda, pool = buffers(3, late=2)
    taken = [pool.take() for _ in range(3)]
    never = cuda.Stream(non_blocking=True)
    cuda.queues._eagerness = 0.0
    for event in (None, never.record()):
        one = taken.pop()
        assert one is not None
        pool.give(one, event)
    del one
    pool.clear()
    assert pool.made == 2, "one is held, of one a copy may be under way"


def test_fewer_are_made_do_where_the_host_has_no_more(monkeypatch: pytest.MonkeyPatch):
    cuda, pool = buffers(4)
    first = pool.take()
    assert first is not None

    def refuses(size: int) -> Any:
        raise StandInCudaError("cudaErrorMemoryAllocation: out of memory")

    monkeypatch.setattr(cuda, "alloc_pinned_memory", refuses)
    assert pool.take(wait=False) is None
    pool.give(first)
    assert pool.take() is first
    none = PinnedBuffers(cuda, 64, 4)
    with pytest.raises(RuntimeError, match=r"no 64 bytes .* out of memory.*ulimit -l"):
        none.take()
