"""How much memory each worker may use, as users say it: `Session(memory="2GiB per worker")`.

Rules of this file: from what was given to a number of bytes per worker, or an error that says what may be given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

Amount: TypeAlias = int | str | None
Memory: TypeAlias = Amount | Sequence[Amount] | Mapping[int | str, Amount]

UNITS: Final = {
    "": 1,
    "B": 1,
    **{prefix + "B": 1000**power for power, prefix in enumerate(("k", "M", "G", "T"), 1)},
    **{prefix + "iB": 1024**power for power, prefix in enumerate(("K", "M", "G", "T"), 1)},
}
_SAID: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*(?:per\s+worker)?\s*")


def limits_of(memory: Memory, names: Sequence[str]) -> list[int | None]:
    """Return the bytes that each worker may use, by index; `names` are theirs.

    Raises:
        ValueError: it is not a positive amount, an amount per worker, or a mapping of workers to amounts.
    """
    if memory is None or isinstance(memory, str) or type(memory) is int:
        return [_bytes(memory, memory)] * len(names)
    if isinstance(memory, Mapping):
        limits: list[int | None] = [None] * len(names)
        for worker, amount in memory.items():
            index = names.index(worker) if worker in names else worker
            if type(index) is not int or not 0 <= index < len(names):
                raise ValueError(f"memory names the worker {worker!r}; there are 0 to {len(names) - 1}: {list(names)}")
            limits[index] = _bytes(amount, memory)
        return limits
    if isinstance(memory, Sequence):
        some = list(memory)
        if len(some) != len(names):
            raise ValueError(f"memory must be one amount, or {len(names)} of them, one per worker, not {memory!r}")
        return [_bytes(amount, memory) for amount in some]
    raise _wrong(memory)


def _bytes(amount: Any, memory: Any) -> int | None:
    if amount is None:
        return None
    if isinstance(amount, str):
        found = _SAID.fullmatch(amount)
        if found is None or found[2] not in UNITS:
            raise _wrong(memory)
        amount = int(float(found[1]) * UNITS[found[2]]) if "." in found[1] else int(found[1]) * UNITS[found[2]]
    if type(amount) is not int or amount < 1:
        raise _wrong(memory)
    return amount


def _wrong(memory: Any) -> ValueError:
    return ValueError(
        f"memory must be a positive number of bytes, a text like '2GiB per worker' ({', '.join(list(UNITS)[1:])}), a "
        f"list with one of these or None per worker, or a dict from workers to them, not {memory!r}"
    )
