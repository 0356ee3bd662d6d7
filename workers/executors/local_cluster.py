"""The workers of the in-process executor as a cluster: what this machine offers, and which GPUs each worker serves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from raygrad.autograd.devices.serving import backend_if_installed
from raygrad.errors import DeviceError
from raygrad.scheduler.model.plan import Cluster

from ..process.gpu_assignment import resource_requests
from .base import offered_resources


def local_cluster(workers: int, gpus: int | None, worker_options: Mapping[str, Any] | None) -> Cluster:
    """Return `workers` workers in this process; see `InProcessExecutor`.

    Raises:
        DeviceError: there are not so many GPUs here.
        ValueError: an unknown option.
    """
    devices = _devices(workers, gpus)
    options = {**_machine(), **(worker_options or {})}
    unknown = options.keys() - {"num_cpus", "num_gpus", "memory", "resources"}
    if unknown:
        raise ValueError(f"worker_options of a local session say what workers offer; unknown: {sorted(unknown)}")
    requests = resource_requests(workers, gpus, options)
    specs = [
        replace(worker, devices=("cpu", *own), resources=offered_resources({"num_gpus": float(len(own)), **one}))
        for worker, own, one in zip(Cluster.of(workers).workers, devices, requests, strict=True)
    ]
    return Cluster(tuple(specs))


def _machine() -> dict[str, float]:
    """Return the resources of this machine, as options of a worker."""
    known = {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= set(os.sysconf_names)
    memory = {"memory": float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")} if known else {}
    return {"num_cpus": float(len(os.sched_getaffinity(0))), **memory}


def _devices(workers: int, gpus: int | None) -> list[tuple[str, ...]]:
    """Return the GPUs that each worker serves."""
    backend = None if gpus == 0 else backend_if_installed()
    names = [] if backend is None else [f"{backend.kind}:{index}" for index in range(backend.count())]
    if gpus is None:
        return [tuple(names)] * workers
    if gpus > len(names):
        raise DeviceError(
            f"gpus={gpus}: there {'is' if len(names) == 1 else 'are'} {len(names)} in this process; install "
            "raygrad[cuda12] or raygrad[cuda13] where there are GPUs, or call "
            "raygrad.autograd.devices.use_stand_in() before the session to simulate them"
        )
    return [(name,) for name in names[:gpus]] + [()] * (workers - gpus)
