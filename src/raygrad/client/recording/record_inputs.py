"""What records read: tensors of the client, values recorded before, and constants.

Rules of this file: the methods of `SessionRecorder` that make a leaf of a tensor, or name what a record reads; which
memory may be read as it is, and what is of another session. When a copy serves again is `copies`' affair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from raygrad.autograd.core.array_layout import is_array
from raygrad.autograd.core.batched_data import Batched, single_value_error
from raygrad.autograd.core.recorder import Data, Pending
from raygrad.autograd.devices.serving import device_of, is_device_array, to_host
from raygrad.autograd.dispatch.device_dispatch import copied
from raygrad.autograd.registry.registry import get_op
from raygrad.autograd.storage.views import StaleData
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import SessionError
from raygrad.proto.ir.array_layout import layout_of

from .records import Constant, LeafRecord, NodeRecord, spec_of_array
from .snapshot_cache import is_owned_elsewhere, is_still, value_of_leaf

if TYPE_CHECKING:
    from ..session.recorder import SessionRecorder


def leaf_of(self: SessionRecorder, tensor: Tensor) -> Pending:
    if self.trace is not None:
        self.trace.saw(tensor)
    data = tensor._data
    if type(data) is StaleData:
        data = data.for_use(False)
    if type(data) is Pending:
        if data.record.recorder is not self:
            refuse_mixing(self, data)
        return data
    if type(data) is Batched:
        raise single_value_error("a session")
    counter = tensor.counter()
    cached = tensor._snapshot
    if cached is not None and cached[0] is self and cached[1] == counter[0]:
        if not tensor._shares_memory or (is_array(data) and is_still(value_of_leaf(cached[2]), data)):
            return cached[2]
    if is_device_array(data):
        pending = leaf_on_device(self, data)
    elif is_owned_elsewhere(data):
        pending = self.constant_array(data)
    elif tensor._shares_memory and self.trace is None:
        pending = LeafRecord(self, self._copies.of(data)).output()
    else:
        pending = self.constant_array(data.copy(order="K"))
    tensor._snapshot = (self, counter[0], pending)
    return pending


def leaf_on_device(self: SessionRecorder, data: Any) -> Pending:
    """Return the pending value that stands for an array of a device: in this process a copy of it there, elsewhere
    one that a node makes of a copy that the client sends (which is listed with it: `Constant.moved`)."""
    device = str(self.place(device_of(data)))
    if self.by_reference:
        spec = spec_of_array(data.shape, data.dtype.name, layout_of(data), device)
        return LeafRecord(self, Constant(copied(data), self.entry(spec))).output()
    sent = self.constant_array(to_host(data))
    cast("LeafRecord", sent.record).constant.moved = device
    return self.op(get_op("to_device"), (sent,), (device, "cpu"))[0]


def constant_array_of(self: SessionRecorder, array: np.ndarray[Any, Any]) -> Pending:
    """Return the pending value that stands for an array which nobody will write to any more."""
    return LeafRecord(self, constant_of(self, array)).output()


def constant_of(self: SessionRecorder, array: np.ndarray[Any, Any]) -> Constant:
    if array.flags.writeable:
        array.flags.writeable = False
    key = (array.shape, array.dtype, array.strides)
    entry = self._of_arrays.get(key)
    if entry is None:
        entry = self._of_arrays[key] = self.entry(spec_of_array(array.shape, array.dtype.name, layout_of(array)))
    return Constant(array, entry)


def source_of(self: SessionRecorder, data: Data | None) -> Any:
    """Return how a record names a value that it reads: a constant, or (record, output, holder).

    A value that was submitted before would be dropped when its last holder lets go, so the source holds it; one
    that is not yet submitted is part of the same submission, and must die when nobody else wants it.
    """
    if data is None:
        return None
    if type(data) is Pending:
        record: Any = data.record
        if record.recorder is not self:
            return self.source(_from_before(self, data))
        if type(record) is NodeRecord:
            return record, data.index, data if record.run >= 0 else None
        return record.constant
    if is_array(data):
        if data.flags.writeable and self.trace is None:
            return self._copies.of(data)
        return constant_of(self, data.copy(order="K") if data.flags.writeable else data)
    if type(data) is Batched:
        raise single_value_error("a session")
    if is_device_array(data):
        return self.source(leaf_on_device(self, data))
    return Constant(data)


def _from_before(self: SessionRecorder, value: Pending) -> Data | None:
    """Return what a value of another session is, which was read before that was closed."""
    other = value.record.recorder
    if other.closed:
        try:
            return other.read(value)
        except SessionError:  # it says how to read it there, which is too late now
            pass
    refuse_mixing(self, value)


def refuse_mixing(self: SessionRecorder, value: Pending) -> NoReturn:
    what = "a session that is closed" if value.record.recorder.closed else "another session"
    raise SessionError(
        f"a tensor of {what} (shape {value.shape}) is used in this one; read it there first: "
        "raygrad.tensor(value.detach().numpy())"
    )
