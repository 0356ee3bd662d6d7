"""Worker-local values: one lazily made value per worker, such as a mesh, a factorisation or a device handle (H24).

User code holds the public handle `WorkerLocal`. On a worker the value is in the thread's modes; elsewhere it is in the
handle.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from .modes import state

T = TypeVar("T")

_ABSENT: Any = object()
_MAKING: Any = object()


class WorkerLocal(Generic[T]):
    """A value that every worker makes for itself; see `worker_local`."""

    __slots__ = ("_factory", "_key", "_lock", "_outside")

    def __init__(self, factory: Callable[[], T], key: str) -> None:
        self._factory = factory
        self._key = key
        self._lock = threading.RLock()
        self._outside: dict[str, Any] = {}

    def __call__(self) -> T:
        """Return this worker's value; the first call makes it.

        Raises:
            RuntimeError: the factory asks for the value that it is making.
        """
        kept = state.here.local
        if kept is not None:  # a worker runs one thing at a time
            return self._of(kept)
        with self._lock:
            return self._of(self._outside)

    def _of(self, kept: dict[str, Any]) -> T:
        value = kept.get(self._key, _ABSENT)
        if value is _MAKING:
            raise RuntimeError(f"{self!r}: its factory asks for the value that it is making")
        if value is _ABSENT:
            kept[self._key] = _MAKING
            try:
                value = self._factory()
            except BaseException:
                del kept[self._key]  # the next call tries again
                raise
            kept[self._key] = value
        return cast(T, value)

    def __reduce__(self) -> Any:
        return WorkerLocal, (self._factory, self._key)  # what was made stays where it is

    def __repr__(self) -> str:
        return f"worker_local({getattr(self._factory, '__qualname__', self._factory)})"


def worker_local(factory: Callable[[], T]) -> WorkerLocal[T]:
    """Return a handle on a value that each worker makes with `factory` when it is first asked for it, and keeps until
    its session closes: `handle()` gives it.

    For what Functions and hooks need beside their arguments, and what is dear to make or cannot travel: a mesh, a
    factorisation, a compiled solver, a CUDA context. Only the handle and the factory are sent, by value like other user
    code. A worker that is started anew makes its own again; so the value must depend on nothing but the factory, and
    whoever changes it must not let results depend on the changes. Outside of a session the process has one value.

    Raises:
        TypeError: `factory` cannot be called.
    """
    if not callable(factory):
        raise TypeError(
            f"worker_local expects a function without arguments that makes the value, got {type(factory).__name__}; "
            "write worker_local(lambda: value)"
        )
    return WorkerLocal(factory, uuid.uuid4().hex)
