"""Devices under the numbers of a session: as any other, but for what they are called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices.numbered import RenumberedBackend
from raygrad.autograd.devices.serving import device_of, needs_device_guard, ordinal_of, serve
from raygrad.autograd.devices.simulated.simulated_device import StandIn


@pytest.fixture
def devices() -> Iterator[RenumberedBackend]:
    backend = RenumberedBackend(StandIn(2), [5, 3])
    before = serve(backend)
    yield backend
    serve(before)


def test_names_are_the_sessions_and_arrays_count_from_zero(devices: RenumberedBackend):
    x = rg.ones(2, device="cuda:3")
    array: Any = x.read()
    assert (str(x.device), array.device.id) == ("cuda:3", 1)
    assert (devices.count(), devices.numbers(), devices.current()) == (2, (5, 3), 5)
    assert rg.zeros(1, device="cuda").device == rg.device("cuda:5")
    with devices.on(3):
        assert rg.zeros(1, device="cuda").device == rg.device("cuda:3")
        assert not needs_device_guard(x.read())
    assert needs_device_guard(x.read())
    with pytest.raises(RuntimeError, match=r"'cuda:0' is not here: invalid device ordinal; there are cuda:5, cuda:3"):
        rg.ones(1, device="cuda:0")


def test_other_libraries_are_told_their_own_number(devices: RenumberedBackend):
    assert rg.ones(2, device="cuda:3").__dlpack_device__() == (2, 1)
    assert (ordinal_of(rg.device("cuda:5")), ordinal_of(rg.device("cuda:9"))) == (0, 9)


def test_data_moves_between_them_and_the_host(devices: RenumberedBackend):
    host = np.arange(6.0).reshape(2, 3).T
    there = devices.from_host(host, 3)
    other = devices.copy_to(there, 5)
    assert [str(device_of(one)) for one in (there, other)] == ["cuda:3", "cuda:5"]
    assert [devices.index_of(one) for one in (there, other)] == [3, 5]
    back = devices.to_host(other)
    assert back.strides == host.strides
    np.testing.assert_array_equal(back, host)


def test_a_program_runs_on_each(devices: RenumberedBackend):
    x = rg.tensor([1.0, 2.0], device="cuda:3", requires_grad=True)
    ((x * 3.0).to("cuda:5") ** 2).sum().backward()
    assert x.grad is not None
    assert (str(x.grad.device), x.grad.tolist()) == ("cuda:3", [18.0, 36.0])


def test_memory_is_that_of_the_device_named(devices: RenumberedBackend):
    held = rg.ones(100, device="cuda:3", dtype=rg.float64)
    assert (devices.memory(3).allocated, devices.memory(5).allocated) == (800, 0)
    devices.limit(3, 1000)
    with pytest.raises(devices.exhausted):
        devices.from_host(np.zeros(100), 3)
    devices.limit(3, None)
    devices.synchronize(3)
    devices.empty_cache()
    del held
    devices.reset_peak(3)
    assert rg.cuda.max_memory_allocated("cuda:3") == 0
