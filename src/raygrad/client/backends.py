"""From an address to an executor; each backend is imported only when it is asked for."""

from __future__ import annotations

import os
from typing import Any

from raygrad.workers.base import Executor


def open_executor(
    address: str, *, workers: int | None, strict: bool, blas_threads: int, options: dict[str, Any]
) -> Executor:
    """Return the executor that an address names.

    Raises:
        ValueError: an unknown address, or options that the backend does not take.
        BackendUnavailable: the backend's extra is not installed.
    """
    asked: Any = workers  # what a user passes may be of any type
    if asked is not None and (not isinstance(asked, int) or asked < 1):
        raise ValueError(f"workers must be a number of at least 1, got {workers!r}")
    if address == "local":
        offers = options.pop("worker_options", None)
        if options:
            raise ValueError(f"unknown options for a local session: {', '.join(sorted(options))}")
        from raygrad.workers.inprocess import InProcessExecutor

        count = workers or len(os.sched_getaffinity(0))
        return InProcessExecutor(count, strict=strict, blas_threads=blas_threads, worker_options=offers)
    if address == "ray" or address.startswith("ray:"):
        if strict:
            raise ValueError("strict=True is for local sessions; on Ray everything crosses processes anyway")
        from raygrad.workers.ray import RayExecutor

        return RayExecutor(address, workers, blas_threads=blas_threads, **options)
    raise ValueError(f"unknown address '{address}'; expected 'local', 'ray' or 'ray:HOST:PORT'")
