"""Watched leaves: snapshots of memory that NumPy may write to, which are taken anew when a pass begins.

Eagerly a saved tensor over such memory (`rg.from_numpy`) shows at the pass what stands there then. In a session a node
keeps a snapshot; the recorder asks here for those that are out of date. What is recorded already keeps what it reads.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.tensor.tensor import Tensor

from .records import Constant
from .snapshot_cache import is_still, value_of_leaf

if TYPE_CHECKING:
    from raygrad.autograd.registry.registry import Op

    from .record_log import RecordLog


class _Watched(NamedTuple):
    array: np.ndarray[Any, Any]
    tensor: weakref.ref[Tensor]


class _View(NamedTuple):
    op: Op
    operands: tuple[Any, ...]
    """What it is a view of, and the op's other operands."""
    params: tuple[Any, ...]


class WatchedLeaves:
    """The snapshots of shared memory of one session, and views of them, as long as somebody holds their pending
    values."""

    def __init__(self, log: RecordLog) -> None:
        self._log = log
        self._watched: weakref.WeakKeyDictionary[Pending, _Watched] = weakref.WeakKeyDictionary()
        self._views: weakref.WeakKeyDictionary[Pending, _View] = weakref.WeakKeyDictionary()
        self._replaced: list[Pending] = []
        """Earlier values of views, which what is not submitted yet may read."""

    def watch(self, pending: Pending, array: np.ndarray[Any, Any], tensor: Tensor) -> None:
        """Let a leaf's pending value follow the array of which it is a snapshot; `tensor` is over that."""
        self._watched[pending] = _Watched(array, weakref.ref(tensor))

    def note_view(self, pending: Pending, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> None:
        """Let a value that is a view of the first operand follow it, if that follows memory."""
        if operands[0] in self._watched or operands[0] in self._views:
            self._views[pending] = _View(op, operands, params)

    def release(self, array: np.ndarray[Any, Any]) -> None:
        """Let no snapshot of this memory follow it any more: the session changes it, and what was saved before is kept
        as it was, or is refused by its version."""
        for pending, (watched, _) in list(self._watched.items()):
            if np.may_share_memory(watched, array):
                del self._watched[pending]

    def renew(self, copy: Callable[[np.ndarray[Any, Any]], Constant]) -> Iterator[Tensor]:
        """Let each snapshot that is out of date be another one, as `copy` makes it; yield the tensors over that
        memory."""
        if self._replaced and not self._log.records:
            self._replaced.clear()
        renewed: set[Pending] = set()
        for pending, (array, held) in list(self._watched.items()):
            before, record = value_of_leaf(pending), pending.record
            if is_still(before, array) or before.tobytes() == array.tobytes():
                continue
            record.constant = copy(array)  # type: ignore[attr-defined]
            renewed.add(pending)
            tensor = held()
            if tensor is not None:
                yield tensor
        for pending, (op, operands, params) in list(self._views.items()) if renewed else ():
            if operands[0] in renewed:
                self._view_again(pending, self._log.recorder.op(op, operands, params)[0])
                renewed.add(pending)

    def _view_again(self, pending: Pending, again: Pending) -> None:
        """Let a pending value be that of another record; `again`, which was, is that of the first one from now on."""
        before, record = pending.record, again.record
        if before.is_retained(pending.index):
            record.retained(again.index)
        pending.record, again.record = record, before
        pending.index, again.index = again.index, pending.index
        self._replaced.append(again)
