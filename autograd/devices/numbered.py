"""Device renumbering: a backend whose devices have the numbers of a session instead of this process.

Each process counts the devices that it sees from 0, as CuPy does; a session counts those of all its workers. Workers
wrap their backend in it. Numbers are translated, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from .backends.backend import Backend, Memory
from .backends.device import Device


class RenumberedBackend(Backend):
    """The devices of a backend, each under a number of its own.

    Args:
        inner: the backend.
        numbers: those of its devices, in its own order.
    """

    kind: ClassVar[str] = "cuda"

    def __init__(self, inner: Backend, numbers: Sequence[int]) -> None:
        self.array = inner.array
        self.xp = inner.xp
        self.exhausted = inner.exhausted
        self.inner = inner
        self._numbers = tuple(numbers)
        self._own = {number: own for own, number in enumerate(self._numbers)}
        self._devices = [Device(self.kind, number) for number in self._numbers]

    def count(self) -> int:
        return len(self._numbers)

    def numbers(self) -> Sequence[int]:
        return self._numbers

    def ordinal(self, index: int) -> int:
        return self._own[index]

    def numerics(self) -> str:
        return self.inner.numerics()

    def current(self) -> int:
        return self._numbers[self.inner.current()]

    def on(self, index: int) -> AbstractContextManager[Any]:
        return self.inner.on(self._own[index])

    def index_of(self, array: Any) -> int:
        return self._numbers[self.inner.index_of(array)]

    def device_of(self, array: Any) -> Device:
        return self._devices[self.inner.index_of(array)]

    def from_host(self, array: Any, index: int) -> Any:
        return self.inner.from_host(array, self._own[index])

    def to_host(self, array: Any) -> Any:
        return self.inner.to_host(array)

    def copy_to(self, array: Any, index: int) -> Any:
        return self.inner.copy_to(array, self._own[index])

    def memory(self, index: int) -> Memory:
        return self.inner.memory(self._own[index])

    def reset_peak(self, index: int) -> None:
        self.inner.reset_peak(self._own[index])

    def limit(self, index: int, size: int | None) -> None:
        self.inner.limit(self._own[index], size)

    def synchronize(self, index: int) -> None:
        self.inner.synchronize(self._own[index])

    def empty_cache(self) -> None:
        self.inner.empty_cache()

    def start_of(self, array: Any) -> int:
        return self.inner.start_of(array)

    def writable(self, array: Any) -> bool:
        return self.inner.writable(array)
