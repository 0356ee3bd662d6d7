"""Backends: from a session's address to its workers.

`Session` opens its workers here. That of Ray, which is optional, is imported only when an address asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from raygrad.autograd.devices import Device
from raygrad.scheduler.model.plan import Cluster
from raygrad.workers.executors.base import Executor
from raygrad.workers.executors.executor_workers import ExecutorWorkers
from raygrad.workers.executors.inprocess import InProcessExecutor
from raygrad.workers.executors.session_driver import SessionWorkers

from ..options import MOST_WORKERS, checked_address, is_service, options_of, whole


def check_options(
    address: str, *, workers: int | None, gpus: int | None, strict: bool, options: Mapping[str, Any]
) -> None:
    """Check what a session was given for its executor, as far as that needs no Ray.

    Raises:
        ValueError: options that the backend does not take.
        TypeError: options that are not of the type that it takes.
    """
    if gpus is not None:
        whole("Session(gpus=...)", gpus, 0, MOST_WORKERS)
        if gpus and workers is not None and gpus > workers:
            raise ValueError(f"gpus={gpus} need as many workers, one each; workers={workers}")
    if address != "local" and strict:
        raise ValueError("strict=True is for local sessions; on Ray everything crosses processes anyway")
    if address not in ("local", "ray") and options.get("object_store_memory") is not None:
        raise ValueError(
            f"Session(object_store_memory=...) is for a Ray that the session starts; the one at {address!r} is "
            "running: start it with the object store that you need (`ray start --object-store-memory=...`)"
        )
    if is_service(address) and gpus is not None:
        raise ValueError(f"Session(gpus=...): a session on {address} has the workers that its service gives it")
    options_of("local" if address == "local" else "service" if is_service(address) else "ray", options)


def asks_for_gpus(gpus: int | None, options: Mapping[str, Any]) -> bool:
    """Tell whether any worker on Ray asks for a GPU."""
    offers: Mapping[str, Any] = options.get("worker_options") or {}
    return bool(offers.get("num_gpus") if gpus is None else gpus)


def open_workers(
    address: str,
    *,
    workers: int | None,
    gpus: int | None = None,
    most: int | None = None,
    strict: bool,
    blas_threads: int,
    options: dict[str, Any],
) -> SessionWorkers:
    """Open the workers that an address names; all arguments are checked first, those of the session's own before.

    Raises:
        TypeError, ValueError: see `check_options`, or Ray does not take them.
        BackendUnavailable: the backend's extra is not installed.
    """
    check_options(address, workers=workers, gpus=gpus, strict=strict, options=options)
    if is_service(address):
        from raygrad.service.client.opening import open_service

        return open_service(address, workers=workers, blas_threads=blas_threads, options=options)
    return ExecutorWorkers(
        open_executor(
            address, workers=workers, gpus=gpus, most=most, strict=strict, blas_threads=blas_threads, options=options
        )
    )


def open_executor(
    address: str,
    *,
    workers: int | None,
    gpus: int | None = None,
    most: int | None = None,
    strict: bool,
    blas_threads: int,
    options: dict[str, Any],
    serves_others: bool = False,
) -> Executor:
    """Open the executor of an address that is no service's; see `open_workers`. With `serves_others` it runs code of
    programs in other processes."""
    if address == "local":
        offers = options.get("worker_options")
        count = workers or max(len(os.sched_getaffinity(0)), gpus or 0)
        return InProcessExecutor(
            count,
            gpus=gpus,
            strict=strict,
            blas_threads=blas_threads,
            worker_options=offers,
            user_threads=workers is not None or serves_others,
            serves_others=serves_others,
        )
    from raygrad.workers.executors.ray.executor import RayExecutor

    return RayExecutor(address, workers, most=most, gpus=gpus, blas_threads=blas_threads, **options)


def check_reachable(address: str, ca: str | None = None) -> None:
    """Check that a session can open at an address, without opening one. `ca` is a file with the authority of a
    service's certificate.

    Raises:
        TypeError, ValueError: it is no address.
        BackendUnavailable: the backend's extra is not installed.
        ExecutionError, ServiceError: nothing answers there, or it would not admit this process.
    """
    address = checked_address(address)
    if address == "local":
        return
    if is_service(address):
        from raygrad.service.client.opening import open_connection

        open_connection(address, None, ca).close()
        return
    from raygrad.workers.executors.ray.connection import ray_module, ray_to_join

    ray_module()
    ray_to_join(address.partition(":")[2])


def devices_of(cluster: Cluster) -> tuple[Device, ...]:
    """Return the devices that workers serve beside the host, in order."""
    names = {name for worker in cluster.workers for name in worker.devices if name != "cpu"}
    return tuple(sorted(map(Device, names), key=lambda device: (device.type, device.index or 0)))
