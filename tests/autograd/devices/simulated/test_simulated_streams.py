"""Simulated streams, events and pinned memory mean what CuPy's mean, also where that is unkind."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from raygrad.autograd.devices import StandIn
from raygrad.autograd.devices.simulated.delayed_memory import GARBAGE


def never_early() -> StandIn:
    return next(one for one in (StandIn(2, late=seed) for seed in itertools.count()) if one._queues._eagerness == 0)


def pinned(devices: StandIn, values: Any) -> Any:
    host = np.asarray(values)
    found: Any = np.frombuffer(devices.streams.alloc_pinned_memory(host.nbytes), host.dtype)
    found[:] = host
    return found


def test_a_copy_from_pinned_memory_reads_it_late():
    devices = never_early()
    here, there = pinned(devices, [1.0, 2.0]), devices.xp.zeros(2)
    there.set(here)
    here[:] = 9
    assert there.tolist() == [9, 9]
    ours = np.array([1.0, 2.0])
    there.set(ours)
    ours[:] = 9
    assert there.tolist() == [1, 2]


def test_a_copy_to_pinned_memory_writes_it_late():
    devices = never_early()
    there, out = devices.xp.full(2, 3.0), pinned(devices, [0.0, 0.0])
    assert there.get(out=out, blocking=False) is out
    assert out.tolist() == [0, 0]
    devices.streams.get_current_stream().synchronize()
    assert out.tolist() == [3, 3]
    ours = np.zeros(2)
    there.get(out=ours, blocking=False)
    assert ours.tolist() == [3, 3], "what is not pinned is waited for"
    assert there.get(order="A").tolist() == [3, 3]


def test_pinned_memory_that_nobody_holds_is_the_next_one_s():
    devices = never_early()
    memory = devices.streams.alloc_pinned_memory(16)
    view = np.frombuffer(memory, np.float64)
    start = view.__array_interface__["data"][0]
    del memory
    assert view.view(np.uint8).tolist() == [GARBAGE] * 16
    other = devices.streams.alloc_pinned_memory(16)
    assert np.frombuffer(other, np.uint8).__array_interface__["data"][0] != start, "a view holds it"
    del view
    again = devices.streams.alloc_pinned_memory(16)
    assert np.frombuffer(again, np.uint8).__array_interface__["data"][0] == start


def test_a_stream_waits_for_an_event_as_it_was_recorded_last_before():
    devices = never_early()
    cuda, done = devices.streams, []
    first, second = cuda.Stream(non_blocking=True), cuda.Stream(non_blocking=True)
    event = cuda.Event()
    assert event.done
    event.synchronize()
    second.wait_event(event)  # never recorded: nothing to wait for
    cuda.queues.put(first.place(), lambda: done.append(1))
    first.record(event)
    second.wait_event(event)
    cuda.queues.put(first.place(), lambda: done.append(2))
    first.record(event)
    second.synchronize()
    assert done == [1]
    assert not event.done
    event.synchronize()
    assert done == [1, 2]


def test_streams_and_events_are_of_one_device():
    devices = never_early()
    cuda = devices.streams
    here, array = cuda.Event(), devices.xp.zeros(2)
    with devices.on(1):
        other = cuda.Stream(non_blocking=True)
        with pytest.raises(RuntimeError, match="invalid resource handle"):
            other.record(here)
        with pytest.raises(RuntimeError, match="invalid resource handle"):
            cuda.get_current_stream().record(here)
        assert array.get().tolist() == [0, 0], "the default stream is that of each device"
    with pytest.raises(RuntimeError, match="does not match with the current device"), other:
        pass
    with pytest.raises(RuntimeError, match="of another device"):
        array.get(stream=other)
    other.wait_event(cuda.get_current_stream().record())
    with pytest.raises(NotImplementedError, match="non_blocking=True"):
        cuda.Stream(non_blocking=False)


def test_blocks_of_streams_are_of_a_device_and_nest():
    devices = StandIn(2)
    cuda = devices.streams
    default = cuda.get_current_stream()
    with cuda.Stream(non_blocking=True) as one:
        with cuda.Device(1):
            assert cuda.get_current_stream() is default
            with cuda.Stream(non_blocking=True) as two:
                assert cuda.get_current_stream() is two
        with cuda.Stream(non_blocking=True) as inner:
            assert cuda.get_current_stream() is inner
        assert cuda.get_current_stream() is one
    assert cuda.get_current_stream() is default


def test_what_does_not_fit_is_refused():
    devices = StandIn(2)
    array = devices.xp.zeros(2)
    with pytest.raises(TypeError, match="cannot be copied"):
        array.set(np.zeros(3))
    with pytest.raises(TypeError, match="cannot be copied"):
        array.set(devices.xp.zeros(2))
    with pytest.raises(TypeError, match="cannot be copied"):
        array.get(out=np.zeros(2, np.float32))
    with pytest.raises(RuntimeError, match="8 bytes of 16"):
        array.data.copy_from_device_async(devices.xp.ones(2).data, 8)
    array.data.copy_from_device_async(devices.xp.ones(2).data, 16)
    assert array.tolist() == [1, 1]
    assert array.data.ptr == devices.start_of(array)


def test_copies_that_a_kernel_makes_by_itself_are_counted():
    devices = StandIn(1)
    array = devices.xp.zeros(2)
    array.set(np.ones(2))
    array.get(out=np.zeros(2))
    assert (devices.transfers.to_device, devices.transfers.to_host) == (1, 1)
