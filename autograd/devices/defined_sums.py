"""Addition of two gradients that are arrays: out of place, in place, and writes into existing memory.

The engine and leaves' accumulators call it; both operands must be on one device, which is made current. The order of
the terms of a sum is decided in `core/gradient_sum.py`, gradients that may be undefined are added by the recorder.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from .backends.device_memory import describe_shapes, with_memory_retry
from .serving import device_guard, device_of, known_backend_of, move_array, writable

# NumPy's functions ask the arrays who is to add them; what they compute on the host they may warn of
_QUIET: Any = np.errstate


def add_gradients(left: Any, right: Any) -> Any:
    """Return the sum of two gradients.

    Raises:
        RuntimeError: they are of two devices.
    """
    check_same_device(left, right)
    backend = known_backend_of(left)
    with device_guard(left), _QUIET(all="ignore"):
        return with_memory_retry(
            backend,
            backend.index_of(left),
            lambda: f"in a sum of gradients of {describe_shapes([left])}",
            lambda: np.add(left, right),
        )


def add_gradient_in_place(data: Any, grad: Any) -> Any:
    """Return `data` with a gradient added: in place, or anew where it is not to be written to.

    Raises:
        RuntimeError: they are of two devices.
    """
    check_same_device(data, grad)
    with device_guard(data), _QUIET(all="ignore"):
        return np.add(data, grad, out=data) if writable(data) else np.add(data, grad)


def check_same_device(left: Any, right: Any) -> None:
    """Check that two gradients are of one device.

    Raises:
        RuntimeError: they are not.
    """
    here, there = device_of(left), device_of(right)
    if here != there:
        raise AutogradError(
            f"Expected all tensors to be on the same device, but found at least two devices, {here} and {there}! "
            "(two gradients of one tensor)"
        )


def write_into(memory: Any, value: Any) -> None:
    """Write an array into the memory of another, in its dtype; what is on another device is copied there first."""
    if type(memory) is np.ndarray and type(value) is np.ndarray:
        np.copyto(memory, value, casting="unsafe")
        return
    place = device_of(memory)
    value = move_array(value, place)
    with device_guard(memory):
        np.copyto(memory, value, casting="unsafe")
