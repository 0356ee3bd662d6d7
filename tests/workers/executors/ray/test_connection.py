from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from raygrad.errors import BackendUnavailable, ExecutionError
from raygrad.workers.executors.ray import connection as module
from raygrad.workers.executors.ray.actor_processes import is_alive
from raygrad.workers.executors.ray.executor import RayExecutor

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs raygrad[ray]")
pytestmark = [pytest.mark.ray, needs_ray]


def test_the_address_of_the_connected_ray_may_be_named_another_may_not(ray_started: None):
    import ray

    address = ray.get_runtime_context().gcs_address
    port = address.rpartition(":")[2]
    for host in (address.rpartition(":")[0], "127.0.0.1", "localhost", socket.gethostname()):
        RayExecutor(f"ray:{host}:{port}", 1).close()
    with pytest.raises(ValueError, match="connected to the Ray at"):
        RayExecutor("ray:127.0.0.1:1", 1)


def test_a_connected_ray_that_is_gone_is_said_at_once(ray_started: None, monkeypatch: Any):
    def gone(address: str) -> None:
        raise ExecutionError("no Ray answers") from ConnectionRefusedError("refused")

    monkeypatch.setattr(module, "_check_reachable", gone)
    message = r"the Ray at .*, to which this process is connected, is gone \(refused\): call ray\.shutdown\(\)"
    with pytest.raises(ExecutionError, match=message):
        RayExecutor("ray", 1)


def test_a_ray_of_another_version_is_said(monkeypatch: Any):
    class Ray:
        @staticmethod
        def init(**options: Any) -> None:
            raise RuntimeError("Version mismatch: the cluster was started with Python: 3.9.1")

    monkeypatch.setattr(module, "_check_reachable", lambda address: None)
    message = r"the Ray at 10\.0\.0\.1:6379 runs another version of Ray or Python: .*3\.9\.1"
    with pytest.raises(ExecutionError, match=message):
        module._join_or_start(Ray, "10.0.0.1:6379", 1, None, None)


def test_more_workers_than_this_machine_can_start_soon_are_warned_of_at_once(monkeypatch: Any):
    started: list[dict[str, Any]] = []

    class Ray:
        @staticmethod
        def init(**options: Any) -> None:
            started.append(options)

    monkeypatch.setattr(module, "_running_ray", lambda: "")
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda process: {0, 1})
    with pytest.warns(RuntimeWarning, match="ask for 17 CPUs together, and this process has 2: they share these"):
        module._join_or_start(Ray, "", 17, None, None)
    module._join_or_start(Ray, "", 16, None, None)
    assert [options["num_cpus"] for options in started] == [17, 16]


def test_a_process_knows_its_node_and_gpus_and_whether_more_may_come(ray_started: None):
    node, gpus = module.node_and_gpus()
    assert (node, gpus) == (module.node_id(), ())
    assert not module.may_grow(), "no autoscaler starts nodes for it"


def test_a_ray_started_for_an_executor_is_gone_after_it(tmp_path: Path):
    """In a process of its own, which is not connected to any Ray, and leaves nothing behind."""
    script = tmp_path / "alone.py"
    script.write_text(
        textwrap.dedent(
            """
            import os
            os.environ.pop("RAY_ADDRESS", None)
            from raygrad.workers.executors.ray import connection as module
            from raygrad.workers.executors.ray.executor import RayExecutor
            module._running_ray = lambda: ""  # whatever else runs on this machine
            one = RayExecutor("ray", 1, object_store_memory=100_000_000)
            two = RayExecutor("ray", 1)
            import ray
            assert not module.may_grow(), "this process started it"
            one.close()
            assert ray.is_initialized()
            print(two.pids()[0], os.getpid())
            two.close()
            assert not ray.is_initialized()
            """
        )
    )
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=110, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    worker, driver = map(int, done.stdout.split())
    assert worker != driver
    assert not is_alive(worker)


def test_an_address_where_no_ray_answers_is_an_error():
    with pytest.raises(ExecutionError, match=r"no Ray answers at 127\.0\.0\.1:1 "):
        module._check_reachable("127.0.0.1:1")
    with pytest.raises(ExecutionError, match="Ray Client"):
        module._check_reachable("ray://127.0.0.1:10001")


def test_a_running_ray_is_found_by_its_environment_variable(monkeypatch: Any):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert module._running_ray() == "10.0.0.1:6379"
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert module._running_ray() == ""


def test_without_ray_the_error_names_the_extra(monkeypatch: Any):
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(module.importlib, "import_module", missing)
    with pytest.raises(BackendUnavailable, match=r"raygrad\[ray\]"):
        RayExecutor("ray", 1)
