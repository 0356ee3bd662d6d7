"""Sums of gradients that are arrays of a device."""

from __future__ import annotations

import numpy as np
import pytest

from raygrad.autograd.devices import use_stand_in
from raygrad.autograd.devices.defined_sums import add_gradient_in_place, add_gradients, write_into


def test_sums_are_made_on_the_device_of_the_operands():
    with use_stand_in(2) as devices:
        a, b = (devices.from_host(np.array(values), 1) for values in ([1.0, 2.0], [3.0, 4.0]))
        total = add_gradients(a, b)
        assert (devices.index_of(total), total.get().tolist()) == (1, [4, 6])
        assert add_gradient_in_place(a, b) is a
        assert a.get().tolist() == [4, 6]
        shared = devices.xp.broadcast_to
        with devices.on(1):
            expanded = shared(b, (2, 2))
            added = add_gradient_in_place(expanded, expanded)
        assert added is not expanded
        assert added.get().tolist() == [[6, 8], [6, 8]]


def test_two_devices_are_not_added():
    with use_stand_in(2) as devices:
        a, b = devices.from_host(np.zeros(1), 0), devices.from_host(np.zeros(1), 1)
        for add in (add_gradients, add_gradient_in_place):
            with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cuda:1"):
                add(a, b)


def test_a_value_is_written_into_memory_elsewhere():
    with use_stand_in(2) as devices:
        memory = devices.from_host(np.zeros(2, np.float32), 1)
        write_into(memory, np.array([1.0, 2.0]))
        assert memory.get().tolist() == [1, 2]
        write_into(memory, devices.from_host(np.array([3.0, 4.0]), 0))
        assert memory.get().tolist() == [3, 4]
        host = np.zeros(2)
        write_into(host, memory)
        assert host.tolist() == [3, 4]
