"""The host as a device."""

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices.backends.cpu import Cpu


def test_arrays_are_copied_in_their_own_order():
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    for copy in (Cpu().from_host(array, 0), Cpu().to_host(array), Cpu().copy_to(array, 0)):
        assert copy.flags.f_contiguous
        assert not np.shares_memory(copy, array)


def test_its_memory_is_not_counted():
    for ask in (lambda: Cpu().memory(0), lambda: Cpu().reset_peak(0), lambda: Cpu().limit(0, 1)):
        with pytest.raises(RuntimeError, match="use "):
            ask()


def test_a_read_only_array_is_not_written_to():
    array = np.zeros(2)
    array.flags.writeable = False
    assert not Cpu().writable(array)
    assert Cpu().device_of(array) == rg.device("cpu")
