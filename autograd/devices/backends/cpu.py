"""Backend of the host: NumPy arrays.

It answers for "cpu" where code is generic over devices; eager ops on the host do not go through it.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np

from raygrad.errors import DeviceError

from .backend import Backend, Memory
from .device import Device

CPU = Device("cpu")


class Cpu(Backend):
    """The host. Its memory is the machine's; how much arrays hold of it NumPy does not count."""

    kind: ClassVar[str] = "cpu"
    array = np.ndarray
    xp: Any = np
    exhausted = MemoryError

    def count(self) -> int:
        return 1

    def numerics(self) -> str:
        return f"NumPy {np.__version__}"

    def current(self) -> int:
        return 0

    def on(self, index: int) -> AbstractContextManager[None]:
        return nullcontext()

    def index_of(self, array: Any) -> int:
        return 0

    def device_of(self, array: Any) -> Device:
        return CPU

    def from_host(self, array: Any, index: int) -> Any:
        return array.copy(order="K")

    def to_host(self, array: Any) -> Any:
        return array.copy(order="K")

    def copy_to(self, array: Any, index: int) -> Any:
        return array.copy(order="K")

    def memory(self, index: int) -> Memory:
        raise DeviceError("NumPy does not count the memory of arrays on the host; use tracemalloc")

    def reset_peak(self, index: int) -> None:
        raise DeviceError("NumPy does not count the memory of arrays on the host; use tracemalloc")

    def limit(self, index: int, size: int | None) -> None:
        raise DeviceError(
            f"the memory of process {os.getpid()} is the operating system's to limit: use resource.setrlimit"
        )

    def synchronize(self, index: int) -> None:
        """Do nothing: NumPy computes before it returns."""

    def empty_cache(self) -> None:
        """Do nothing: NumPy has no cache."""

    def start_of(self, array: Any) -> int:
        return array.__array_interface__["data"][0]

    def writable(self, array: Any) -> bool:
        return array.flags.writeable
