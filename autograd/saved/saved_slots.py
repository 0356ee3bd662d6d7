"""Slots of a Function's saved tensors: inputs and outputs by position, and values of its own.

After forward, `sort_into_slots` fills them from what was saved. The context decides when a slot may be read
(`functions/context.py`); saved-tensor hooks pack its contents (`saved_tensors.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from raygrad.errors import AutogradError

from ..tensor.tensor import Tensor
from .saved_tensor_hooks import RelocatedSavedTensor

if TYPE_CHECKING:
    from ..functions.context import FunctionNode

INPUT, OUTPUT, VALUE = "input", "output", "value"
PACKED = "packed"
"""A slot that a saved-tensor hook has packed: its value is (what it is, the `Packed`)."""

UNSHARED: list[int] = [0]
"""The version counter of saved values that nobody else can change."""


class SavedSlot(NamedTuple):
    """One saved slot: an input or output of the Function by position, or a value of its own."""

    kind: str
    position: int
    value: Any
    """The tensor; for an output its data (holding the tensor would make a reference cycle)."""
    counter: list[int]
    version: int

    @property
    def what(self) -> str:
        """What was saved, also where hooks have packed it."""
        return self.value[0] if self.kind is PACKED else self.kind

    @property
    def checked(self) -> bool:
        """Whether a change in place of the original would show."""
        return self.kind is not PACKED or self.value[1].checked


class ReadOnceSlots(list[Any]):
    """Saved slots that the first access empties (CX-25)."""


class UnreadableSlots(Sequence[Any]):
    """A placeholder for saved tensors that can no longer be read; an access raises with the reason."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: Any) -> Any:
        raise AutogradError(self.message)


TAKEN = UnreadableSlots(
    "the saved tensors of this context can only be accessed once, since clear_saved_tensors_on_access is set on its "
    "Function: keep what the first access returned in a variable, or set the flag to False"
)
"""They were given away when they were first read (CX-25)."""

slot_of: Any = functools.partial(cast("Any", tuple).__new__, SavedSlot)
"""Makes a `SavedSlot` from a tuple, in a third of the time."""


def sort_into_slots(node: FunctionNode, tensors: tuple[Any, ...], args: tuple[Any, ...], raw: Any) -> None:
    """Sort the tensors that forward saved into slots for inputs, outputs and values of its own."""
    if type(tensors) is not tuple:
        raise AutogradError(f"ctx.to_save must be a tuple of tensors, got {type(tensors).__name__}")
    dirty = node.dirty_tensors
    if dirty is None and len(tensors) <= len(args):
        position = 0
        for tensor in tensors:
            if tensor is not args[position] or type(tensor) is not Tensor:
                break
            counter = tensor._counter
            if counter[0] if counter is not None else tensor._inference is not None:
                break
            position += 1
        else:  # the first arguments, in order, and never changed: nothing else need be known of them later
            node._kept = tensors
            return
    first = args[0] if args and dirty is None else node
    saved: list[SavedSlot | None] = []
    for tensor in tensors:
        if tensor is None:
            saved.append(None)
            continue
        counter = tensor._counter
        if counter is None:
            counter = tensor.counter_to_save()
        if tensor is first:
            saved.append(slot_of((INPUT, 0, tensor, counter, counter[0])))
            continue
        outputs = cast("tuple[Any, ...]", raw) if isinstance(raw, tuple) else (raw,)
        kind, position = origin_of(tensor, args, outputs, dirty)
        version = counter[0]
        if dirty is not None and any(counter is d.counter() for d in dirty):
            version += 1  # its memory is about to be that of an output (OU-16)
        saved.append(slot_of((kind, position, tensor._data if kind is OUTPUT else tensor, counter, version)))
    node._saved = saved


def origin_of(
    tensor: Tensor, args: tuple[Any, ...], outputs: tuple[Any, ...], dirty: tuple[Any, ...] | None = None
) -> tuple[str, int]:
    """Return what a tensor is to a Function: an input or output by position, or a value of its own. An input that was
    changed in place is the output that it has become (CX-16)."""
    for position, arg in enumerate(args):
        if arg is tensor and not (dirty and any(arg is d for d in dirty)):
            return INPUT, position
    for position, output in enumerate(outputs):
        if output is tensor:
            return OUTPUT, position
    return VALUE, -1


def replayed_slot(slot: SavedSlot, given: dict[str, Sequence[Tensor | None]]) -> SavedSlot:
    """Return a slot in which a saved input or output is one of the given tensors (H7)."""
    if slot.kind is VALUE:
        return slot
    if slot.kind is not PACKED:
        return SavedSlot(VALUE, -1, given[slot.kind][slot.position], UNSHARED, 0)
    kind, packed = slot.value
    place = None if kind is VALUE else given[kind][slot.position]
    return SavedSlot(PACKED, -1, (VALUE, RelocatedSavedTensor(packed, place)), UNSHARED, 0)
