"""Input recorder: snapshots of the client's tensors, and the sources by which records name what they read.

Every recorder goes through it. It decides which memory may be read as it is and which is copied, and refuses values of
other sessions; when an earlier copy serves again is decided in `snapshot_cache`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, cast

import numpy as np

from raygrad.autograd.core.array_layout import is_array, is_dense_or_expanded
from raygrad.autograd.core.batched_data import Batched, single_value_error
from raygrad.autograd.core.recorder import Data, Pending
from raygrad.autograd.devices.serving import device_of, is_device_array, to_host
from raygrad.autograd.dispatch.device_dispatch import copied
from raygrad.autograd.mutation.inplace import refresh_views
from raygrad.autograd.nodes.closed_session import settle
from raygrad.autograd.registry.registry import get_op
from raygrad.autograd.storage.storage import has_views, owner_of
from raygrad.autograd.storage.view import LostData
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import SessionError
from raygrad.proto.ir.array_layout import copy_as_laid, layout_of
from raygrad.workers.code.array_form import base_of
from raygrad.workers.code.guard import is_fixed

from .record_log import RecordLog
from .records import Constant, LeafRecord, NodeRecord, spec_of_array
from .snapshot_cache import SnapshotCache, is_still, value_of_leaf
from .watched_leaves import WatchedLeaves


class InputRecorder:
    """Turns tensors and data into the sources of records, for one session."""

    def __init__(self, log: RecordLog, *, by_reference: bool) -> None:
        self.log = log
        self.by_reference = by_reference
        """User code and arrays of devices may be used as they are, in this process (H23)."""
        self.snapshots = SnapshotCache(self.constant_of)
        self.watched = WatchedLeaves(log)

    def leaf(self, tensor: Tensor) -> Pending:
        """Return the pending value that stands for a tensor's array as it is now."""
        log = self.log
        if log.trace is not None:
            log.trace.saw(tensor)
        data = tensor._data
        if type(data) is LostData:
            data.refuse()
        recorder = log.recorder
        if type(data) is Pending and data.record.recorder is not recorder:
            data = settle(tensor)._data
            if type(data) is Pending:
                refuse_mixing(data)
        if type(data) is Pending:
            return self._followed(tensor, data) if tensor._shares_memory else data
        if type(data) is Batched:
            raise single_value_error("a session")
        if tensor._shares_memory and log.shared.changed and is_array(data):
            log.shared.settle_for((data,))
        data = cast("Any", data)
        counter = tensor._counter or tensor.counter()
        cached = tensor._snapshot
        if cached is not None and cached[0] is recorder and cached[1] == counter[0]:
            if not tensor._shares_memory or (is_array(data) and is_still(value_of_leaf(cached[2]), data)):
                return cached[2]
        if is_device_array(data):
            pending = self.leaf_on_device(data)
        elif is_fixed(data):
            pending = self.constant_array(data)
        elif tensor._shares_memory and log.trace is None:
            pending = LeafRecord(recorder, self.snapshots.of(data)).output()
            self.watched.watch(pending, data, tensor)
        else:
            pending = self.constant_array(copy_as_laid(data))
        tensor._snapshot = (recorder, counter[0], pending)
        if cached is not None and cached[0] is recorder and cached[1] == counter[0] and has_views(tensor):
            before = value_of_leaf(cached[2])
            if is_array(data) and is_array(before) and before.tobytes() != data.tobytes():
                refresh_views(tensor, recorder)  # NumPy has written to the memory that they show
        return pending

    def saved_by_function(self, tensor: Tensor, pending: Pending) -> Pending:
        """Return what a Function saves of a tensor with this pending value: of an array with gaps, which eagerly it is
        given a copy of, a value that does not follow the memory."""
        data = tensor._data
        if type(data) is not np.ndarray or type(pending.record) is not LeafRecord or is_dense_or_expanded(data):
            return pending
        return LeafRecord(self.log.recorder, pending.record.constant).output()

    def renew_snapshots(self) -> None:
        """Let what was saved of memory that NumPy has written to since be what stands there now: a pass begins."""
        if self.log.trace is None:
            for tensor in self.watched.renew(self.snapshots.of):
                if has_views(tensor):
                    refresh_views(tensor, self.log.recorder)

    def _followed(self, view: Tensor, data: Pending) -> Pending:
        """Return the pending value of a view of memory that NumPy may have written to since."""
        owner = owner_of(view)
        if owner is view or self.log.trace is not None or type(owner._data) is not np.ndarray:
            return data
        self.leaf(owner)
        return view._data

    def leaf_on_device(self, data: Any) -> Pending:
        """Return the pending value that stands for an array of a device: in this process a copy of it there, elsewhere
        the output of a transfer node that reads a copy sent by the client (listed with it: `Constant.moved`)."""
        recorder = self.log.recorder
        device = str(recorder.place(device_of(data)))
        if self.by_reference:
            spec = spec_of_array(data.shape, data.dtype.name, layout_of(data), device)
            return LeafRecord(recorder, Constant(copied(data), self.log.specs.entry(spec))).output()
        sent = self.constant_array(to_host(data))
        cast("LeafRecord", sent.record).constant.moved = device
        return recorder.op(get_op("to_device"), (sent,), (device, "cpu"))[0]

    def constant_array(self, array: np.ndarray[Any, Any]) -> Pending:
        """Return the pending value that stands for an array which nobody will write to any more."""
        return LeafRecord(self.log.recorder, self.constant_of(array)).output()

    def captured_array(self, array: np.ndarray[Any, Any]) -> Pending:
        """Return the pending value that stands for an array which user code captures, as it is now; of one with a form
        of its own, for the base of that."""
        if self.log.trace is not None:
            return self.log.trace.copy_of(array)
        return LeafRecord(self.log.recorder, self.snapshots.of(base_of(array))).output()

    def constant_of(self, array: np.ndarray[Any, Any]) -> Constant:
        """Return the constant of an array, which is read-only from here on."""
        if array.flags.writeable:
            array.flags.writeable = False
        return Constant(array, self.log.specs.of_array(array))

    def source(self, data: Data | None) -> Any:
        """Return how a record names a value that it reads: a constant, or (record, output, holder).

        A value that was submitted before would be dropped when its last holder lets go, so the source holds it; one
        that is not yet submitted is part of the same submission, and must die when nobody else wants it.
        """
        if data is None:
            return None
        if type(data) is Pending:
            record: Any = data.record
            if record.recorder is not self.log.recorder:
                return self.source(_read_before_close(data))
            if type(record) is NodeRecord:
                return record, data.index, data if record.run >= 0 else None
            return record.constant
        if is_array(data):
            if data.flags.writeable and self.log.trace is None:
                return self.snapshots.of(data)
            return self.constant_of(copy_as_laid(data) if data.flags.writeable else data)
        if type(data) is Batched:
            raise single_value_error("a session")
        if is_device_array(data):
            return self.source(self.leaf_on_device(data))
        return Constant(data)

    def sources(self, values: Iterable[Data | None]) -> list[Any]:
        """Return how a record names each of these values; see `source`, which most do not need to be asked."""
        recorder = self.log.recorder
        found: list[Any] = []
        for data in values:
            if type(data) is Pending:
                record: Any = data.record
                if type(record) is NodeRecord and record.recorder is recorder:
                    found.append((record, data.index, data if record.run >= 0 else None))
                    continue
            found.append(None if data is None else self.source(data))
        return found


def _read_before_close(value: Pending) -> Data | None:
    """Return a value of another session that was read before that was closed."""
    other: Any = value.record.recorder
    if other.closed:
        try:
            return other.read(value)
        except SessionError:  # it says how to read it there, which is too late now
            if other.log.left_to_parent:
                raise
    refuse_mixing(value)


def refuse_mixing(value: Pending) -> NoReturn:
    """Refuse a value of another session.

    Raises:
        SessionError: always.
    """
    what = "a session that is closed" if value.record.recorder.closed else "another session"
    raise SessionError(
        f"a tensor of {what} (shape {value.shape}) is used in this one; read it there first: "
        "raygrad.tensor(value.detach().numpy())"
    )
