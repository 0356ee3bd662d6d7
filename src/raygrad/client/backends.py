"""From an address to an executor; each backend is imported only when it is asked for."""

from __future__ import annotations

import os
from typing import Any

from raygrad.workers.base import Executor

from .options import options_of


def open_executor(
    address: str, *, workers: int | None, strict: bool, blas_threads: int, options: dict[str, Any]
) -> Executor:
    """Return the executor that an address names; all arguments but `options` are checked before.

    Raises:
        ValueError: options that the backend does not take.
        TypeError: options that are not of the type that it takes.
        BackendUnavailable: the backend's extra is not installed.
    """
    if address == "local":
        options_of("local", options)
        offers = options.get("worker_options")
        from raygrad.workers.inprocess import InProcessExecutor

        count = workers or len(os.sched_getaffinity(0))
        return InProcessExecutor(count, strict=strict, blas_threads=blas_threads, worker_options=offers)
    if strict:
        raise ValueError("strict=True is for local sessions; on Ray everything crosses processes anyway")
    options_of("ray", options)
    from raygrad.workers.ray import RayExecutor

    return RayExecutor(address, workers, blas_threads=blas_threads, **options)
