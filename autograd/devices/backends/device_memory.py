"""Out-of-memory handling on devices: retry after freeing the pool, then after eviction, then `OutOfDeviceMemory`.

All code that allocates on a device goes through `with_memory_retry`. Unused blocks of the pool are freed and the work
is tried again. A worker installs an eviction callback (`evicting_with`), which is called as long as it frees something.
Eager code has none: nothing moves to the host unasked.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from raygrad.errors import OutOfDeviceMemory

from ...core.modes import EvictFromDevice, state
from .backend import Backend

T = TypeVar("T")


@contextmanager
def evicting_with(gives: EvictFromDevice) -> Generator[None]:
    """Use `gives` to evict values when this thread runs out of a device's memory in the block."""
    here = state.here
    before, here.evict = here.evict, gives
    try:
        yield
    finally:
        here.evict = before


def with_memory_retry(backend: Backend, index: int, what: Callable[[], str], work: Callable[[], T]) -> T:
    """Return the result of `work`, and repeat it after freeing memory if the device runs out.

    Args:
        backend: the backend of the device.
        index: the number of the device.
        what: describes the work for the error, as "in sin of [3]".
        work: makes arrays on the device and has no other effect.

    Raises:
        OutOfDeviceMemory: the memory does not suffice after freeing the pool and evicting all that can be evicted.
    """
    try:
        return work()
    except backend.exhausted:
        pass
    gc.collect()  # reference cycles: the collector is paused during a run
    backend.empty_cache()
    gives, device = state.here.evict, f"{backend.kind}:{index}"
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
    """Return the shapes of the values that have one, as text."""
    return ", ".join(str(list(value.shape)) for value in values if hasattr(value, "shape")) or "nothing"
