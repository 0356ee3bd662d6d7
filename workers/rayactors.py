"""Worker processes as Ray actors: how they start, which processes they are, and how they are gone.

Rules of this file: no call of a session's work is made here (`channel`). Ray retries and restarts nothing.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from raygrad.errors import ExecutionError

from .actor import CALLS_AT_ONCE, WorkerActor
from .rayconnection import node_id, ray_module

START_DEADLINE: Final = 60.0
"""Seconds for all workers to come up: a process takes one or two, importing NumPy included."""

HELLO_DEADLINE: Final = 10.0
"""Seconds to read an answer that Ray says has arrived."""

CLOSE_DEADLINE: Final = 10.0
"""Seconds for killed worker processes to be gone."""


@dataclass(slots=True)
class Worker:
    """An actor, and the process behind it."""

    name: str
    actor: Any
    actor_id: str
    pid: int = 0
    node_id: str = ""
    lost: bool = False


def start_workers(
    count: int, blas_threads: int, options: Mapping[str, Any], placement_group: Any, made: list[Any]
) -> list[Worker]:
    """Start `count` actors and wait until they answer. `made` gets each actor as soon as it exists.

    Raises:
        ExecutionError: they do not come up before the deadline, or cannot import raygrad.
    """
    ray = ray_module()
    strategy = importlib.import_module("ray.util.scheduling_strategies").PlacementGroupSchedulingStrategy
    workers: list[Worker] = []
    for number in range(count):
        chosen = {
            **options,
            "max_restarts": 0,
            "max_task_retries": 0,
            "allow_out_of_order_execution": True,
            "max_concurrency": CALLS_AT_ONCE,
        }
        if placement_group is not None:
            chosen["scheduling_strategy"] = strategy(placement_group, placement_group_bundle_index=number)
        name = f"worker {number}"
        actor = ray.remote(**chosen)(WorkerActor).remote(name, blas_threads)
        made.append(actor)
        workers.append(Worker(name, actor, actor._actor_id.hex()))
    hellos = [worker.actor.hello.remote(node_id) for worker in workers]
    ready, missing = ray.wait(hellos, num_returns=count, timeout=START_DEADLINE)
    if missing:
        raise ExecutionError(
            f"{len(ready)} of {count} workers came up within {START_DEADLINE:.0f} s; free on the cluster: "
            f"{ray.available_resources()}; asked for per worker: {dict(options)}"
        )
    for worker, hello in zip(workers, hellos, strict=True):
        try:
            worker.pid, worker.node_id = ray.get(hello, timeout=HELLO_DEADLINE)
        except ray.exceptions.RayError as error:
            raise ExecutionError(
                f"{worker.name} did not start ({cause_of(error)}); raygrad must be installed for the Python of Ray's "
                "workers, or named in runtime_env"
            ) from error
    return workers


def as_ours(error: Exception) -> ExecutionError:
    """Return an error of Ray that is no dead actor as one of ours."""
    cause = getattr(error, "cause", None)
    inner = f"{type(cause).__name__}: {cause}" if cause is not None else cause_of(error)
    return ExecutionError(f"Ray could not run or read it: {inner}")


def cause_of(error: Exception) -> str:
    """Return the line of a Ray error that says what happened."""
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
