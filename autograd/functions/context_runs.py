"""Contexts while a worker runs forward and backward: what forward saved, and the copies on which backward runs.

Workers run Functions through these functions, so that no other room reads a context's fields. What a worker reports of
a run is decided in `workers.interpreter`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..saved.saved_slots import INPUT, OUTPUT, PACKED, UNSHARED, VALUE, slot_of
from .context import SAVED_ATTRIBUTES, FunctionNode
from .double_backward import context_changes

_ABSENT: Any = object()


# ---- what a run of forward saved -------------------------------------------------------------------------------------


def plain_saved(node: FunctionNode) -> list[Any] | None:
    """Return what forward saved, by what it is to its arguments and outputs; None where it marked something, keeps
    arguments as attributes, or hooks have packed what it saved."""
    if node.dirty_tensors is not None or node.non_differentiable is not None or node._references or node._given:
        return None
    if node._kept is not None:  # its first arguments, in order
        return [len(node._kept)]
    found: list[Any] = []
    for slot in node._saved or ():
        if slot is None:
            found.append(None)
        elif slot[0] is PACKED:
            return None
        else:
            found.append(slot[0])
            found.append(slot[1])
    return found


def saved_places(node: FunctionNode) -> tuple[set[int], set[int], bool]:
    """Return the arguments and the outputs that a context holds, and whether forward saved anything."""
    slots = [slot for slot in node._saved or () if slot is not None]
    references = (node._references or {}).values()
    inputs = {slot.position for slot in slots if slot.what is INPUT} | {p for kind, p in references if kind is INPUT}
    inputs.update(node._given or ())
    outputs = {slot.position for slot in slots if slot.what is OUTPUT} | {p for kind, p in references if kind is OUTPUT}
    return inputs, outputs, bool(node._saved or ())


def unchecked_places(node: FunctionNode) -> set[tuple[int, bool]]:
    """Return which saved inputs and (True) outputs hooks have packed as something else: changes in place of these do
    not matter (GR-05)."""
    slots = [slot for slot in node._saved or () if slot is not None and slot.position >= 0]
    checked = {(slot.position, slot.what is OUTPUT) for slot in slots if slot.checked}
    checked |= {(position, kind is OUTPUT) for kind, position in (node._references or {}).values()}
    return {(slot.position, slot.what is OUTPUT) for slot in slots} - checked


# ---- a backward on a worker ------------------------------------------------------------------------------------------


class WatchedSlots(list[Any]):
    """What was saved, noting whether it is read (CX-11)."""

    read = False

    def __iter__(self) -> Iterator[Any]:
        self.read = True
        return super().__iter__()


def _is_plain(node: FunctionNode) -> bool:
    """Tell whether a context has neither hooks nor references nor packed values: nearly always."""
    if node._references != {} or node._pre_hooks is not None or node._post_hooks is not None:
        return False
    if node._kept is not None:
        return True
    saved: Any = node._slots
    if type(saved) not in (list, tuple):
        return False
    for slot in saved:
        if slot is not None and slot[0] is PACKED:
            return False
    return True


def replay_plain(
    node: FunctionNode, watched: list[Any], items: Sequence[Any], inputs: int, outputs: int
) -> FunctionNode | None:
    """Return a copy of a context that saved what is put in `watched`: in `items` arguments and outputs begin at these
    places. None if the context is not plain."""
    if not _is_plain(node):
        return None
    copy = object.__new__(type(node))
    copy.__dict__.update(node.__dict__)
    kept = node._kept
    if kept is not None:  # its first arguments, in order
        watched += [slot_of((VALUE, -1, item, UNSHARED, 0)) for item in items[inputs : inputs + len(kept)]]
    else:
        for slot in node._slots or ():
            if slot is not None and slot[0] is not VALUE:
                place = (inputs if slot[0] is INPUT else outputs) + slot[1]
                slot = slot_of((VALUE, -1, items[place], UNSHARED, 0))
            watched.append(slot)
    copy._kept, copy._slots = None, watched
    return copy


def unpacked_on(node: FunctionNode, inputs: Sequence[Any], outputs: Sequence[Any]) -> FunctionNode:
    """Return a context with what hooks have packed unpacked: of inputs and outputs, into these tensors of theirs."""
    slots = node.unpacked_slots()
    if slots is node._saved:
        return node
    for slot, before in zip(slots or (), node._saved or (), strict=True):
        if slot is not None and before is not None and before.kind is PACKED and slot.kind is not VALUE:
            tensor = (inputs if slot.kind is INPUT else outputs)[slot.position]
            tensor._data = slot.value._data if slot.kind is INPUT else slot.value
    return node.freed(slots)


def keep_in(node: FunctionNode, watched: list[Any]) -> None:
    """Have a context hold what it saved in a list that notes whether it is read."""
    watched.extend(node._saved or ())
    node._saved = watched


# ---- copies, for and after backward ----------------------------------------------------------------------------------


def copy_with_attributes(node: FunctionNode, attributes: Mapping[str, Any]) -> FunctionNode:
    """Return a copy of a context with attributes that its user set elsewhere."""
    copy = object.__new__(type(node))
    copy.__dict__.update(node.__dict__)
    copy.__dict__.update(attributes)
    if copy._references is not None:
        copy._references = {name: ref for name, ref in copy._references.items() if name not in attributes} or None
    return copy


def has_changed(before: dict[str, Any], ran: FunctionNode) -> bool:
    """Tell whether backward set or deleted something on a context that was `before`. That it let go of what was saved
    (CX-24, CX-25) is no change: the client knows of it."""
    now = ran.__dict__
    names = (now.keys() | before.keys()) - SAVED_ATTRIBUTES
    return any([before.get(name, _ABSENT) is not now.get(name, _ABSENT) for name in names])


def left_behind(context: FunctionNode, before: dict[str, Any], ran: FunctionNode) -> FunctionNode:
    """Return `context` with what backward changed on `ran`, a copy of it that was `before`."""
    now = ran.__dict__
    left = object.__new__(type(context))
    left.__dict__.update({name: value for name, value in context.__dict__.items() if name in now})
    changed = context_changes(before, ran)
    left.__dict__.update(changed)
    if left._references:
        kept = {name: ref for name, ref in left._references.items() if name in now and name not in changed}
        if len(kept) < len(left._references):
            left._references = kept or None
    return left
