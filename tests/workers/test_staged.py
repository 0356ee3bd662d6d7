"""Values of a device cross processes as host memory and a name, and are never pickled."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.devices.serving import device_of, to_host
from raygrad.errors import DeviceError
from raygrad.proto.values import Packed
from raygrad.workers.host import WorkerHost
from raygrad.workers.staged import Staged, unstaged


def test_a_value_goes_to_its_device_where_that_is_served() -> None:
    with use_stand_in(2):
        made = unstaged("cuda:1", np.arange(3.0))
        assert (str(device_of(made)), to_host(made).tolist()) == ("cuda:1", [0.0, 1.0, 2.0])
        away = unstaged("cuda:2", np.arange(3.0))
    assert isinstance(away, Staged)
    assert away.nbytes == 24


def test_who_reads_what_is_not_served_is_told_what_to_do() -> None:
    with pytest.raises(DeviceError, match=r"is on cuda:3, which this process does not serve: .*tensor\.cpu\(\)"):
        raise Staged("cuda:3", np.zeros(2)).refused()


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
def test_arrays_of_a_device_pack_without_being_pickled(device: str) -> None:
    host = WorkerHost("worker 0")
    with use_stand_in(2) as devices:
        array = rg.tensor(np.arange(6.0).reshape(2, 3), device=device).T.read()
        with pytest.raises(TypeError, match="not to be pickled"):
            pickle.dumps(array)
        devices.forget_transfers()
        packed = host.pack([array, np.ones(2)])
        assert devices.transfers.to_host == 1
        crossed = pickle.loads(pickle.dumps(packed))
        assert isinstance(crossed, Packed)
        back, beside = host.unpack(crossed)  # type: ignore[misc]
        assert devices.transfers.to_device == 1
        assert (str(device_of(back)), back.dtype, back.shape, back.strides) == (device, array.dtype, (3, 2), (8, 24))
        assert to_host(back).tolist() == to_host(array).tolist()
        assert beside.tolist() == [1.0, 1.0]


def test_what_is_not_served_crosses_on_as_it_came() -> None:
    host = WorkerHost("worker 0")
    with use_stand_in(2):
        packed = host.pack([rg.ones(2, device="cuda:1").read()])
    with use_stand_in(1) as devices:
        (held,) = host.unpack(packed)  # type: ignore[misc]
        assert isinstance(held, Staged)
        again = host.pack([held])
        assert devices.transfers.to_host == devices.transfers.to_device == 0
    with use_stand_in(2):
        (back,) = host.unpack(again)  # type: ignore[misc]
        assert str(device_of(back)) == "cuda:1"
