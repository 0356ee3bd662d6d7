from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import raygrad
from raygrad.errors import DeviceError, ExecutionError
from raygrad.workers.executors.ray import actor_processes as module
from raygrad.workers.executors.ray.actor_processes import is_alive, wait_until_gone
from raygrad.workers.executors.ray.executor import RayExecutor

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs raygrad[ray]")
pytestmark = [pytest.mark.ray, needs_ray]


def test_more_workers_than_nodes_have_room_for_are_an_error_at_once(ray_started: None):
    """Nobody waits for what cannot come."""
    text = r"2 of the workers ask for CPU 3 each, and there is room for 1 of them.*: CPU 4 of 4 free"
    with pytest.raises(ExecutionError, match=f"(?s){text}"):
        RayExecutor("ray", 2, worker_options={"num_cpus": 3})
    with pytest.raises(ExecutionError, match=r"(?s)5 of the workers ask for CPU 1 each, and there is room for 4"):
        RayExecutor("ray", 5)
    with pytest.raises(ExecutionError, match=r"(?s)ask for CPU 1, disk 1 each, .*disk 0 of 0 free"):
        RayExecutor("ray", 1, worker_options={"resources": {"disk": 1}})


def test_who_holds_what_workers_ask_for_is_said_at_once_and_at_the_end(ray_started: None, monkeypatch: Any):
    import ray

    class Trainer:
        pass

    started: Any = ray.remote(num_cpus=3)(Trainer)
    trainer = started.options(name="trainer").remote()
    ray.get(trainer.__ray_ready__.remote())
    holder = rf"the actor 'trainer' in process \d+ of '.*' \(process {os.getpid()} on .*\) has CPU 3"
    monkeypatch.setattr(module, "START_DEADLINE", 3.0)
    said = pytest.raises(
        ExecutionError, match=rf"(?s)1 of 2 workers came up .* last 3 s; 1 wait for resources.*{holder}"
    )
    with pytest.warns(RuntimeWarning, match=rf"(?s)2 of the workers ask for CPU 1 each, .* 1 of them.*{holder}"), said:
        RayExecutor("ray", 2)
    monkeypatch.setattr(module, "START_DEADLINE", 60.0)
    made: list[Any] = []
    with pytest.warns(RuntimeWarning, match="waits for resources of Ray, 60 s at most for each worker"):
        assert module.check_resources([{"num_cpus": 2}])
    ray.kill(trainer)  # and those who wait go on
    workers = module.start_workers([{"num_cpus": 2}, {"num_cpus": 2}], 1, None, made)
    assert [worker.name for worker in workers] == ["worker 0", "worker 1"]
    for actor in made:
        ray.kill(actor)
    wait_until_gone([worker.pid for worker in workers])


def test_what_a_placement_group_holds_is_named_and_may_be_for_the_workers(ray_started: None):
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = placement_group([{"CPU": 3}], name="reserved")
    assert group.wait(30)
    with pytest.warns(RuntimeWarning, match="CPU 1 of 4 free; the placement group reserved has CPU 3"):
        assert module.check_resources([{"num_cpus": 2}])
    inside = {"num_cpus": 2, "scheduling_strategy": PlacementGroupSchedulingStrategy(group)}
    assert not module.check_resources([inside])
    assert not module.check_resources([{"num_cpus": 2}], group)
    later = placement_group([{"CPU": 2}])
    with pytest.warns(RuntimeWarning, match="CPU 1 of 4 free; the placement group reserved has CPU 3"):
        assert module.check_resources([{"num_cpus": 2}], later)
    remove_placement_group(later)
    never = placement_group([{"CPU": 5}])
    with pytest.raises(ExecutionError, match="ask for CPU 5 each, and there is room for 0"):
        RayExecutor("ray", 1, placement_group=never)
    remove_placement_group(never)
    remove_placement_group(group)


def test_workers_that_wait_for_tasks_are_said_soon(ray_started: None, monkeypatch: Any, tmp_path: Path):
    import ray

    begun, end = tmp_path / "begun", tmp_path / "end"
    for pipe in (begun, end):
        os.mkfifo(pipe)

    @ray.remote(num_cpus=4)
    def hold(begun: Path, end: Path) -> str:
        begun.write_text("begun")
        return end.read_text()

    held = hold.remote(begun, end)
    assert begun.read_text() == "begun"
    monkeypatch.setattr(module, "START_DEADLINE", 4.0)
    said = pytest.raises(ExecutionError, match=r"0 of 1 workers came up within 4 s, .*; 1 wait for resources")
    with pytest.warns(RuntimeWarning, match="1 of 1 workers wait for a node .tasks may hold"), said:
        RayExecutor("ray", 1)
    end.write_text("end")
    assert ray.get(held) == "end"


def test_a_worker_of_another_version_is_an_error_that_names_both(ray_started: None, tmp_path: Path):
    """Another raygrad is where the workers look for it first."""
    other = tmp_path / "raygrad"
    shutil.copytree(Path(raygrad.__file__).parent, other, ignore=shutil.ignore_patterns("__pycache__"))
    init = other / "__init__.py"
    init.write_text(init.read_text().replace(f'"{raygrad.__version__}"', '"0.0.9"'))
    environment = {"env_vars": {"PYTHONPATH": str(tmp_path)}}
    with pytest.raises(ExecutionError, match=rf"raygrad 0\.0\.9 there, {raygrad.__version__} here; install the same"):
        RayExecutor("ray", 1, runtime_env=environment)
    actor = other / "workers" / "executors" / "ray" / "actor.py"
    actor.write_text("")  # nor is its actor that of this version
    with pytest.raises(ExecutionError, match=rf"raygrad 0\.0\.9 there, {raygrad.__version__} here"):
        RayExecutor("ray", 1, runtime_env=environment)


def test_more_gpus_than_there_are_is_an_error_at_once_where_none_can_come(ray_started: None, monkeypatch: Any):
    asked = [{"num_gpus": 0.5}, {"num_gpus": 1}, {"num_gpus": 0}]
    message = r"2 of the 3 workers ask for 1\.5 GPUs together, and the nodes of this Ray have 0: .*num_gpus=2\)\)$"
    with pytest.raises(DeviceError, match=message):
        module.check_gpus(asked)
    module.check_gpus([{"num_gpus": 0}, {}])
    monkeypatch.setattr(module, "may_grow", lambda: True)
    module.check_gpus(asked)
    monkeypatch.setattr(module, "START_DEADLINE", 1.0)
    wait = pytest.warns(RuntimeWarning, match="1 of the workers ask for CPU 1, GPU 1 each, and there is room for 0")
    with wait, pytest.raises(DeviceError, match="1 of the 1 workers ask for 1 GPUs together"):
        RayExecutor("ray", 1, gpus=1)


def test_a_process_is_waited_for_until_it_has_ended():
    process = subprocess.Popen(["sleep", "60"])
    assert is_alive(process.pid)
    process.kill()
    wait_until_gone([process.pid])
    assert not is_alive(process.pid), "it may be a zombie: nobody has asked for its status"
    process.wait()
    assert is_alive(os.getpid())
