"""Arrays of devices that are not here: what they are can be told, and they can be moved; nothing else."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import Device, use_stand_in
from raygrad.autograd.devices.backends.absent_device import AbsentArray, AbsentBackend
from raygrad.autograd.devices.serving import (
    ABSENT,
    backend_of,
    device_of,
    is_device_array,
    move_array,
    to_host,
    writable,
)
from raygrad.errors import DeviceError

CUDA = Device("cuda", 3)


@pytest.fixture
def array() -> AbsentArray:
    return AbsentArray(CUDA, np.asfortranarray(np.arange(6.0).reshape(2, 3)))


def test_it_is_known_what_it_is(array: AbsentArray):
    assert is_device_array(array)
    assert backend_of(array) is ABSENT
    assert device_of(array) == CUDA
    assert (array.shape, array.dtype, array.ndim, array.size, array.itemsize) == ((2, 3), np.float64, 2, 6, 8)
    assert (array.nbytes, array.strides, array.flags.f_contiguous) == (48, (8, 16), True)
    assert (array.item(1, 2), array.tolist()[0], array.base) == (5.0, [0.0, 1.0, 2.0], None)
    assert not writable(array)
    assert repr(array) == "<array of shape (2, 3) and dtype float64 on cuda:3, which is not served here>"


def test_it_moves_to_the_host_and_to_what_is_served(array: AbsentArray):
    there = to_host(array)
    assert there is not array.host
    assert (there.tolist(), there.strides) == (array.host.tolist(), array.host.strides)
    assert move_array(array, CUDA) is array
    with use_stand_in(2) as devices:
        moved = move_array(array, Device("cuda", 1))
        assert (str(device_of(moved)), moved.strides) == ("cuda:1", (8, 16))
        assert (devices.transfers.to_device, devices.transfers.to_host, devices.transfers.between) == (1, 0, 0)


def test_tensors_of_it_are_read_and_moved_and_refuse_to_be_computed_with(array: AbsentArray):
    x = rg.Tensor.made(array)
    assert (str(x.device), x.is_cuda, x.shape) == ("cuda:3", True, (2, 3))
    assert x.cpu().tolist() == x.tolist() == array.host.tolist()
    assert str(x) == repr(x)
    assert repr(x).endswith("device='cuda:3')")
    message = r"is on cuda:3, which this process does not serve: move it to the host \(tensor\.cpu\(\)\)"
    uses: list[Any] = [lambda: x + 1, lambda: x.sum(), lambda: x @ x.T, lambda: x[0], lambda: array[0], lambda: array.T]
    for use in (*uses, lambda: np.asarray(array), lambda: np.add(array, 1), lambda: np.sum(array)):
        with pytest.raises(DeviceError, match=message):
            use()
    with pytest.raises(TypeError, match="not to be pickled"):
        pickle.dumps(array)
    with pytest.raises(DeviceError, match="nothing can be made"):
        ABSENT.xp.zeros(1)


def test_it_has_no_memory_to_tell_of(array: AbsentArray):
    backend = AbsentBackend()
    for ask in (lambda: backend.memory(3), lambda: backend.reset_peak(3), lambda: backend.limit(3, 1)):
        with pytest.raises(DeviceError, match="'cuda:3' is not served by this process"):
            ask()
    backend.synchronize(3)
    backend.empty_cache()
    assert backend.numerics() == "absent"
    assert (backend.count(), backend.current(), backend.index_of(array)) == (0, -1, 3)
    assert backend.start_of(array) == array.host.__array_interface__["data"][0]
    with backend.on(3):
        assert backend.copy_to(array, 4).device == Device("cuda", 4)
    assert backend.from_host(np.ones(2), 5).device == Device("cuda", 5)
