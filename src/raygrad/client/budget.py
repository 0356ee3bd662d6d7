"""How much memory each worker may use, as users say it: `Session(memory="2GiB per worker")`.

Rules of this file: from what was given to a number of bytes per worker, or an error that says what may be given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from raygrad.scheduler.plan import Cluster

Amount: TypeAlias = int | str | None
Memory: TypeAlias = Amount | Sequence[Amount] | Mapping[int | str, Amount]

UNITS: Final = {
    "": 1,
    "B": 1,
    **{prefix + "B": 1000**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)},
    **{prefix + "iB": 1024**power for power, prefix in enumerate(("K", "M", "G", "T"), 1)},
}
_SAID: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*(?:per\s+(?:worker|GPU))?\s*")


def limited_to(cluster: Cluster, memory: Memory, gpu_memory: Memory) -> Cluster:
    """Return the workers of a session with the memory that it was told of.

    Raises:
        ValueError: see `limits_of`; or an amount is for a GPU of a worker that serves none.
    """
    names = [worker.name for worker in cluster.workers]
    gpus = limits_of(gpu_memory, names, "gpu_memory")
    serving = [bool(worker.kinds - {"cpu"}) for worker in cluster.workers]
    several = not (isinstance(gpu_memory, str) or type(gpu_memory) is int)
    for name, limit, serves in zip(names, gpus, serving, strict=True):
        if limit is not None and not serves and (several or not any(serving)):
            raise ValueError(
                f"gpu_memory={gpu_memory!r} limits what is on GPUs, and {name} serves none: ask for workers that do, "
                "Session(gpus=...), and use memory=... for what is on the host"
            )
    limits = [limit if serves else None for limit, serves in zip(gpus, serving, strict=True)]
    return cluster.limited(limits_of(memory, names), limits)


def limits_of(memory: Memory, names: Sequence[str], option: str = "memory") -> list[int | None]:
    """Return the bytes that each worker may use, by index; `names` are theirs, `option` is what it was given as.

    Raises:
        ValueError: it is not a positive amount, an amount per worker, or a mapping of workers to amounts.
    """
    if memory is None or isinstance(memory, str) or type(memory) is int:
        return [_bytes(memory, memory, option)] * len(names)
    if isinstance(memory, Mapping):
        limits: list[int | None] = [None] * len(names)
        for worker, amount in memory.items():
            index = names.index(worker) if worker in names else worker
            if type(index) is not int or not 0 <= index < len(names):
                raise ValueError(
                    f"{option} names the worker {worker!r}; there are 0 to {len(names) - 1}: {list(names)}"
                )
            limits[index] = _bytes(amount, memory, option)
        return limits
    if isinstance(memory, Sequence):
        some = list(memory)
        if len(some) != len(names):
            raise ValueError(f"{option} must be one amount, or {len(names)} of them, one per worker, not {memory!r}")
        return [_bytes(amount, memory, option) for amount in some]
    raise _wrong(memory, option)


def _bytes(amount: Any, memory: Any, option: str) -> int | None:
    if amount is None:
        return None
    if isinstance(amount, str):
        found = _SAID.fullmatch(amount)
        if found is None or found[2] not in UNITS:
            raise _wrong(memory, option)
        amount = int(float(found[1]) * UNITS[found[2]]) if "." in found[1] else int(found[1]) * UNITS[found[2]]
    if type(amount) is not int or amount < 1:
        raise _wrong(memory, option)
    return amount


def _wrong(memory: Any, option: str) -> ValueError:
    return ValueError(
        f"{option} must be a positive number of bytes, a text like '2GiB per worker' ({', '.join(list(UNITS)[1:])}), a "
        f"list with one of these or None per worker, or a dict from workers to them, not {memory!r}"
    )
