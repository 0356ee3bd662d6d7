"""The arguments of `Session`: checked before anything is opened, so that a wrong one costs nothing but its error."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from raygrad.workers.executors.deadlines import Limits
from raygrad.workers.executors.elastic_workers import Scale

from ..functions.saved_policy import checked_policy
from ..options import MOST_THREADS, checked_address, flag, path_of, seconds, whole
from .backends import asks_for_gpus, check_options
from .elastic import Workers, check_elastic, checked_workers
from .memory_limits import Memory, check_limits
from .saved_state import checked_journal
from .session_defaults import with_defaults


class SessionArguments(NamedTuple):
    """What `Session` was given, or goes by instead. See there what each argument says."""

    address: str
    workers: int | None
    """The workers that it opens with; None for as many as the backend has by default."""
    scale: Scale | None
    """The bounds between which it changes them; None if it does not."""
    gpus: int | None
    memory: Memory
    gpu_memory: Memory
    saved: str
    deterministic: bool
    strict: bool
    sync: bool
    seed: int
    timeout: float | None
    limits: Limits
    recovery_time: float | None
    retries: int
    blas_threads: int
    costs: str | None
    journal: str | None
    options: dict[str, Any]
    """Those of the backend."""

    @property
    def is_local(self) -> bool:
        """Whether its workers are this process."""
        return self.address == "local"


def checked_arguments(
    address: str | None,
    *,
    workers: Workers,
    gpus: int | None,
    memory: Memory,
    gpu_memory: Memory,
    saved: str,
    deterministic: bool,
    strict: bool,
    sync: bool,
    seed: int,
    timeout: float | None,
    node_timeout: float | None,
    segment_timeout: float | None,
    run_timeout: float | None,
    recovery_time: float | None,
    retries: int,
    blas_threads: int,
    costs: str | os.PathLike[str] | None,
    journal: str | os.PathLike[str] | None,
    options: dict[str, Any],
) -> SessionArguments:
    """Return the arguments of `Session`, with what the environment says where none was given.

    Raises:
        TypeError, ValueError, FileNotFoundError: see `Session`.
    """
    address, workers, options = with_defaults(address, workers, options)
    address = checked_address(address)
    count, scale = checked_workers(workers)
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"Session(retries=...) takes a number of times, 0 or more, not {retries!r}")
    checked = SessionArguments(
        address=address,
        workers=count,
        scale=scale,
        gpus=gpus,
        memory=memory,
        gpu_memory=gpu_memory,
        saved=checked_policy(saved, "saved"),
        deterministic=flag("Session(deterministic=...)", deterministic),
        strict=flag("Session(strict=...)", strict),
        sync=flag("Session(sync=...)", sync),
        seed=whole("Session(seed=...)", seed),
        timeout=seconds("Session(timeout=...)", timeout),
        limits=Limits(
            seconds("Session(node_timeout=...)", node_timeout),
            seconds("Session(segment_timeout=...)", segment_timeout),
            seconds("Session(run_timeout=...)", run_timeout),
        ),
        recovery_time=seconds("Session(recovery_time=...)", recovery_time, zero=True),
        retries=retries,
        blas_threads=whole("Session(blas_threads=...)", blas_threads, 1, MOST_THREADS),
        costs=None if costs is None else path_of("Session(costs=...)", costs),
        journal=checked_journal(journal),
        options=options,
    )
    if scale is not None:
        check_elastic(address, scale.most, gpus=gpus, memory=memory, gpu_memory=gpu_memory, options=options)
    check_options(address, workers=count, gpus=gpus, strict=checked.strict, options=options)
    check_limits(memory, gpu_memory, count, gpus=checked.is_local or asks_for_gpus(gpus, options))
    return checked
