"""The simulated devices: counted transfers and memory, switched on and off explicitly."""

# pyright: reportUnusedExpression=false, reportOptionalMemberAccess=false, reportAttributeAccessIssue=false

from __future__ import annotations

import gc
import os
import subprocess
import sys
from typing import Any

import pytest

import raygrad as rg
from raygrad.autograd.devices import StandIn, use_stand_in
from raygrad.autograd.devices.simulated.simulated_device import StandInMemoryError


def test_transfers_are_counted_each_way():
    with use_stand_in(2) as devices:
        x = rg.tensor([1.0, 2.0], device="cuda")
        y = x.to("cuda:1")
        y.cpu()
        found = devices.transfers
        assert (found.to_device, found.to_device_bytes) == (1, 8)
        assert (found.between, found.between_bytes) == (1, 8)
        assert (found.to_host, found.to_host_bytes) == (1, 8)
        devices.forget_transfers()
        (x * 2).exp().sum()
        rg.zeros(3, device="cuda"), rg.arange(4, device="cuda:1"), rg.eye(2, device="cuda"), rg.full_like(x, 2)
        found = devices.transfers
        assert (found.to_device, found.to_host, found.between, found.questions) == (0, 0, 0, 0)


def test_memory_is_counted_until_it_is_let_go_of():
    with use_stand_in(2) as devices:
        x = rg.zeros(100, device="cuda:1", dtype=rg.float64)
        view = x[10:20]
        assert devices.memory(1).allocated == 800
        assert devices.memory(0).allocated == 0
        y = x + 1
        assert devices.memory(1).allocated == 1600
        del x, y
        gc.collect()
        assert devices.memory(1).allocated == 800  # the view holds all of it
        del view
        gc.collect()
        assert devices.memory(1) == (0, 1600, 16 * 1024**3, 16 * 1024**3)
        devices.reset_peak(1)
        assert devices.memory(1).peak == 0


def test_memory_runs_out_where_it_is_limited():
    with use_stand_in(1, memory=1000) as devices:
        x = rg.zeros(100, device="cuda", dtype=rg.float64)
        with pytest.raises(StandInMemoryError, match="limit set to: 1000"):
            devices.xp.zeros(100)
        with pytest.raises(MemoryError) as caught:
            x + 1
        assert isinstance(caught.value, RuntimeError)
        assert "add of [100]" in str(caught.value)
        assert (devices.memory(0).free, devices.memory(0).total) == (200, 1000)
        devices.limit(0, None)
        assert (x + 1).sum().item() == 100


def test_a_backward_that_runs_out_of_memory_says_so_and_leaves_no_memory_behind():
    with use_stand_in(1) as devices:
        x = rg.ones(100, device="cuda", dtype=rg.float64).requires_grad_()
        y = (x.exp() * x).sum()
        devices.limit(0, devices.memory(0).allocated)
        with pytest.raises(MemoryError):
            y.backward()
        assert x.grad is None
        devices.limit(0, None)
        del y
        gc.collect()
        assert devices.memory(0).allocated == 800


def test_it_serves_until_it_is_closed():
    before = rg.cuda.is_available()
    outer = use_stand_in(1)
    with use_stand_in(3):
        assert rg.cuda.device_count() == 3
    assert rg.cuda.device_count() == 1
    outer.close()
    assert rg.cuda.is_available() is before
    with pytest.raises(RuntimeError, match="at least one device"):
        StandIn(0)


@pytest.mark.slow
def test_worker_processes_get_it_by_the_environment():
    def ran(code: str, value: str) -> Any:
        command = [sys.executable, "-c", f"import raygrad as rg\n{code}"]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=sys.prefix,
            env={**os.environ, "RAYGRAD_STAND_IN": value},
        )

    done = ran("print(rg.zeros(2, device='cuda:1') + 1, rg.cuda.device_count())", "2")
    assert done.stdout.split() == ["tensor([1.,", "1.],", "device='cuda:1')", "2"], done.stderr
    assert "is the number of simulated devices" in ran("rg.zeros(2, device='cuda')", "yes").stderr


def test_a_peak_that_is_reset_begins_with_what_is_held() -> None:
    with use_stand_in(1):
        held = rg.ones(100, device="cuda")
        more = rg.ones(1000, device="cuda")
        del more
        rg.cuda.reset_peak_memory_stats()
        assert rg.cuda.max_memory_allocated() == rg.cuda.memory_allocated() >= held.numel() * 4


def test_the_peak_stays_when_memory_was_let_go_of_and_less_is_taken():
    with use_stand_in(1) as devices:
        large = rg.zeros(100, device="cuda", dtype=rg.float64)
        del large
        gc.collect()
        small = rg.zeros(10, device="cuda", dtype=rg.float64)
        assert (devices.memory(0).allocated, devices.memory(0).peak) == (80, 800)
        del small
