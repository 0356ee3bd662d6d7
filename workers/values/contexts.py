"""Contexts between workers: a live node in its segment, plain data once it leaves the worker's process, rebuilt on use.

Steps hold contexts in slots; `packed_values` packs them. Saved inputs and outputs are slot references:
their arrays are values of their own and are never stored twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.core.recorder import Resident
from raygrad.autograd.devices.serving import is_elsewhere, named
from raygrad.autograd.functions.context import HOLDING, OWN
from raygrad.autograd.functions.double_backward import changes_on
from raygrad.autograd.functions.function import Function, FunctionNode
from raygrad.autograd.nodes.node import FREED
from raygrad.autograd.saved.saved_slots import INPUT, OUTPUT, PACKED, UNSHARED, VALUE, Refused, Saved
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import NotShippable
from raygrad.proto.codec.values import Blob
from raygrad.proto.ir.specs import LIVE, STAYS

from .context_codec import (
    PLAIN,
    is_opaque,
    pack_attribute,
    pack_hooks,
    pack_meta,
    pack_places,
    pack_slot,
    placed,
    unpack_attribute,
    unpack_hooks,
    unpack_meta,
    unpack_slot,
    unplaced,
)

LARGE: Final = 1 << 16
"""Arguments and outputs of this many bytes or more are held by reference only."""


class Context:
    """A context in a slot: live, or packed until a vjp reads it, or spilled until it is requested."""

    __slots__ = ("_away", "_live", "_packed", "_rebuilt", "recipe", "unchanged")

    def __init__(
        self,
        live: FunctionNode | None = None,
        packed: dict[str, Any] | None = None,
        rebuilt: list[FunctionNode] | None = None,
    ) -> None:
        self._live = live
        self._packed = packed
        self._away: Callable[[], dict[str, Any]] | None = None
        """Loads the packed context from where it was spilled."""
        self._rebuilt = rebuilt
        """Shared by contexts that were packed as one: holds the first of them that was rebuilt."""
        self.recipe: Any = None
        """The `RecipeValue` that rematerialises it, if there is one."""
        self.unchanged = False
        """Whether it is a context after backward, which changed nothing on it."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that only this context keeps alive."""
        return sum(map(_size_of, self.parts()))

    def parts(self) -> list[Any]:
        """Return the parts that only this context keeps alive: arrays, blobs, and objects with own memory
        (`Resident`)."""
        found: list[Any] = []
        live = self._live
        if live is None:
            if self._packed is not None:
                _find_parts(self._packed, found)
            return found
        if live.readable:
            for slot in live._saved or ():
                if slot is None or (slot.position >= 0 and slot.kind is not PACKED):
                    continue  # the usual case: an input or an output, which is a value of its own
                if slot.kind is VALUE:
                    _find_parts(slot.value._data, found)
                elif slot.kind is PACKED and not slot.checked:
                    _find_parts(slot.value[1].content[1], found)
        references = live._references or ()
        for name, value in live.__dict__.items():
            if name not in OWN and name not in references:
                _find_parts(value, found)
        return found

    def hides(self, device: str = "") -> bool:
        """Tell whether it may hold uncounted memory on a device: its Function read or made tensors there, and set an
        opaque object as an attribute."""
        live = self._live
        if live is None or (live._input_places is None and live._places is None):
            return False
        places = [str(place) for place in (*(live._input_places or ()), *(live._places or ())) if place is not None]
        if device and device not in places:
            return False
        return any([is_opaque(value) for value in live._attributes().values()])

    def let_go_of_large(self) -> bool:
        """Replace large arguments and outputs, which are values of their own, by references: else they would live as
        long as this context, though no step reads them from it. Tell whether there are any."""
        live = self._live
        if live is None or not live.readable:
            return False
        references = live._references
        large = False
        for tensor in live._kept or ():
            large = large or tensor._data.nbytes >= LARGE
        if live._kept is None:
            for slot in live._saved or ():
                if slot is not None and (slot[0] is INPUT or slot[0] is OUTPUT):
                    value = slot[2]
                    large = large or (value._data if slot[0] is INPUT else value).nbytes >= LARGE
        if not large:
            return False
        live.keep_slots(
            [
                slot
                if slot is None or (slot.kind is not INPUT and slot.kind is not OUTPUT)
                else Saved(slot.kind, slot.position, None, UNSHARED, 0)
                for slot in live._saved or ()
            ]
        )
        for name in references or ():
            live.__dict__.pop(name, None)
        return True

    def settle(self) -> None:
        """Move the arrays of a packed context to their devices: they are counted there, and later readers copy
        nothing."""
        if self._packed is not None:
            self._packed = placed(self._packed)

    def put_away(self, away: Callable[[], dict[str, Any]]) -> None:
        """Spill the context: keep only `away`, which loads it packed."""
        self._away, self._live, self._packed, self._rebuilt = away, None, None, None

    def _here(self) -> dict[str, Any]:
        """Return the packed form of a context that is not live."""
        if self._packed is not None:
            return self._packed
        assert self._away is not None
        return self._away()

    def live(self, cls: type[Function]) -> FunctionNode:
        """Return the node, rebuilt for `cls` if it is packed, or if its forward belongs to another version of the class
        (one whose captured variable was changed between the call and the pass)."""
        live = self._live
        if live is None:
            rebuilt = self._rebuilt
            if rebuilt and rebuilt[0]._function is cls:
                live = _again(cls, rebuilt[0])
            else:
                live = _rebuild(cls, self._here())
                if rebuilt is not None:
                    rebuilt[:] = [live]
            self._live = live
            self._packed = self._rebuilt = self._away = None
        elif live._function is not cls:
            return _again(cls, live)
        return live

    def bound(self) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """Return the tensors in the context that have to keep their identity in backward: arguments, by position, and
        borrowed leaves, by number. A context with any is not packed."""
        live = self._live
        return (_NONE, _NONE) if live is None else (live._given or _NONE, live._lent or _NONE)

    def seen(self, cls: type[Function]) -> FunctionNode:
        """Return the node for inspection, without keeping a rebuilt one."""
        if self._live is not None:
            return self._live
        return _rebuild(cls, self._here())

    def packed(self, asked: bool = False) -> dict[str, Any]:
        """Return the context as plain data, arrays and blobs; with `asked` (requested by the client) including arrays
        on devices.

        Raises:
            NotShippable: an attribute cannot be pickled, or is on a device and was not asked for; names it.
        """
        if self._live is None:
            return unplaced(self._here())
        node = self._live
        references = node.references()
        saved: Any = node._saved
        return {
            "saved": [pack_slot(node, slot, asked) for slot in saved] if node.readable else (),
            "refused": saved.message if type(saved) is Refused else "" if node.readable else FREED,
            "hooks": [pack_hooks(hooks) for hooks in (node._pre_hooks, node._post_hooks)],
            "attributes": {
                name: pack_attribute(node, name, value, asked)
                for name, value in node._attributes().items()
                if name not in references
            },
            "notes": None if not node._notes else pack_attribute(node, "metadata", node._notes, asked),
            "references": dict(references),
            "needs": node.needs_input_grad,
            "materialize": (node.materialize_grads, node._materialize_non_diff_grads),
            "barren": tuple(sorted(node._barren)),
            "wanted": tuple(edge is not None and edge[0] is not None for edge in node._edges),
            "inputs": tuple(pack_meta(meta) for meta in node._inputs),
            "outputs": tuple(pack_meta(meta) for meta in node._metas),
            "places": (pack_places(node._input_places), pack_places(node._places)),
        }


