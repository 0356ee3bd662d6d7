"""Copies on streams of their own: whatever order streams and events allow, values are those of the program's order.

The simulated streams do late what they are told, memory that was freed is taken again at once, and overwritten. A wait
that is missing, or a buffer or an array that is let go of too early, shows as a wrong value. With a GPU the same
programs run on it, behind kernels that take their time.
"""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from raygrad.autograd.devices import StandIn
from raygrad.autograd.devices.backends.backend import Backend
from raygrad.autograd.devices.backends.staging import Staging
from raygrad.autograd.devices.simulated.simulated_array import StandInArray

SIZES = (0, 1, 7, 8, 9, 16, 40)
"""Of arrays; a buffer of the tests holds 8 of their elements."""


class Program:
    """A program drawn by chance: arrays made, moved, computed with, changed, dropped and read.

    Args:
        backend: whose devices it runs on.
        chance: what it does.
        repeats: by how much its arrays are larger than `SIZES` says.
    """

    def __init__(self, backend: Any, chance: random.Random, repeats: int = 1) -> None:
        self.backend = backend
        self.chance = chance
        self.repeats = repeats
        self.held: list[tuple[Any, np.ndarray[Any, Any]]] = []
        self.slow: Any = None
        """On a GPU: what keeps its streams busy."""

    def run(self, steps: int) -> None:
        """Do so many things, then read all."""
        for _ in range(steps):
            self.step()
        while self.held:
            self.read()

    def step(self) -> None:
        if self.chance.random() < 0.2:
            self.on_a_stream()
        else:
            self.pick()(None)

    def on_a_stream(self) -> None:
        """Be a kernel with a stream of its own, which shares no arrays with others: that CuPy leaves to its users."""
        before, self.held = self.held, []
        index = self.place()
        with self.backend.on(index), self.backend.xp.cuda.Stream(non_blocking=True) as stream:
            for _ in range(6):
                self.pick()(index)
            while self.held:
                self.read()
            stream.synchronize()
        self.held = before

    def pick(self) -> Any:
        ways = [self.send, self.make, self.compute, self.compute, self.change, self.drop, self.read, self.peer]
        return self.chance.choice(ways)

    def place(self) -> int:
        return self.chance.randrange(self.backend.count())

    def values(self) -> np.ndarray[Any, Any]:
        size = self.chance.choice(SIZES) * self.repeats
        dtype = self.chance.choice([np.float64, np.float32, np.complex64, np.int8])
        found = np.arange(self.chance.randrange(50), size + 50)[:size].astype(dtype)
        return found.reshape(-1, 8).T if size and size % 8 == 0 and self.chance.random() < 0.3 else found

    def one(self, index: int | None) -> tuple[Any, np.ndarray[Any, Any]] | None:
        known = [one for one in self.held if index is None or one[0].device.id == index]
        return self.chance.choice(known) if known else None

    def keep(self, array: Any, expected: np.ndarray[Any, Any]) -> None:
        self.held.append((array, expected))
        if len(self.held) > 6:
            self.held.pop(self.chance.randrange(6))

    # ---- what it does -----------------------------------------------------------------------------------------------

    def send(self, index: int | None) -> None:
        host = self.values()
        expected = host.copy(order="K")
        self.keep(self.backend.from_host(host, self.place() if index is None else index), expected)
        host.fill(77)  # it is the caller's again

    def make(self, index: int | None) -> None:
        expected = self.values()
        with self.backend.on(self.place() if index is None else index):
            self.keep(self.backend.xp.full(expected.shape, 3, expected.dtype), np.full_like(expected, 3))

    def compute(self, index: int | None) -> None:
        found = self.one(index)
        if found is not None:
            with self.backend.on(found[0].device.id):
                if self.slow is not None:
                    self.slow()
                self.keep(found[0] * 2 + 1, (found[1] * 2 + 1).astype(found[1].dtype))

    def change(self, index: int | None) -> None:
        found = self.one(index)
        if found is not None:
            with self.backend.on(found[0].device.id):
                found[0][...] += 1
            found[1][...] += 1

    def drop(self, index: int | None) -> None:
        if self.held:
            self.held.pop(self.chance.randrange(len(self.held)))

    def peer(self, index: int | None) -> None:
        found = self.one(index)
        if found is not None:
            self.keep(self.backend.copy_to(found[0], self.place() if index is None else index), found[1].copy())

    def read(self, index: int | None = None) -> None:
        found = self.one(index)
        if found is None:
            return
        self.held = [one for one in self.held if one is not found]
        with self.backend.on(found[0].device.id) if self.chance.random() < 0.5 else nullcontext():
            got = self.backend.to_host(found[0])
        np.testing.assert_array_equal(got, found[1])
        assert got.dtype == found[1].dtype
        got.fill(99)  # it is nobody else's


