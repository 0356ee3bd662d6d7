"""Running out of a device's memory.

Rules of this file: what is done when a device has no room left, once for all who make arrays there: what no array holds
is given back and the work is tried once more; then who runs a graph here, and knows what is not needed now, has that
give way (`evicting_with`), as long as it has something; then the error says what would help. Eagerly nobody knows that,
and nothing moves to the host unasked.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from raygrad.errors import OutOfDeviceMemory

from .backend import Backend

T = TypeVar("T")


class EvictFromDevice(Protocol):
    """Has some of what is on a device, and is not needed now, leave it; returns whether there was anything.

    `what` says what was being made.
    """

    def __call__(self, device: str, what: str, /) -> bool: ...


class _Here(threading.local):
    gives: EvictFromDevice | None = None


_here = _Here()


@contextmanager
def evicting_with(gives: EvictFromDevice) -> Generator[None]:
    """Have this make room on devices for what this thread does within the block."""
    before, _here.gives = _here.gives, gives
    try:
        yield
    finally:
        _here.gives = before


def with_memory_retry(backend: Backend, index: int, what: Callable[[], str], work: Callable[[], T]) -> T:
    """Return what `work` gives, which makes arrays on a device and nothing else, so that it can be begun again.

    Args:
        backend: whose device it is.
        index: the number of the device.
        what: says what was being made, as "in sin of [3]".

    Raises:
        OutOfDeviceMemory: there is no room, also after what no array holds was given back and all gave way that can.
    """
    try:
        return work()
    except backend.exhausted:
        pass
    gc.collect()  # what only holds itself, while collecting waits for the end of a run
    backend.empty_cache()
    gives, device = _here.gives, f"{backend.kind}:{index}"
    while True:
        try:
            return work()
        except backend.exhausted as error:
            last = error.with_traceback(None)  # whose frames hold what was made so far
        if gives is None or not gives(device, what()):
            break
        backend.empty_cache()
    raise OutOfDeviceMemory(
        f"{device} is out of memory {what()}: {last}; free tensors, work in smaller parts, or keep what backward needs "
        "on the host (raygrad.autograd.graph.save_on_cpu) or not at all (raygrad.checkpoint)"
    ) from last


def describe_shapes(values: Any) -> str:
    """Return the shapes of those values that have one."""
    return ", ".join(str(list(value.shape)) for value in values if hasattr(value, "shape")) or "nothing"
