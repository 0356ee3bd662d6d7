from __future__ import annotations

import importlib.util
import os
import subprocess
from typing import Any

import pytest

from raygrad.errors import DeviceError, ExecutionError
from raygrad.workers.executors.ray import actor_processes as module
from raygrad.workers.executors.ray.actor_processes import is_alive, wait_until_gone
from raygrad.workers.executors.ray.executor import RayExecutor

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs raygrad[ray]")
pytestmark = [pytest.mark.ray, needs_ray]


def test_more_workers_than_fit_are_an_error_that_names_what_is_free(ray_running: None, monkeypatch: Any):
    monkeypatch.setattr(module, "START_DEADLINE", 1.0)
    with pytest.raises(ExecutionError, match="workers came up within"):
        RayExecutor("ray", 2, worker_options={"num_cpus": 3})


def test_more_gpus_than_there_are_is_an_error_at_once_where_none_can_come(ray_running: None, monkeypatch: Any):
    asked = [{"num_gpus": 0.5}, {"num_gpus": 1}, {"num_gpus": 0}]
    message = r"2 of the 3 workers ask for 1\.5 GPUs together, and the nodes of this Ray have 0: .*num_gpus=2\)\)$"
    with pytest.raises(DeviceError, match=message):
        module.check_gpus(asked)
    module.check_gpus([{"num_gpus": 0}, {}])
    monkeypatch.setattr(module, "may_grow", lambda: True)
    module.check_gpus(asked)
    monkeypatch.setattr(module, "START_DEADLINE", 1.0)
    with pytest.raises(DeviceError, match="1 of the 1 workers ask for 1 GPUs together"):
        RayExecutor("ray", 1, gpus=1)


def test_a_process_is_waited_for_until_it_has_ended():
    process = subprocess.Popen(["sleep", "60"])
    assert is_alive(process.pid)
    process.kill()
    wait_until_gone([process.pid])
    assert not is_alive(process.pid), "it may be a zombie: nobody has asked for its status"
    process.wait()
    assert is_alive(os.getpid())