def late(seed: int, count: int = 2, buffers: int = 2) -> StandIn:
    """Simulated devices that are late, whose copies go by small buffers."""
    devices = StandIn(2, late=seed)
    devices.staging = Staging(devices.xp, size=64, count=buffers, direct=0)
    return devices


# ---- on simulated devices ------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 1 << 32), draw=st.integers(0, 1 << 32), buffers=st.integers(1, 3))
def test_values_are_those_of_the_program_s_order(seed: int, draw: int, buffers: int):
    devices = late(seed, buffers=buffers)
    Program(devices, random.Random(draw)).run(40)
    assert devices.staging.buffers.made <= buffers


@pytest.mark.parametrize("seed", range(6))
def test_several_threads_share_buffers_and_streams(seed: int):
    devices = late(seed, buffers=2)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            Program(devices, random.Random(100 * seed + number)).run(40)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    assert not errors, errors
    assert devices.staging.buffers.made <= 2


def fails_at(call: int, method: Any) -> Any:
    """Return a method that raises at that call of it, after it was carried out."""
    calls = iter(range(1 << 30))

    def failing(*args: Any, **options: Any) -> Any:
        found = method(*args, **options)
        if next(calls) == call:
            raise KeyboardInterrupt
        return found

    return failing


@pytest.mark.parametrize("seed", range(25))
def test_a_copy_to_a_device_that_was_interrupted_writes_to_nobody_else_s_memory(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    devices = late(seed)
    with monkeypatch.context() as patch:
        patch.setattr(StandInArray, "set", fails_at(1, StandInArray.set))
        with pytest.raises(KeyboardInterrupt):
            devices.from_host(np.full(40, 5.0), 0)
    gc.collect()
    zeros = devices.xp.zeros(40)
    again = devices.from_host(np.arange(40.0), 0)
    assert devices.to_host(zeros).tolist() == [0.0] * 40
    assert devices.to_host(again).tolist() == list(range(40))


@pytest.mark.parametrize("seed", range(25))
def test_a_copy_to_the_host_that_was_interrupted_writes_to_nobody_else_s_buffer(
    seed: int, monkeypatch: pytest.MonkeyPatch
):
    devices = late(seed)
    there = devices.from_host(np.full(40, 5.0), 0)
    with monkeypatch.context() as patch:
        patch.setattr(StandInArray, "get", fails_at(1, StandInArray.get))
        with pytest.raises(KeyboardInterrupt):
            devices.to_host(there)
    again = devices.from_host(np.arange(40.0), 0)
    assert devices.to_host(again).tolist() == list(range(40))
    assert devices.to_host(there).tolist() == [5.0] * 40


def not_early() -> StandIn:
    """Simulated devices that do nothing before it is waited for."""
    return next(devices for devices in map(late, range(100)) if devices.streams.queues._eagerness == 0)


def test_what_a_stream_reads_is_kept_until_it_has_read(monkeypatch: pytest.MonkeyPatch):
    devices = not_early()
    there = devices.from_host(np.full(40, 5.0), 0)
    with monkeypatch.context() as patch:
        patch.setattr(StandInArray, "get", fails_at(1, StandInArray.get))
        with pytest.raises(KeyboardInterrupt):
            devices.to_host(there)
    size = there.nbytes
    del there
    gc.collect()
    assert devices.memory(0).allocated == size
    devices.synchronize(0)
    devices.empty_cache()
    assert devices.memory(0).allocated == 0


def test_a_copy_to_a_device_is_waited_for_by_its_stream_and_not_by_the_host():
    devices = not_early()
    there = devices.from_host(np.arange(8.0), 0)
    done = devices.streams.get_current_stream().record()
    assert not done.done
    assert (there * 2).get().tolist() == list(np.arange(8.0) * 2)
    assert done.done


def test_a_copy_to_the_host_does_not_wait_for_what_comes_after_it():
    devices = not_early()
    there = devices.from_host(np.arange(16.0), 0)
    made = devices.streams.Event()
    with devices.on(0), devices.streams.Stream(non_blocking=True) as other:
        other.record(made)
    devices.to_host(there)
    assert not made.done


def test_small_arrays_take_no_buffer():
    devices = StandIn(1, late=3)
    devices.staging = Staging(devices.xp, size=64, count=2, direct=65)
    assert devices.to_host(devices.from_host(np.arange(8.0), 0)).tolist() == list(range(8))
    assert devices.staging.buffers.made == 0
    devices.to_host(devices.from_host(np.arange(9.0), 0))
    assert devices.staging.buffers.made == 2
    devices.empty_cache()
    assert devices.staging.buffers.made == 0


def test_a_transfer_is_counted_once_however_many_parts_it_has():
    devices = StandIn(2)
    devices.staging = Staging(devices.xp, size=64, count=2, direct=0)
    devices.to_host(devices.copy_to(devices.from_host(np.arange(40.0), 0), 1))
    found = devices.transfers
    assert (found.to_device, found.between, found.to_host) == (1, 1, 1)
    assert (found.to_device_bytes, found.between_bytes, found.to_host_bytes) == (320, 320, 320)


# ---- on GPUs -------------------------------------------------------------------------------------------------------


@pytest.fixture
def cuda() -> Iterator[Backend]:
    pytest.importorskip("cupy")
    from raygrad.autograd.devices.backends.cuda import Cuda

    try:
        backend = Cuda()
    except RuntimeError as error:
        pytest.skip(f"no GPU: {error}")
    yield backend
    backend.empty_cache()


def busy(backend: Any) -> Any:
    """Return what keeps the current stream busy for a while."""
    ballast = {index: _made_on(backend, index) for index in backend.numbers()}

    def spend() -> None:
        one = ballast[backend.current()]
        for _ in range(8):
            backend.xp.sin(one, out=one)

    return spend


def _made_on(backend: Any, index: int) -> Any:
    with backend.on(index):
        return backend.xp.ones(4 << 20)


@pytest.mark.gpu
@pytest.mark.parametrize("draw", range(20))
def test_values_are_those_of_the_program_s_order_on_a_gpu(cuda: Any, draw: int):
    cuda.staging = Staging(cuda.xp, size=1 << 16, count=2, direct=0)
    program = Program(cuda, random.Random(draw), repeats=1 << 13)
    program.slow = busy(cuda)
    program.run(40)
    assert cuda.staging.buffers.made <= 2


@pytest.mark.gpu
def test_several_threads_share_buffers_and_streams_on_a_gpu(cuda: Any):
    cuda.staging = Staging(cuda.xp, size=1 << 16, count=3, direct=0)
    errors: list[BaseException] = []
    spend = busy(cuda)

    def run(number: int) -> None:
        try:
            program = Program(cuda, random.Random(number), repeats=1 << 13)
            program.slow = spend
            program.run(40)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    assert not errors, errors


@pytest.mark.gpu
def test_what_is_staged_has_the_bits_of_cupy_s_own_copies(cuda: Any):
    host = np.random.default_rng(0).normal(size=(3 << 20) + 5)
    there = cuda.from_host(host, 0)
    np.testing.assert_array_equal(there.get(), host)
    np.testing.assert_array_equal(cuda.to_host(there), host)
    assert cuda.staging.buffers.made > 0
    assert there.base is None
