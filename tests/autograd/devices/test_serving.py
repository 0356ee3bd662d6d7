"""Who serves a device, and how data gets there."""

from __future__ import annotations

import numpy as np
import pytest

import raygrad as rg
from raygrad.autograd.devices import backend_of, device_of, space_of, use_stand_in
from raygrad.autograd.devices.serving import (
    as_device,
    as_kernel_result,
    available_backend,
    backend_for_kind,
    backend_if_installed,
    current_device_of_kind,
    device_guard,
    disable_cuda,
    factory_device,
    is_device_array,
    is_simulated,
    known_backend_of,
    make,
    move_array,
    needs_device_guard,
    serve,
    to_host,
    writable,
)
from raygrad.errors import DeviceError

CPU = rg.device("cpu")


def test_without_a_gpu_the_error_names_the_fix():
    if available_backend() is not None:
        pytest.skip("there is one")
    with pytest.raises(RuntimeError, match=r"'cuda:1' needs CuPy.*raygrad\[cuda12\] or raygrad\[cuda13\]"):
        rg.zeros(1, device="cuda:1")


def test_a_device_that_is_not_there_is_refused():
    with use_stand_in(2), pytest.raises(RuntimeError, match=r"invalid device ordinal; there are cuda:0, cuda:1"):
        rg.zeros(1, device="cuda:2")


def test_where_gpus_are_refused_none_is_looked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAYGRAD_STAND_IN", "1")
    before = serve(None)
    try:
        assert is_simulated()
        disable_cuda("this worker has none")
        assert (backend_if_installed(), available_backend(), current_device_of_kind("cuda")) == (None, None, None)
        with pytest.raises(DeviceError, match=r"^device 'cuda:0' is not available: this worker has none$"):
            rg.zeros(1, device="cuda:0")
        with use_stand_in(1):
            assert rg.zeros(1, device="cuda:0").is_cuda
        assert backend_if_installed() is None
        disable_cuda("")
        assert rg.zeros(1, device="cuda:0").is_cuda
    finally:
        disable_cuda("")
        serve(before)


def test_the_current_device_is_the_one_without_a_number():
    with use_stand_in(2) as devices:
        assert as_device("cuda") == rg.device("cuda:0")
        with devices.on(1):
            assert as_device("cuda") == rg.device("cuda:1")
            assert rg.zeros(1, device="cuda").device == rg.device("cuda:1")
        assert as_device("cpu:0") == CPU
        assert factory_device(None) is None
        assert factory_device("cpu") is None
        assert factory_device("cuda") == rg.device("cuda:0")


def test_arrays_are_known_by_their_type():
    with use_stand_in(2) as devices:
        here, there = np.zeros(2), devices.from_host(np.zeros(2), 1)
        assert (device_of(here), device_of(there)) == (CPU, rg.device("cuda:1"))
        assert (backend_of(there), known_backend_of(there), backend_for_kind("cuda")) == (devices, devices, devices)
        assert backend_of(3) is None
        assert (is_device_array(here), is_device_array(there), is_device_array(3)) == (False, True, False)
        assert (needs_device_guard(here), needs_device_guard(there), needs_device_guard(3)) == (False, True, False)
        with device_guard(there):
            assert not needs_device_guard(there)
            assert device_of(space_of(there).zeros(1)) == rg.device("cuda:1")
        assert space_of(here) is space_of(3) is np
        assert space_of(rg.Tensor.made(there)) is devices.xp
        assert space_of(rg.zeros(1)) is np
        assert (writable(here), writable(there), writable(np.broadcast_to(here, (2, 2)))) == (True, True, False)
        assert as_kernel_result(there) is there
        assert type(as_kernel_result(np.float64(1))) is np.ndarray
        with pytest.raises(RuntimeError, match="no backend knows arrays of type int"):
            known_backend_of(3)


def test_data_moves_only_where_it_is_not():
    with use_stand_in(2) as devices:
        here = np.arange(3.0)
        first, second = rg.device("cuda:0"), rg.device("cuda:1")
        assert move_array(here, None) is move_array(here, CPU) is here
        there = move_array(here, first)
        assert move_array(there, first) is there
        assert device_of(move_array(there, second)) == second
        assert to_host(there).tolist() == [0, 1, 2]
        assert to_host(here) is here
        assert device_of(make(second, lambda xp: xp.zeros(1))) == second
        assert type(make(None, lambda xp: xp.zeros(1))) is np.ndarray
        with use_stand_in(1), pytest.raises(ValueError, match="switched off"):
            move_array(there, second)
        assert devices.transfers.between == 1