_NONE: Final[dict[int, Tensor]] = {}
"""Never written to."""


def is_bare(node: FunctionNode) -> bool:
    """Tell whether a context holds only references to arguments and outputs."""
    if node._notes or not node._attributes().keys() <= node.references().keys():
        return False
    slots: Any = node._saved if node.readable else ()
    return all([slot is None or slot.kind is INPUT or slot.kind is OUTPUT for slot in slots or ()])


class Alike:
    """Deduplication of the contexts of one object that hold no data of their own: equal ones are packed once."""

    def __init__(self) -> None:
        self._first: dict[Any, tuple[int, tuple[Any, ...]]] = {}
        """Per Function, (entry number, facts) of the last context packed."""

    def place(self, context: Context, number: int) -> int:
        """Return the number of an earlier entry with an equal context; -1 if this one, entry `number`, has to be
        packed."""
        node = context._live
        if node is None:
            return -1
        facts = _facts(node)
        if facts is None:
            return -1
        function = node._function
        place, before = self._first.get(function, (-1, ()))
        if before == facts:
            return place
        self._first[function] = (number, facts)
        return -1


def _facts(node: FunctionNode) -> tuple[Any, ...] | None:
    """Return the facts from which a context without data is packed; None if it has data: a value, attribute, note or
    hook."""
    saved: Any = node._saved
    if type(saved) not in (list, tuple) or node._references != {} or node._notes:
        return None
    if node._pre_hooks is not None or node._post_hooks is not None:
        return None
    for name in node.__dict__:
        if name not in OWN:
            return None
    slots: list[Any] = []
    for slot in saved:
        if slot is None:
            slots.append(None)
        elif slot[0] is INPUT or slot[0] is OUTPUT:
            slots.append(slot[:2])
        else:
            return None
    flags = (node.materialize_grads, node._materialize_non_diff_grads, node._barren, node._input_places, node._places)
    return (slots, node.needs_input_grad, node._edges, node._inputs, node._metas, *flags)


def bound_to(node: FunctionNode) -> int:
    """Return 0 if a context can leave its worker (H10), STAYS if only for the disk there, LIVE if not even that."""
    if node._given or node._lent:
        return LIVE  # a copy would hold other tensors than its arguments
    if node._input_places is None:
        try:
            Context(node).packed()
        except NotShippable:
            pass
        else:
            return 0
    return STAYS if _all_is_seen(node) else LIVE  # saved arrays are on a device, where its backward has to run


def _all_is_seen(node: FunctionNode) -> bool:
    """Tell whether a context holds nothing but tensors, arrays and plain data."""
    if node._notes or node._pre_hooks or node._post_hooks:
        return False
    held = list(node._attributes().values())
    saved: Any = node._saved if node.readable else ()
    held += [slot.value[1].content[1] for slot in saved or () if slot is not None and slot.kind is PACKED]
    return not any([is_opaque(value) for value in held])


