"""Notes of faults in the key-value store of Ray's control service: what a worker writes there survives it."""

from __future__ import annotations

import importlib
import os
import time
import uuid
from typing import Any, Final

from raygrad.errors import ExecutionError

from .connection import ray_module

NAMESPACE: Final = b"raygrad_faults"


def _store() -> Any:
    return importlib.import_module("ray.experimental.internal_kv")


class RayNotes:
    """Notes that any process of the connected Ray adds to and reads. It may be pickled."""

    def __init__(self) -> None:
        self._prefix = uuid.uuid4().hex

    def add(self, text: str) -> None:
        """See `FaultNotes`. The clocks of machines order the notes."""
        key = f"{self._prefix}/{time.time_ns():020d}/{os.getpid()}/{text}"
        _store()._internal_kv_put(key.encode(), b"", namespace=NAMESPACE)

    def read(self) -> list[tuple[float, str]]:
        """See `FaultNotes`."""
        if not ray_module().is_initialized():
            raise ExecutionError("what has happened on the workers cannot be read any more: their Ray was left")
        keys = sorted(_store()._internal_kv_list(self._prefix.encode(), namespace=NAMESPACE))
        parts = [key.decode().split("/", 3) for key in keys]
        return [(int(nanoseconds) / 1e9, text) for _, nanoseconds, _, text in parts]

    def clear(self) -> None:
        """See `FaultNotes`."""
        if ray_module().is_initialized():
            _store()._internal_kv_del(self._prefix.encode(), del_by_prefix=True, namespace=NAMESPACE)
