"""Elastic sessions: `Session("ray", workers=(least, most))`, `session.add_workers` and `session.remove_worker`.

Here the arguments are checked, and each worker that joins is made one of the session: with its limits of memory, and
refused if it may give other bits. The driver does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from raygrad.errors import SessionError
from raygrad.scheduler.model.plan import Cluster, WorkerSpec
from raygrad.scheduler.planning.planner import Planner
from raygrad.workers.executors.elastic_workers import Scale

from ..options import MOST_WORKERS, is_service, shown, whole
from .memory_limits import Memory, limits_of
from .numerics_check import check_numerics

Workers: TypeAlias = int | tuple[int, int] | None

JOIN_SECONDS: Final = 60.0
"""Seconds for which `add_workers` waits if nothing else is said."""


def checked_workers(workers: Any) -> tuple[int | None, Scale | None]:
    """Return how many workers a session starts with, and if they come and go, how many there are to be.

    Raises:
        TypeError, ValueError: it is neither a number nor a pair of the least and the most.
    """
    where = "Session(workers=...)"
    if workers is None:
        return None, None
    if not isinstance(workers, tuple):
        return whole(where, workers, 1, MOST_WORKERS), None
    bounds: list[Any] = list(cast("Sequence[Any]", workers))
    if len(bounds) != 2:
        raise ValueError(
            f"{where} takes a number, or the least and the most as in workers=(2, 16), got {shown(workers)}"
        )
    least, most = (whole(where, one, 1, MOST_WORKERS) for one in bounds)
    if least > most:
        raise ValueError(
            f"{where} takes the least before the most, as in workers=({most}, {least}), got {shown(workers)}"
        )
    return least, Scale(least, most)


def check_elastic(
    address: str, most: int, *, gpus: int | None, memory: Memory, gpu_memory: Memory, options: Mapping[str, Any]
) -> None:
    """Check that what else a session was given suits workers that come and go.

    Raises:
        ValueError: it does not.
    """
    what = "Session(workers=(least, most))"
    if address == "local":
        raise ValueError(f"{what} is for sessions on Ray; in this process say how many there are: Session(workers=4)")
    if is_service(address):
        raise ValueError(
            f"{what}: the workers of a session on {address} neither come nor go; say how many there are: workers={most}"
        )
    offers: Mapping[str, Any] = options.get("worker_options") or {}
    if gpus or offers.get("num_gpus"):
        raise ValueError(f"{what}: workers that join serve no GPUs; say how many workers there are: workers=4, gpus=4")
    if options.get("placement_group") is not None:
        raise ValueError(f"{what}: a placement group has a bundle for each of so many workers; leave one of them out")
    if _per_worker(memory) or gpu_memory is not None:
        raise ValueError(f"{what} takes one limit for every worker, memory='2GiB per worker', and none of GPUs")


def _per_worker(memory: Memory) -> bool:
    return isinstance(memory, Mapping | list | tuple)


def check_addition(memory: Memory, gpu_memory: Memory) -> None:
    """Check that workers may be added to a session with these limits.

    Raises:
        SessionError: nothing says what theirs are.
    """
    if _per_worker(memory) or gpu_memory is not None:
        raise SessionError(
            "this session was given a limit of memory for each of its workers, or for GPUs, and none for one that "
            "joins: open it with one for all, Session(memory='2GiB per worker')"
        )


def admission(planner: Planner, memory: Memory, deterministic: bool) -> Callable[[WorkerSpec], WorkerSpec]:
    """Return a function that returns a worker which joins with its limit of memory.

    It raises:
        NumericsError: the worker may give other bits than those that are there; if it may, it is a warning.
    """

    def admitted(spec: WorkerSpec) -> WorkerSpec:
        there = [one for one in planner.cluster.workers if not one.lost]
        check_numerics(Cluster((*there, spec)), deterministic)
        return replace(spec, memory=limits_of(memory, [spec.name])[0])

    return admitted


def worker_index(where: str, workers: tuple[WorkerSpec, ...], worker: Any) -> int:
    """Return the index of a worker that is given by index or name.

    Args:
        where: what takes it, for errors.
        workers: those of the session.
        worker: what was given.

    Raises:
        TypeError, ValueError: there is none.
    """
    if isinstance(worker, str):
        names = [one.name for one in workers]
        if worker not in names:
            raise ValueError(
                f"{where} takes the index or the name of a worker, and there is no {shown(worker)}: {names}"
            )
        return names.index(worker)
    return whole(where, worker, 0, len(workers) - 1)
