"""What backends share: an array keeps its own axis order where it is moved."""

from __future__ import annotations

import numpy as np
import pytest

from raygrad.autograd.devices import Backend, Memory
from raygrad.autograd.devices.backends.backend import in_own_order, to_host_in_own_order
from raygrad.autograd.devices.backends.cpu import Cpu
from raygrad.autograd.devices.simulated.simulated_device import StandIn


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_axis_order_is_kept(axes: tuple[int, ...]):
    array = np.arange(24.0).reshape(2, 3, 4).transpose(axes)
    seen: list[bool] = []

    def move(dense: np.ndarray) -> np.ndarray:
        seen.append(dense.flags.c_contiguous)
        return dense.copy()

    moved = in_own_order(array, move)
    assert seen == [True]
    assert moved.strides == array.strides
    np.testing.assert_array_equal(moved, array)


def test_what_has_gaps_or_is_expanded_is_made_dense():
    for array in (np.arange(12.0).reshape(3, 4)[:, ::2], np.broadcast_to(np.arange(3.0), (2, 3))):
        moved = in_own_order(array, lambda dense: dense.copy())
        np.testing.assert_array_equal(moved, array)
        assert moved.flags.c_contiguous or moved.T.flags.c_contiguous


def test_of_what_was_expanded_one_item_comes_home():
    for array in (
        np.broadcast_to(np.arange(3.0), (2, 3)),
        np.broadcast_to(np.ones((3, 1)), (4, 3, 5)).T,
        np.zeros((0, 2)),
    ):
        sizes: list[int] = []

        def move(dense: np.ndarray, sizes: list[int] = sizes) -> np.ndarray:
            sizes.append(dense.size)
            return dense.copy()

        home, moved = to_host_in_own_order(array, move), in_own_order(array, lambda dense: dense.copy())
        np.testing.assert_array_equal(home, array)
        assert home.strides == moved.strides
        assert sizes == [3] or not array.size


def test_an_implementation_gives_all_of_it():
    for backend in (Cpu(), StandIn(2)):
        assert isinstance(backend, Backend)
        assert backend.count() >= 1
        assert backend.current() == 0
        array = backend.from_host(np.arange(3.0), 0)
        assert type(array) is backend.array
        assert backend.device_of(array).type == backend.kind
        assert backend.index_of(array) == 0
        assert backend.to_host(backend.copy_to(array, backend.count() - 1)).tolist() == [0, 1, 2]
        assert backend.writable(array)
        assert backend.numerics()
        assert backend.start_of(array[1:]) - backend.start_of(array) == 8
        backend.synchronize(0)
        backend.empty_cache()
        with backend.on(0):
            assert backend.current() == 0
    assert StandIn(1).memory(0) == Memory(0, 0, 16 * 1024**3, 16 * 1024**3)
