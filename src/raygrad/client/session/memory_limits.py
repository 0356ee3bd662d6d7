"""Memory limits: `Session(memory="2GiB per worker")` and `gpu_memory=...`, parsed to bytes per worker.

`Session` limits its cluster with them before it plans; what cannot be parsed raises an error that says what may be
given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeGuard

import numpy as np

from raygrad.scheduler.model.plan import Cluster

Amount: TypeAlias = int | np.integer[Any] | str | None
Memory: TypeAlias = Amount | Sequence[Amount] | Mapping[int | str, Amount]

MOST_DIGITS: Final = 30
"""Of an amount in a text: more is a slip, and Python refuses to read very many."""

UNITS: Final = {
    "": 1,
    "B": 1,
    **{prefix + "B": 1000**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)},
    **{prefix + "iB": 1024**power for power, prefix in enumerate(("K", "M", "G", "T"), 1)},
}
_SAID: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*(?:per\s+(worker|GPU))?\s*")
PER: Final = {"memory": "worker", "gpu_memory": "GPU"}
"""What an amount is for, by the option."""


def limited_to(cluster: Cluster, memory: Memory, gpu_memory: Memory) -> Cluster:
    """Return the workers of a session with the memory limits that its user gave.

    Raises:
        ValueError: see `limits_of`; or an amount is for a GPU of a worker that serves none.
    """
    names = [worker.name for worker in cluster.workers]
    gpus = limits_of(gpu_memory, names, "gpu_memory")
    serving = [bool(worker.kinds - {"cpu"}) for worker in cluster.workers]
    several = isinstance(gpu_memory, Mapping) or (isinstance(gpu_memory, Sequence) and not isinstance(gpu_memory, str))
    for name, limit, serves in zip(names, gpus, serving, strict=True):
        if limit is not None and not serves and (several or not any(serving)):
            raise ValueError(
                f"gpu_memory={gpu_memory!r} limits what is on GPUs, and {name} serves none: ask for workers that do, "
                "Session(gpus=...), and use memory=... for what is on the host"
            )
    limits = [limit if serves else None for limit, serves in zip(gpus, serving, strict=True)]
    return cluster.limited(limits_of(memory, names), limits)


def check_limits(memory: Memory, gpu_memory: Memory, workers: int | None, *, gpus: bool) -> None:
    """Check limits before there are workers, None for as many as there will be; `gpus` says whether any of them may
    serve a GPU.

    Raises:
        ValueError: no workers could have these limits, see `limited_to`.
    """
    for option, limits in (("memory", memory), ("gpu_memory", gpu_memory)):
        if workers is not None:
            limits_of(limits, [f"worker {number}" for number in range(workers)], option)
        elif isinstance(limits, Mapping):
            for worker, amount in limits.items():
                if not (_is_whole(worker) and worker >= 0) and not _WORKER.fullmatch(str(worker)):
                    raise ValueError(
                        f"{option} names the worker {worker!r}: workers are numbered from 0, and named 'worker 0', ..."
                    )
                _bytes(amount, limits, option)
        elif isinstance(limits, Sequence) and not isinstance(limits, str | bytes | bytearray):
            if not limits:
                raise _wrong(limits, option)
            for amount in limits:
                _bytes(amount, limits, option)
        else:
            _bytes(limits, limits, option)
    if gpu_memory is not None and not gpus:
        raise ValueError(
            f"gpu_memory={_shown(gpu_memory)} limits what is on GPUs, and no worker of this session serves one: ask "
            "for workers that do, Session(gpus=...), and use memory=... for what is on the host"
        )


_WORKER: Final = re.compile(r"worker \d+")


def limits_of(memory: Memory, names: Sequence[str], option: str = "memory") -> list[int | None]:
    """Return the bytes that each worker may use, by index; `names` are theirs, `option` is what it was given as.

    Raises:
        ValueError: it is not a positive amount, an amount per worker, or a mapping of workers to amounts.
    """
    if memory is None or isinstance(memory, str) or _is_whole(memory):
        return [_bytes(memory, memory, option)] * len(names)
    if isinstance(memory, Mapping):
        limits: list[int | None] = [None] * len(names)
        for worker, amount in memory.items():
            index = names.index(worker) if worker in names else worker
            if not _is_whole(index) or not 0 <= index < len(names):
                raise ValueError(
                    f"{option} names the worker {worker!r}; there are 0 to {len(names) - 1}: {list(names)}"
                )
            limits[int(index)] = _bytes(amount, memory, option)
        return limits
    if isinstance(memory, Sequence) and not isinstance(memory, bytes | bytearray):
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
        if found is None or found[2] not in UNITS or len(found[1]) > MOST_DIGITS:
            raise _wrong(memory, option)
        if found[3] not in (None, PER[option]):
            other = next(name for name in PER if name != option)
            raise ValueError(
                f"{option}={memory!r}: {option} is given per {PER[option]}; what values take on each {found[3]} is "
                f"limited by {other}={amount!r}"
            )
        amount = int(float(found[1]) * UNITS[found[2]]) if "." in found[1] else int(found[1]) * UNITS[found[2]]
    if not _is_whole(amount) or amount < 1:
        raise _wrong(memory, option)
    return int(amount)


def _is_whole(value: Any) -> TypeGuard[int]:
    """Tell whether a value is a whole number: an int, or one of NumPy's."""
    return isinstance(value, int | _INTEGER) and not isinstance(value, bool)


_INTEGER: Any = np.integer


def _wrong(memory: Any, option: str) -> ValueError:
    return ValueError(
        f"{option} must be a positive number of bytes, a text like '2GiB per {PER[option]}' "
        f"({', '.join(list(UNITS)[1:])}), a list with one of these or None per worker, or a "
        f"dict from workers to them, not {_shown(memory)}"
    )


def _shown(memory: Any) -> str:
    text = repr(memory)
    return text if len(text) <= 200 else text[:200] + "..."
