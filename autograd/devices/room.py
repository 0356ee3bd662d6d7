"""Running out of a device's memory.

Rules of this file: what is done when a device has no room left, once for all who make arrays there: what no array holds
is given back, the work is tried once more, and then the error says what would help. Nothing moves to the host unasked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from raygrad.errors import OutOfDeviceMemory

from .backend import Backend

T = TypeVar("T")


def with_room(backend: Backend, index: int, what: Callable[[], str], work: Callable[[], T]) -> T:
    """Return what `work` gives, which makes arrays on a device and nothing else, so that it can be begun again.

    Args:
        backend: whose device it is.
        index: the number of the device.
        what: says what was being made, as "in sin of [3]".

    Raises:
        OutOfDeviceMemory: there is no room, also after what no array holds was given back.
    """
    try:
        return work()
    except backend.exhausted:
        backend.empty_cache()
    try:
        return work()
    except backend.exhausted as error:
        raise OutOfDeviceMemory(
            f"{backend.kind}:{index} is out of memory {what()}: {error}; free tensors, work in smaller parts, or keep "
            "what backward needs on the host (raygrad.autograd.graph.save_on_cpu) or not at all (raygrad.checkpoint)"
        ) from error


def shapes_of(values: Any) -> str:
    """Return the shapes of those values that have one."""
    return ", ".join(str(list(value.shape)) for value in values if hasattr(value, "shape")) or "nothing"
