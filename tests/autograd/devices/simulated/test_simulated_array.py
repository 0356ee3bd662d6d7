"""Arrays of the simulated device: NumPy's results, CuPy's refusals."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from raygrad.autograd.devices import StandIn, use_stand_in
from raygrad.autograd.devices.simulated.simulated_array import StandInArray


@pytest.fixture
def devices() -> Iterator[StandIn]:
    with use_stand_in(2) as devices:
        yield devices


def there(devices: StandIn, values: Any, index: int = 0) -> Any:
    return devices.from_host(np.asarray(values), index)


def test_numpy_s_functions_run_on_it(devices: StandIn):
    a = there(devices, [[1.0, 2.0], [3.0, 4.0]])
    for got in (
        np.sin(a), a + 1, 1 - a, a @ a, a.sum(0), np.concatenate([a, a]), np.where(a > 1, a, 0.0), a[0], a[..., None],
        np.linalg.inv(a), np.fft.fft(a), a.T, a.mean(), np.max(a, axis=1), a.astype(np.float32), np.zeros_like(a),
    ):  # fmt: skip
        assert type(got) is StandInArray
        assert got.device.id == 0
    assert (a @ a).get().tolist() == [[7, 10], [15, 22]]
    assert type(a.sum()) is StandInArray  # NumPy gives scalars, CuPy arrays
    assert [part.item() for part in np.linalg.slogdet(a)] == [-1, pytest.approx(np.log(2))]


@pytest.mark.parametrize(
    "mix",
    [
        lambda a, h: a + h, lambda a, h: h + a, lambda a, h: np.where(h > 0, a, a), lambda a, h: np.concatenate([a, h]),
        lambda a, h: a.__setitem__(slice(None), h), lambda a, h: a[np.array([0])], lambda a, h: np.add(a, a, out=h),
    ],
)  # fmt: skip
def test_it_does_not_mix_with_numpy_s(devices: StandIn, mix: Any):
    with pytest.raises(TypeError):
        mix(there(devices, [1.0, 2.0]), np.array([1.0, 2.0]))


def test_it_becomes_no_numpy_array_by_itself(devices: StandIn):
    a = there(devices, [1.0])
    for convert in (np.asarray, np.array, np.ascontiguousarray, lambda x: np.array([x, x]), np.frompyfunc(abs, 1, 1)):
        with pytest.raises(TypeError):
            convert(a)
    with pytest.raises(TypeError, match="not to be pickled"):
        pickle.dumps(a)
    with pytest.raises(BufferError, match="simulated"):
        a.__dlpack__()
    with pytest.raises(TypeError):
        hash(a)


@pytest.mark.parametrize(
    "lacking",
    [
        lambda a: np.add.reduce(a), lambda a: np.maximum.accumulate(a), lambda a: np.add.at(a, 0, 1.0),
        lambda a: np.matmul(a, a), lambda a: np.spacing(a), lambda a: np.sum(a, where=a > 0), lambda a: np.vecdot(a, a),
        lambda a: np.max(a, initial=0.0), lambda a: np.sort(a, stable=True), lambda a: np.lib.scimath.sqrt(a),
        lambda a: a.max(initial=0.0),
    ],
)  # fmt: skip
def test_what_cupy_lacks_is_refused(devices: StandIn, lacking: Any):
    with pytest.raises(TypeError):
        lacking(there(devices, [1.0, 2.0]))


def test_devices_do_not_mix(devices: StandIn):
    a, b = there(devices, [1.0], 0), there(devices, [1.0], 1)
    with pytest.raises(ValueError, match="different from the current device"):
        a + b
    with pytest.raises(ValueError, match="different from the current device"):
        b + b
    with devices.on(1):
        assert (b + b).device.id == 1
    with use_stand_in(1) as others, pytest.raises(ValueError, match="another's"):
        others.xp.add(there(devices, [1.0]), 1)


def test_views_know_their_base_and_share_memory(devices: StandIn):
    a = there(devices, np.arange(6.0).reshape(2, 3))
    for view in (a[0], a.T, a.reshape(3, 2), a.swapaxes(0, 1), a[None], a.diagonal(), np.broadcast_to(a, (2, 2, 3))):
        assert view.base is a
    assert a.T.T.base is a
    assert a.copy().base is None
    assert a.astype(np.float64, copy=False) is a
    a[0][1] = 9
    assert a[0, 1].item() == 9
    assert a.flags.c_contiguous
    assert a.T.flags.f_contiguous
    assert not hasattr(a.flags, "writeable")
    c = there(devices, [1 + 2j])
    c.real, c.imag = 3, there(devices, [4.0])
    assert c.tolist() == [3 + 4j]
    assert a.mT.shape == (3, 2)
    assert (a.size, a.itemsize, a.nbytes, a.ndim, len(a), len(list(a))) == (6, 8, 48, 2, 2, 2)


def test_questions_of_the_host_are_counted(devices: StandIn):
    a = there(devices, [2.0])
    devices.forget_transfers()
    assert bool(a)
    assert float(a[0]) == int(a[0]) == complex(a[0]) == 2
    assert (devices.transfers.questions, devices.transfers.to_host) == (4, 0)
    assert a.item() == a.tolist()[0] == a.get()[0]
    assert (devices.transfers.to_host, devices.transfers.to_host_bytes) == (3, 24)
    assert "stand-in" in repr(a)


def test_what_makes_arrays_makes_them_on_a_device_if_asked_for_arrays_like_one():
    with use_stand_in(1) as devices:
        there = devices.from_host(np.arange(3.0), 0)
        devices.forget_transfers()
        moved = np.asarray(np.ones(4), like=there)
        assert type(moved) is type(there)
        assert devices.transfers.to_device == 1
        assert type(np.zeros(2, like=there)) is type(there)
        assert devices.transfers.to_device == 1
