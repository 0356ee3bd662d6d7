"""Trace: the facts about one call of a compiled function, observed while it is recorded (H9).

Recorders report to it, and it refuses what a replay could not repeat. `replay` makes a replay of it.

A *root* is a tensor that was there before the function ran: one of its arguments, one that the function reaches, or the
gradient of such a one. What a record reads of earlier runs has to be the value of a root, since that is where the next
call finds what to read instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.random_streams import PROGRAM, current_stream
from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.devices.serving import is_device_array
from raygrad.autograd.nodes.node import next_sequence
from raygrad.autograd.storage.storage import is_shared
from raygrad.autograd.storage.view import LostData
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import SessionError
from raygrad.workers.code.array_form import base_of
from raygrad.workers.code.shipping import Shipped

from ..recording.records import LeafRecord
from ..recording.snapshot_cache import is_still, value_of_leaf
from ..recording.source_locations import user_site
from .stream_positions import DrawOfUserCode, StreamPositions

if TYPE_CHECKING:
    from ..recording.record_inputs import InputRecorder

REMEDY = (
    "a compiled function is recorded once and then replayed, so what it does must not depend on values: return the "
    "tensor and read it after the call, choose with rg.where, or leave this part out of session.compile"
)


class Root:
    """A tensor that was there before: how the next call finds its like, and what it was."""

    __slots__ = (
        "grad",
        "had_grad",
        "had_history",
        "initial",
        "kind",
        "of_grad",
        "position",
        "required",
        "same_as",
        "shares",
        "spec",
        "tensor",
        "version",
    )

    def __init__(self, tensor: Tensor, position: int, *, of_grad: Tensor | None = None) -> None:
        self.position = position
        """Of the argument that it is, or whose gradient it is; else -1."""
        self.tensor = None if position >= 0 else tensor if of_grad is None else of_grad
        """The tensor that it is, or whose gradient it is; None if that is an argument."""
        self.of_grad = of_grad is not None
        self.initial: Tensor | None = tensor
        """The tensor that it was, while the call lasts."""
        self.grad: Tensor | None = tensor._grad
        """Its gradient before, while the call lasts."""
        self.required = tensor._requires_grad
        self.had_grad = tensor._grad is not None
        self.had_history = tensor.grad_fn is not None
        self.shares = shares_memory(tensor)
        self.version = tensor.counter()[0]
        self.kind = (tensor._data.shape, tensor._data.dtype)
        """Its shape and dtype, which code may read without its value."""
        self.spec: Any = None
        """That of its value; None while nothing has read it."""
        self.same_as: Root | None = None
        """The root that had the same value, and by which that is named."""

    def now(self, args: Sequence[Tensor]) -> Tensor | None:
        """Return the tensor that stands in its place in this call."""
        tensor = self.tensor if self.position < 0 else args[self.position]
        return tensor._grad if tensor is not None and self.of_grad else tensor

    def is_alike(self, tensor: Tensor | None) -> bool:
        """Tell whether a tensor in its place makes for the same records, up to its layout."""
        return (
            tensor is not None
            and (tensor._data.shape, tensor._data.dtype) == self.kind
            and tensor._requires_grad == self.required
            and (tensor._grad is not None) == self.had_grad
            and (tensor.grad_fn is not None) == self.had_history
        )


class RandomDraw(NamedTuple):
    """The random numbers of draw `number` of a call."""

    number: int


class Trace:
    """What happens in one call of a function that is to be compiled."""

    def __init__(self, inputs: InputRecorder, args: Sequence[Tensor], reached: Sequence[Tensor]) -> None:
        self.inputs = inputs
        self.began = StreamPositions()
        """Where the random stream stood when the call began."""
        self.roots: dict[int, Root] = {}
        """By id of the tensor."""
        self.origins: dict[Any, Root | RandomDraw | np.ndarray[Any, Any]] = {}
        """By what a record reads (see `key_of`), where the next call finds it: an array is one of user code, of which a
        constant is a copy."""
        self.draws: list[Callable[[], Any] | DrawOfUserCode] = []
        """What draws random numbers, or seeds their generator, in program order."""
        self.others: dict[int, tuple[Tensor, Any, int]] = {}
        """By id, tensors that are no roots: made by the function, or reached in a hidden way; with their array and
        version."""
        self.code: dict[str, Shipped] = {}
        """User code that was recorded, by fingerprint."""
        self.kept: list[Any] = []
        """What has to live as long as ids of it are compared."""
        self._copies: dict[int, Pending] = {}
        """By id of an array of user code, what stands for it."""
        self.interrupted = ""
        """Why this call cannot be replayed."""
        self.reached = reached
        self.aliases = aliases_among(args, reached)
        self._began = next_sequence()
        self._swapped: list[tuple[Tensor, Any, Pending]] = []
        for position, tensor in enumerate(args):
            self._root(tensor, position)
        for tensor in reached:
            self._root(tensor, -1)

    def _root(self, tensor: Tensor, position: int) -> None:
        if id(tensor) in self.roots:
            return
        self.roots[id(tensor)] = Root(tensor, position)
        self._enter(tensor)
        if tensor._grad is not None and id(tensor._grad) not in self.roots:
            self.roots[id(tensor._grad)] = Root(tensor._grad, position, of_grad=tensor)
            self._enter(tensor._grad)

    def _enter(self, tensor: Tensor) -> None:
        """Let reading its value be seen: an array is replaced by the pending value that stands for it."""
        root, data = self.roots[id(tensor)], tensor._data
        if type(data) is np.ndarray or is_device_array(data):
            if tensor._requires_grad:
                tensor.axis_order()  # which only an array shows
            pending = self.inputs.leaf(tensor)
            tensor._data = pending
            self._swapped.append((tensor, data, pending))
        elif type(data) is Pending and data.record.recorder is self.inputs.log.recorder:
            pending = data
        else:
            return
        self.kept.append(pending)
        first: Any = self.origins.setdefault(key_of(pending), root)
        if first is not root:
            root.same_as = first

    def forget(self) -> None:
        """Let go of what only the call itself needed; values of earlier runs are not to be held."""
        for root in self.roots.values():
            root.initial = root.grad = None
        for held in (self.origins, self.code, self.kept, self._copies):
            held.clear()

    def restore(self) -> None:
        """Give tensors back the arrays that they had, if they have not changed."""
        for tensor, array, pending in self._swapped:
            if tensor._data is pending:
                tensor._data = array
        self._swapped.clear()

    # ---- what the recorder tells ------------------------------------------------------------------------------------

    def saw(self, tensor: Tensor) -> None:
        """A tensor is read by what is recorded.

        Raises:
            SessionError: its history began before this call.
        """
        node = tensor.grad_fn
        if node is not None and node._sequence < self._began and tensor._requires_grad:
            raise SessionError(
                f"a compiled function reads a tensor with a history that began before the call (shape {tensor.shape}, "
                f"at {user_site()}): a replay has no such history; pass tensor.detach(), or make it inside"
            )
        if id(tensor) not in self.roots and (type(tensor._data) is np.ndarray or is_device_array(tensor._data)):
            self.others.setdefault(id(tensor), (tensor, tensor._data, tensor.counter()[0]))

    def draw(self, made: Tensor | None, again: Callable[[], Any] | None) -> None:
        """Random numbers were drawn, or their generator was seeded."""
        if again is None:
            self.interrupt("it asks for a generator of NumPy (rg.generator()): draw with raygrad (rg.rand, say)")
            return
        if made is not None:
            pending = self.inputs.constant_array(made._data)
            made._data = pending
            self.origins[key_of(pending)] = RandomDraw(len(self.draws))
            self.kept.append(pending)
        stream = current_stream(state.here)
        of_user = stream is not PROGRAM
        self.draws.append(DrawOfUserCode(again, stream.origin, stream.positions[-1] - 1) if of_user else again)

    def copy_of(self, array: np.ndarray[Any, Any]) -> Pending:
        """Return what stands for an array that user code captures, as it is now."""
        known = self._copies.get(id(array))
        base = base_of(array)
        if known is None or not is_still(value_of_leaf(known), base):
            known = self._copies[id(array)] = self.inputs.constant_array(np.array(base, copy=True, order="K"))
            self.origins[key_of(known)] = array
            self.kept.append(known)
        return known

    def interrupt(self, why: str) -> None:
        """This call cannot be replayed: a part of what was recorded runs now, since something has to be learned from
        it, or a replay would not do all that the call did."""
        self.interrupted = self.interrupted or why

    def refuse_read(self, value: Pending) -> None:
        """Refuse to read a value that another call would have otherwise.

        Raises:
            SessionError: it is not a constant of the function's own.
        """
        if type(value.record) is LeafRecord and type(self.origins.get(key_of(value))) not in (Root, RandomDraw):
            return
        raise self.refusal("a value is read")

    def refusal(self, what: str) -> SessionError:
        """Return the error that says that something waits inside a compiled function."""
        return SessionError(f"{what} inside session.compile, at {user_site()}: {REMEDY}")


def aliases_among(args: Sequence[Tensor], reached: Sequence[Tensor]) -> Sequence[int]:
    """Return which arguments, captured tensors and gradients of these are one tensor: for each its first place, or only
    their number if no two are. A recording is for arguments that coincide with captured tensors as they did in it."""
    tensors = [*args, *reached]
    tensors += [grad for tensor in tensors if (grad := tensor._grad) is not None]
    ids = list(map(id, tensors))
    if len(set(ids)) == len(ids):
        return (len(ids),)
    first: dict[int, int] = {}
    return [first.setdefault(one, place) for place, one in enumerate(ids)]


def key_of(value: Pending) -> Any:
    """Return what names a value that records read: (id of the earlier record, output), or the id of a constant."""
    record = value.record
    return id(record.constant) if type(record) is LeafRecord else (id(record), value.index)


def shares_memory(tensor: Tensor) -> bool:
    """Tell whether there are views or aliases of a tensor, which follow when it changes, or it is one."""
    return tensor._base is not None or is_shared(tensor)


def value_of(tensor: Tensor) -> Any:
    """Return a tensor's data, as it is for use."""
    data = tensor._data
    if type(data) is LostData:
        data.refuse()
    return data