# ---- what backward and the client change (DR-05) ---------------------------------------------------------------------


def with_attributes(node: FunctionNode, assigned: Sequence[tuple[str, int]], values: Sequence[Any]) -> FunctionNode:
    """Return a copy of a context with attributes that the client set: (name, 1 if the value is a tensor's array)."""
    copy = object.__new__(type(node))
    copy.__dict__.update(node.__dict__)
    for (name, is_tensor), value in zip(assigned, values, strict=True):
        copy.__dict__[name] = Tensor.made(value) if is_tensor else value
    if copy._references is not None:
        names = {name for name, _ in assigned}
        copy._references = {name: ref for name, ref in copy._references.items() if name not in names} or None
    return copy


def has_changed(before: dict[str, Any], ran: FunctionNode) -> bool:
    """Tell whether backward set or deleted an attribute on a context with attributes `before`. Released saved tensors
    (CX-24, CX-25) are no change: the client knows of them."""
    now = ran.__dict__
    names = (now.keys() | before.keys()) - HOLDING
    return any([before.get(name, _ABSENT) is not now.get(name, _ABSENT) for name in names])


def attributes_of(node: FunctionNode) -> int:
    """Classify the attributes that the user set on a context: 0 none, 1 constants, 2 some that backward may write
    to."""
    attributes = node._attributes()
    if node._notes or any([_may_be_written_to(value) for value in attributes.values()]):
        return WRITABLE
    return int(bool(attributes))


WRITABLE: Final = 2


def left_behind(context: FunctionNode, before: dict[str, Any], ran: FunctionNode) -> FunctionNode:
    """Return `context` with the changes that backward made on `ran`, a copy of it with attributes `before`."""
    now = ran.__dict__
    left = object.__new__(type(context))
    left.__dict__.update({name: value for name, value in context.__dict__.items() if name in now})
    changed = changes_on(before, ran)
    left.__dict__.update(changed)
    if left._references:
        kept = {name: ref for name, ref in left._references.items() if name in now and name not in changed}
        if len(kept) < len(left._references):
            left._references = kept or None
    return left


_ABSENT: Any = object()
_CONSTANT: Final = (*PLAIN, tuple, frozenset, np.dtype, np.ufunc, type, FunctionType, BuiltinFunctionType)


def _may_be_written_to(value: Any) -> bool:
    if isinstance(value, Tensor):
        value = value._data
    if isinstance(value, np.ndarray):
        return bool(value.flags.writeable)
    return not isinstance(value, _CONSTANT)


class _Wanted(FunctionNode):
    """A placeholder at the end of an edge whose gradient is wanted; never run."""


WANTED = (_Wanted(), 0)
UNWANTED = (None, 0)


def _again(cls: type[Function], node: FunctionNode) -> FunctionNode:
    """Return another node, of `cls`, with the same contents."""
    made = cls._backward_cls()
    made.__dict__.update(node.__dict__)
    return made


def _rebuild(cls: type[Function], packed: dict[str, Any]) -> FunctionNode:
    node = cls._backward_cls()
    refused = packed["refused"]
    node.keep_slots([unpack_slot(cls, slot) for slot in packed["saved"]])
    if refused:
        node._saved = Refused(refused)
    if packed["notes"] is not None:
        node._notes = unpack_attribute(packed["notes"])
    for name, value in packed["attributes"].items():
        setattr(node, name, unpack_attribute(value))
    node._references = {name: tuple(ref) for name, ref in packed["references"].items()}
    node.needs_input_grad = tuple(packed["needs"])
    node.materialize_grads, node._materialize_non_diff_grads = packed["materialize"]
    node._barren = frozenset(packed["barren"])
    node._inputs = [unpack_meta(meta) for meta in packed["inputs"]]
    node._metas = [unpack_meta(meta) for meta in packed["outputs"]]
    node._edges = [
        None if m is None else WANTED if w else UNWANTED for m, w in zip(node._inputs, packed["wanted"], strict=True)
    ]
    node._pre_hooks, node._post_hooks = [unpack_hooks(hooks) for hooks in packed["hooks"]]
    inputs, outputs = packed["places"]
    if inputs is not None:
        node._input_places = [None if place is None else named(place) for place in inputs]
    if outputs is not None:
        node._places = [named(place) for place in outputs]
    return node


def _find_parts(value: Any, found: list[Any]) -> None:
    """Append the parts of plain data that hold memory, once per occurrence."""
    if isinstance(value, Tensor):
        value = value._data
    if isinstance(value, np.ndarray | Resident | Blob) or is_elsewhere(value):
        found.append(value)
    elif isinstance(value, dict):
        for one in cast("dict[Any, Any]", value).values():
            _find_parts(one, found)
    elif isinstance(value, list | tuple):
        for one in cast("Sequence[Any]", value):
            _find_parts(one, found)


def _size_of(part: Any) -> int:
    return len(part.data) if isinstance(part, Blob) else part.nbytes
