"""Lifecycle of worker processes as Ray actors: start with resources, identification, GPUs, death.

The Ray executor starts its workers here; calls go through `channel`. Ray retries and restarts nothing."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from raygrad.errors import DeviceError, ExecutionError
from raygrad.scheduler.model.numerics_class import Numerics

from ...process.gpu_assignment import number_gpus
from .actor import MAX_CONCURRENT_CALLS, WorkerActor
from .connection import may_grow, node_and_gpus, ray_module
from .placement_groups import check_placement

START_DEADLINE: Final = 60.0
"""Seconds for all workers to come up: a process takes one or two, importing NumPy included."""

HELLO_DEADLINE: Final = 10.0
"""Seconds to read an answer that Ray says has arrived."""

CLOSE_DEADLINE: Final = 10.0
"""Seconds for killed worker processes to be gone."""


@dataclass(slots=True)
class ActorProcess:
    """An actor and its process."""

    name: str
    actor: Any
    actor_id: str
    pid: int = 0
    node_id: str = ""
    gpus: tuple[int, ...] = ()
    """The session's numbers of the GPUs that it serves."""
    numerics: Numerics = ()
    lost: bool = False


def start_workers(
    options: Sequence[Mapping[str, Any]],
    blas_threads: int,
    placement_group: Any,
    made: list[Any],
    *,
    simulated: bool = False,
    memory: int | None = None,
    required: bool = False,
) -> list[ActorProcess]:
    """Start an actor with each of these options and wait until they answer. `made` gets each actor as soon as it
    exists. Actors that Ray gives GPUs serve them: `simulated` ones with `memory` bytes, if so. If that is `required`,
    an actor that cannot raises.

    Raises:
        ExecutionError: they do not come up before the deadline, or cannot import raygrad.
        DeviceError: there are not so many GPUs, or a worker cannot serve those that it was given.
        TypeError, ValueError: see `check_placement`.
    """
    ray = ray_module()
    check_gpus(options)
    if placement_group is not None:
        check_placement(placement_group, options)
    strategy = importlib.import_module("ray.util.scheduling_strategies").PlacementGroupSchedulingStrategy
    workers: list[ActorProcess] = []
    for number, own in enumerate(options):
        chosen = {
            **own,
            "max_restarts": 0,
            "max_task_retries": 0,
            "allow_out_of_order_execution": True,
            "max_concurrency": MAX_CONCURRENT_CALLS,
        }
        if placement_group is not None:
            chosen["scheduling_strategy"] = strategy(placement_group, placement_group_bundle_index=number)
        name = f"worker {number}"
        actor = ray.remote(**chosen)(WorkerActor).remote(name, blas_threads)
        made.append(actor)
        workers.append(ActorProcess(name, actor, actor._actor_id.hex()))
    hellos = [worker.actor.hello.remote(node_and_gpus) for worker in workers]
    given: list[tuple[str, tuple[str, ...]]] = []
    for worker, hello in zip(workers, _all_of(hellos, options), strict=True):
        try:
            worker.pid, (worker.node_id, gpus) = ray.get(hello, timeout=HELLO_DEADLINE)
        except ray.exceptions.RayError as error:
            raise ExecutionError(
                f"{worker.name} did not start ({error_line(error)}); raygrad must be installed for the Python of Ray's "
                "workers, or named in runtime_env"
            ) from error
        given.append((worker.node_id, gpus))
    numbers = number_gpus(given)
    answers = [worker.actor.serve.remote(own, simulated, memory) for worker, own in zip(workers, numbers, strict=True)]
    for worker, own, answer in zip(workers, numbers, _all_of(answers, options), strict=True):
        missing, worker.numerics = ray.get(answer, timeout=HELLO_DEADLINE)
        if missing and required:
            raise DeviceError(f"{worker.name} on node {worker.node_id} cannot serve a GPU: {missing}")
        worker.gpus = () if missing else own
    return workers


def check_gpus(options: Sequence[Mapping[str, Any]]) -> None:
    """Check that a Ray that cannot grow has the GPUs that workers request: Ray would wait for them in vain.

    Raises:
        DeviceError: there are too few.
    """
    if _gpus_in(options) > ray_module().cluster_resources().get("GPU", 0.0) and not may_grow():
        raise _too_few(options)


def _all_of(answers: Sequence[Any], options: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
    """Wait for the answers of all workers and return them.

    Raises:
        ExecutionError: some do not come before the deadline.
        DeviceError: for want of GPUs.
    """
    ray = ray_module()
    ready, missing = ray.wait(answers, num_returns=len(answers), timeout=START_DEADLINE)
    if not missing:
        return answers
    if _gpus_in(options) > ray.cluster_resources().get("GPU", 0.0):
        raise _too_few(options)
    kinds = [dict(own) for number, own in enumerate(options) if own not in options[:number]]
    raise ExecutionError(
        f"{len(ready)} of {len(answers)} workers came up within {START_DEADLINE:.0f} s; free on the cluster: "
        f"{ray.available_resources()}; asked for per worker: {' or '.join(map(str, kinds))}"
    )


def _gpus_in(options: Sequence[Mapping[str, Any]]) -> float:
    return sum([float(own.get("num_gpus") or 0) for own in options])


def _too_few(options: Sequence[Mapping[str, Any]]) -> DeviceError:
    """Return the error for workers that request more GPUs than there are."""
    there = ray_module().cluster_resources().get("GPU", 0.0)
    asking = [own["num_gpus"] for own in options if own.get("num_gpus")]
    return DeviceError(
        f"{len(asking)} of the {len(options)} workers ask for {_gpus_in(options):g} GPUs together, and the nodes of "
        f"this Ray have {there:g}: ask for fewer with Session(gpus=...), for a part of one each with "
        "worker_options={'num_gpus': 0.5}, or start Ray on machines that have them (for simulated GPUs with logical "
        f"ones: ray.init(num_gpus={-(-_gpus_in(options) // 1):g}))"
    )


def as_execution_error(error: Exception) -> ExecutionError:
    """Return an error of Ray other than a dead actor as an ExecutionError."""
    cause = getattr(error, "cause", None)
    inner = f"{type(cause).__name__}: {cause}" if cause is not None else error_line(error)
    return ExecutionError(f"Ray could not run or read it: {inner}")


def error_line(error: Exception) -> str:
    """Return the line of a Ray error that names the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "died" in line or "dead" in line or "Error" in line]
    return f"{type(error).__name__}: {(telling or lines or ['no message'])[-1]}"


def wait_until_gone(pids: Sequence[int]) -> None:
    """Wait until processes of this machine have ended, or the deadline has passed."""
    deadline = time.monotonic() + CLOSE_DEADLINE
    left = list(pids)
    while left and time.monotonic() < deadline:
        left = [pid for pid in left if is_alive(pid)]
        if left:
            time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Tell whether a process of this machine runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
