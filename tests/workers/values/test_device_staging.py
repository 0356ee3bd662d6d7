"""Values of a device cross processes as host memory and a name, and are never pickled."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import StandIn, serving, use_stand_in
from raygrad.autograd.devices.backends.absent_device import AbsentArray
from raygrad.autograd.devices.serving import device_of, to_host
from raygrad.errors import NotShippable
from raygrad.proto.codec.values import Blob, Packed
from raygrad.workers.code.pickling import HoldsDeviceArray, pickle_value
from raygrad.workers.code.shipping import ship
from raygrad.workers.process.host import WorkerHost
from raygrad.workers.values.device_staging import noting, pack_object, staged, unpack_object, unstaged
from raygrad.workers.values.packed_values import unpack_all


def test_a_value_goes_to_its_device_where_that_is_served() -> None:
    with use_stand_in(2):
        made = unstaged("cuda:1", np.arange(3.0))
        assert (str(device_of(made)), to_host(made).tolist()) == ("cuda:1", [0.0, 1.0, 2.0])
        away = unstaged("cuda:2", np.arange(3.0))
    assert isinstance(away, AbsentArray)
    assert (str(device_of(away)), away.nbytes) == ("cuda:2", 24)


class Mesh:
    """An object of a user's."""

    def __init__(self, points: object, cells: object) -> None:
        self.points = points
        self.cells = cells


def test_what_objects_hold_on_a_device_goes_with_them_only_if_they_were_asked_for() -> None:
    with use_stand_in(2) as devices:
        points = rg.tensor([1.0, 2.0], device="cuda:1", requires_grad=True)
        mesh = Mesh(points, [points.detach().read(), "name", np.arange(2)])
        with pytest.raises(
            HoldsDeviceArray, match=r"a tensor on cuda:1 is not pickled; make it an argument or an output"
        ):
            pack_object(mesh, False)
        with pytest.raises(HoldsDeviceArray, match="an array of cuda:1 is not pickled"):
            pack_object([points.detach().read()], False)
        devices.forget_transfers()
        packed = pack_object(mesh, True)
        assert devices.transfers.to_host == 1, "tensor and array are one memory"
        assert [type(one) for one in packed] == [Blob, tuple]
        back: Any = unpack_object(packed)
        assert devices.transfers.to_device == 1
        assert (str(back.points.device), back.points.requires_grad, back.points.tolist()) == (
            "cuda:1",
            True,
            [1.0, 2.0],
        )
        assert back.cells[0] is back.points.read()
        assert back.cells[1:] == ["name", pytest.approx([0, 1])]
    away: Any = unpack_object(packed)  # where no GPU is served
    assert (str(away.points.device), away.points.tolist()) == ("cuda:1", [1.0, 2.0])


class OfALibrary(np.ndarray[Any, Any]):
    """An array that its library pickles, as CuPy does: as a copy from the host."""


def test_no_library_pickles_its_arrays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(3.0).view(OfALibrary)
    assert pickle.loads(pickle.dumps(array)).tolist() == [0.0, 1.0, 2.0]
    backend = StandIn(1)
    monkeypatch.setitem(serving.ServingBackends.by_array, OfALibrary, backend)
    monkeypatch.setattr(backend, "device_of", lambda array: rg.device("cuda:0"))
    for value in (array, [array], {"a": (array,)}, Mesh(array, None), partial(print, array)):
        with pytest.raises(HoldsDeviceArray, match="an array of cuda:0 is not pickled"):
            pickle_value(value)

    def closes_over_it() -> Any:
        return array

    with pytest.raises(NotShippable, match=r"captures 'array'.* an array of cuda:0 is not pickled"):
        ship(closes_over_it)


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
        back, beside = unpack_all(crossed)  # type: ignore[misc]
        assert devices.transfers.to_device == 1
        assert (str(device_of(back)), back.dtype, back.shape, back.strides) == (device, array.dtype, (3, 2), (8, 24))
        assert to_host(back).tolist() == to_host(array).tolist()
        assert beside.tolist() == [1.0, 1.0]


def test_what_is_not_served_crosses_on_as_it_came() -> None:
    host = WorkerHost("worker 0")
    with use_stand_in(2):
        packed = host.pack([rg.ones(2, device="cuda:1").read()])
    with use_stand_in(1) as devices:
        (held,) = unpack_all(packed)  # type: ignore[misc]
        assert isinstance(held, AbsentArray)
        again = host.pack([held])
        assert devices.transfers.to_host == devices.transfers.to_device == 0
    with use_stand_in(2):
        (back,) = unpack_all(again)  # type: ignore[misc]
        assert str(device_of(back)) == "cuda:1"


def test_what_leaves_a_device_is_noted_by_who_asks() -> None:
    host = WorkerHost("worker 0")
    with use_stand_in(2):
        array = rg.ones(3, device="cuda:1").read()
        away = AbsentArray(rg.device("cuda:7"), np.ones(3))
        with noting() as left:
            host.pack([array, np.ones(2), Mesh(rg.tensor([1.0, 2.0], device="cuda"), away)], True)
            with noting() as inner:
                staged(array)
        staged(array)
    assert left == [("cuda:1", 12), ("cuda:0", 8)], "what is not there leaves nothing"
    assert inner == [("cuda:1", 12)]
