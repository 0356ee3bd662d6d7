"""Shared memory: the client's arrays whose tensors a session has changed in place, and how the changes come home.

Values are immutable in a graph: a tensor over an array of the program's (`rg.from_numpy`, `x.numpy()`) gets another
value when it is changed in place. The input recorder notes the array then. At each sync point the fetcher has the value
written into the array, and the tensor is again one over it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

import numpy as np

from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import SessionError

Array = np.ndarray[Any, Any]

_NO_ARRAYS = frozenset((Pending, int, float, bool, complex, str, bytes, type(None)))
"""Types of arguments, and of the data of tensors, that no program writes to."""


class _Changed(NamedTuple):
    """An array that has to follow a tensor."""

    tensor: Tensor
    memory: Callable[[], Array | None]
    """Returns the array, None once the program has let go of its memory."""
    checksum: int
    """That of the array when the tensor was changed: nobody else may write to it until the change is home."""


class SharedMemory:
    """The arrays of one session that wait for changes."""

    def __init__(self) -> None:
        self.changed: dict[int, _Changed] = {}
        """By the id of the tensor."""
        self.settle: Callable[[], None] = lambda: None
        """Waits for what changes them, and has it brought home; set by the session."""

    def __bool__(self) -> bool:
        return bool(self.changed)

    def settle_for(self, values: Iterable[Any]) -> bool:
        """Bring all changes home if one of these is, or may hold, an array whose memory waits for one; tell whether
        that was done. Objects other than arrays and tensors are not searched."""
        memories = [array for one in self.changed.values() if (array := one.memory()) is not None]
        for value in values:
            array: Any = value._data if isinstance(value, Tensor) else value
            if type(array) in _NO_ARRAYS:
                continue
            known = isinstance(array, np.ndarray) and not cast("Array", array).dtype.hasobject
            if not known or any([np.may_share_memory(cast("Array", array), memory) for memory in memories]):
                self.settle()
                return not self.changed
        return False

    def note_change(self, tensor: Tensor) -> None:
        """Note that a tensor is about to get another value in the place of memory that the program may see."""
        array = tensor._data
        if type(array) is np.ndarray and array.flags.writeable and id(tensor) not in self.changed:
            self.changed[id(tensor)] = _Changed(tensor, _reference(array), _checksum(array))

    def bring_home(self, read: Callable[[Pending], Array | None]) -> None:
        """Write the values of changed tensors into their arrays, once: later changes are noted anew.

        Args:
            read: waits for a value; None if it was dropped.

        Raises:
            SessionError: an array was written to meanwhile, too.
        """
        written: list[Array] = []
        while self.changed:
            _, (tensor, memory, checksum) = self.changed.popitem()
            data = tensor._data
            if type(data) is not Pending or memory() is None:
                continue
            value, array = read(data), memory()
            if value is None or array is None or value.shape != array.shape or value.dtype != array.dtype:
                continue
            if _checksum(array) != checksum and any([np.may_share_memory(array, other) for other in written]):
                raise SessionError(
                    f"two tensors over memory that overlaps (of arrays of shapes {written[-1].shape} and "
                    f"{array.shape}) were changed in place by one Function: in a session each is changed by itself, "
                    "and what both have is not known; give the Function one tensor, of which the others are views "
                    "(rg.from_numpy(array)[1:]), or apply it outside of the session"
                )
            if _checksum(array) != checksum:
                raise SessionError(
                    f"an array (shape {array.shape}) was written to while a session was changing the tensor that "
                    "shares its memory (rg.from_numpy, tensor.numpy()): what the session changes is in the array once "
                    "a value has been read; read one before writing (tensor.numpy()), or give the tensor memory of "
                    "its own (rg.tensor(array))"
                )
            np.copyto(array, value)
            written.append(array)
            if tensor.grad_fn is None:
                tensor._data = array
                tensor._snapshot = (data.record.recorder, tensor.counter()[0], data)


def _checksum(array: Array) -> int:
    return hash(array.tobytes())


def _reference(array: Array) -> Callable[[], Array | None]:
    """Return what finds an array as long as somebody else has its memory."""
    root: Array = array
    while isinstance(root.base, np.ndarray):
        root = cast("Array", root.base)
    if root.base is not None or not root.flags.forc:  # memory of another library's, or of unknown bounds
        return lambda: array
    if root is array:
        return weakref.ref(array)
    held = weakref.ref(root)
    whole = root if root.flags.c_contiguous else root.T
    offset = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    first, shape, strides, dtype = offset, array.shape, array.strides, array.dtype

    def found() -> Array | None:
        memory = held()
        if memory is None:
            return None
        return np.ndarray(shape, dtype, memory if memory.flags.c_contiguous else memory.T, first, strides)

    return found
