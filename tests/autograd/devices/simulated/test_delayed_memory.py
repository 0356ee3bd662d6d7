"""The memory of late devices: taken again at once, overwritten, and kept from nobody by what is queued."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from raygrad.autograd.devices import StandIn
from raygrad.autograd.devices.simulated.delayed_memory import GARBAGE, DelayedMemory, root_of
from raygrad.autograd.devices.simulated.stream_queues import StreamQueues


def never_early() -> StandIn:
    return next(one for one in (StandIn(1, late=seed) for seed in itertools.count()) if one._queues._eagerness == 0)


def test_views_of_memory_are_beside_views_of_a_block():
    memory = DelayedMemory(StreamQueues(0))
    root = np.zeros((4, 6), order="F")
    memory.allocate(root, (0, 0))
    whole = memory.device_block(root)
    whole[...] = np.arange(24.0).reshape(4, 6)
    for view in (root[1:, ::2], root.T, root[::-1, ::-1], root[2], root[:0]):
        beside = memory.device_block(view)
        assert (beside.shape, beside.strides) == (view.shape, view.strides)
    assert memory.device_block(root[::-1, 1]).tolist() == [19, 13, 7, 1]
    assert root_of(root.T[1:]) is root


def test_a_block_is_given_to_the_next_of_its_stream_and_overwritten_there():
    queues = StreamQueues(0)
    queues._eagerness = 0.0
    memory = DelayedMemory(queues)
    first, second, third = (np.zeros(4) for _ in range(3))
    memory.allocate(first, (0, 0))
    used = memory.device_block(first)
    used[...] = 5
    memory.release(id(first))
    memory.allocate(second, (0, 1))
    memory.allocate(third, (0, 0))
    assert not np.shares_memory(memory.device_block(second), used)
    assert np.shares_memory(memory.device_block(third), used)
    assert used.tolist() == [5] * 4
    queues.finish_all(0)
    assert used.view(np.uint8).tolist() == [GARBAGE] * 32


def test_a_program_has_its_values_when_its_stream_got_there():
    devices = never_early()
    xp: Any = devices.xp
    x = xp.arange(4.0)
    y = (x * 2)[::2]
    y[0] = 7
    xp.add.at(x, xp.asarray([0, 0]), 1.0)
    np.copyto(x[1:2], y[1:])
    z = x[xp.asarray([1, 0])] + xp.linalg.slogdet(xp.eye(2))[0]
    assert (devices.memory_of(z).tobytes(), devices.memory_of(x).tobytes()) == (
        bytes([GARBAGE]) * 16,
        bytes([GARBAGE]) * 32,
    )
    assert z.tolist() == [5, 3]
    assert (x.tolist(), y.tolist()) == ([2, 4, 2, 3], [7, 4])
    assert (bool(x[0] == 2), float(y[0]), int(y[1]), complex(z[0]), z[1].item()) == (True, 7.0, 4, 5 + 0j, 3)


def test_an_array_that_another_stream_still_uses_may_be_another_s():
    """What CuPy's users have to know (cupy#8068), and what the copies are written for."""
    devices = never_early()
    xp: Any = devices.xp
    x = xp.ones(4)
    devices.synchronize(0)
    with xp.cuda.Stream(non_blocking=True):
        y = x * 2  # reads x, late
    del x
    z = xp.zeros(4)
    assert z.tolist() == [0] * 4
    devices.synchronize(0)
    assert devices.memory_of(y).tolist() == [0] * 4, "it has read what came after"
