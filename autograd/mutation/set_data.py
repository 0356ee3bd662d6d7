"""Assignment to `tensor.data`: exchange of a tensor's memory (CX-14).

The tensor keeps its history and version counter and takes the other's memory. Views of the old memory, and nodes that
saved the tensor, see the outcome that is decided here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ..core import dtypes
from ..core.batched_data import Batched
from ..core.catalogue import ops
from ..core.modes import state
from ..core.recorder import Pending
from ..devices.serving import is_device_array
from ..dispatch.operand_conversion import remember_converted
from ..nodes.node import NO_EDGE
from ..storage.version_counter import note_exchanged
from ..storage.view import leave_storage, record_alias
from ..tensor.tensor import Tensor


def exchange_data(tensor: Tensor, value: Tensor) -> None:
    """Let a tensor have the memory of another.

    Raises:
        RuntimeError: the tensor requires grad, and the other's dtype cannot.
    """
    if tensor._requires_grad and not dtypes.is_differentiable(value.dtype):
        raise AutogradError("data set to a tensor that requires gradients must be floating point or complex dtype")
    edge = (tensor.edge() if tensor._requires_grad else NO_EDGE) if tensor._counter is not None else None
    if value.dtype != tensor.dtype or value.device != tensor.device:
        tensor._accumulator = None  # which knows the old dtype, and the device
    if value._shares_memory:
        tensor._shares_memory = True
    before = held_by(tensor)
    recorder = state.here.recorder
    if recorder is None and type(tensor._data) is Pending:
        recorder = tensor._data.record.recorder
    if recorder is not None:
        leave_storage(tensor)
        recorder.write(tensor, "_data", value._data)
        if value._shares_memory and type(value._data) is np.ndarray:
            tensor._data, tensor._snapshot = value._data, None  # the program's memory, which it shares from now on
        record_alias(tensor, value)
    else:
        data = value._data
        leave_storage(tensor)
        tensor._data = data.view() if type(data) is np.ndarray or is_device_array(data) else data
        tensor._snapshot = None
        if type(data) is not Batched:
            record_alias(tensor, value)
    if tensor._counter is not None:
        holder = Tensor.made(tensor._data)
        if recorder is not None:
            holder._counter = tensor._counter
            record_alias(holder, value)
        for old in before:  # aliases in a session hold one value; eagerly each has an array of its own
            note_exchanged(tensor._counter, old, holder, edge=None if recorder is None else edge)
    exchange_converted(tensor)


def held_by(tensor: Tensor) -> list[Any]:
    """Return what nodes that have saved a tensor, as it is now, may hold of it."""
    data = tensor._data
    return [data] if tensor._snapshot is None else [data, tensor._snapshot[2]]


def exchange_converted(tensor: Tensor, *, written: bool = False) -> None:
    """Note what a tensor that holds something else now is in the dtypes in which nodes may have saved it; `written` as
    of `note_exchanged`."""
    for reference in tensor._converted or ():
        converted = reference()
        if converted is not None:
            _exchange_converted(tensor, converted, written)


def _exchange_converted(tensor: Tensor, old: Any, written: bool) -> None:
    if tensor.dtype != old.dtype:
        new = ops.to_dtype(tensor.detach(), old.dtype)
        note_exchanged(tensor.counter(), old, new, written=written)
        remember_converted(tensor, new._data)
