"""Backends: from a session's address to its executor.

`Session` opens its executor here. That of Ray, which is optional, is imported only when an address asks for it.
"""

from __future__ import annotations

import os
from typing import Any

from raygrad.autograd.devices import Device
from raygrad.scheduler.model.plan import Cluster
from raygrad.workers.executors.base import Executor
from raygrad.workers.executors.inprocess import InProcessExecutor

from ..options import options_of, whole


def open_executor(
    address: str,
    *,
    workers: int | None,
    gpus: int | None = None,
    strict: bool,
    blas_threads: int,
    options: dict[str, Any],
) -> Executor:
    """Return the executor that an address names; all arguments but `options` are checked before.

    Raises:
        ValueError: options that the backend does not take.
        TypeError: options that are not of the type that it takes.
        BackendUnavailable: the backend's extra is not installed.
    """
    if gpus is not None:
        whole("gpus", gpus, 0)
        if gpus and workers is not None and gpus > workers:
            raise ValueError(f"gpus={gpus} need as many workers, one each; workers={workers}")
    if address == "local":
        options_of("local", options)
        offers = options.get("worker_options")
        count = workers or max(len(os.sched_getaffinity(0)), gpus or 0)
        return InProcessExecutor(
            count,
            gpus=gpus,
            strict=strict,
            blas_threads=blas_threads,
            worker_options=offers,
            user_threads=workers is not None,
        )
    if strict:
        raise ValueError("strict=True is for local sessions; on Ray everything crosses processes anyway")
    options_of("ray", options)
    from raygrad.workers.executors.ray.executor import RayExecutor

    return RayExecutor(address, workers, gpus=gpus, blas_threads=blas_threads, **options)


def devices_of(cluster: Cluster) -> tuple[Device, ...]:
    """Return the devices that workers serve beside the host, in order."""
    names = {name for worker in cluster.workers for name in worker.devices if name != "cpu"}
    return tuple(sorted(map(Device, names), key=lambda device: (device.type, device.index or 0)))
