"""Contexts between workers: a live node in its segment, plain data once it leaves the worker's process, rebuilt on use.

Steps hold contexts in slots; `packed_values` packs them. Saved inputs and outputs are slot references:
their arrays are values of their own and are never stored twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, cast

import numpy as np

from raygrad.autograd.core.recorder import ResidentMemory
from raygrad.autograd.devices.serving import device_named, is_device_array
from raygrad.autograd.functions.context_runs import copy_with_attributes
from raygrad.autograd.functions.context_state import (
    ContextState,
    bound_tensors,
    copy_for,
    devices_of,
    has_notes,
    held_values,
    objects_beside_tensors,
    of_state,
    release_large,
    state_of,
    state_without_data,
    user_attributes,
)
from raygrad.autograd.functions.function import Function, FunctionNode
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import NotShippable
from raygrad.proto.codec.values import Blob
from raygrad.proto.ir.specs import LIVE, STAYS

from ..code.nested_tensors import unboxed
from ..code.unpickling import functions_of
from .context_codec import (
    PLAIN,
    is_opaque,
    pack_attribute,
    pack_attributes,
    pack_hooks,
    pack_meta,
    pack_places,
    pack_slot,
    placed,
    unpack_attribute,
    unpack_attributes,
    unpack_hooks,
    unpack_meta,
    unpack_slot,
    unplaced,
)

LARGE: Final = 1 << 16
"""Arguments and outputs of this many bytes or more are held by reference only."""


class Context:
    """A context in a slot: live, or packed until a vjp reads it, or spilled until it is requested."""

    __slots__ = ("_away", "_live", "_packed", "_rebuilt", "recipe", "unbound", "unchanged", "uncopied")

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
        self.unbound = False
        """Whether it is known to hold no tensor that backward has to meet as it is; see `bound`."""
        self.uncopied = False
        """Whether it is known that no attribute of ctx is a copy of an argument."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that only this context keeps alive."""
        return sum([len(part.data) if isinstance(part, Blob) else part.nbytes for part in self.parts()])

    def parts(self) -> list[Any]:
        """Return the parts that only this context keeps alive: arrays, blobs, and objects with own memory
        (`ResidentMemory`)."""
        found: list[Any] = []
        live = self._live
        if live is None:
            if self._packed is not None:
                _find_parts(self._packed, found)
            return found
        for value in held_values(live):
            _find_parts(value, found)
        return found

    def hides(self, device: str = "") -> bool:
        """Tell whether it may hold uncounted memory on a device: its Function read or made tensors there, and set an
        opaque object as an attribute."""
        live = self._live
        if live is None:
            return False
        places = devices_of(live)
        if not places or (device and device not in map(str, places)):
            return False
        return any([is_opaque(value) for value in user_attributes(live).values()])

    def let_go_of_large(self) -> bool:
        """Replace large arguments and outputs, which are values of their own, by references: else they would live as
        long as this context, though no step reads them from it. Tell whether there are any."""
        live = self._live
        return live is not None and release_large(live, LARGE)

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
                live = copy_for(cls, rebuilt[0])
            else:
                live = _rebuild(cls, self._here())
                if rebuilt is not None:
                    rebuilt[:] = [live]
            self._live = live
            self._packed = self._rebuilt = self._away = None
        elif live._function is not cls:
            return copy_for(cls, live)
        return live

    def bound(self) -> tuple[Mapping[int, Tensor], Mapping[int, Tensor]]:
        """Return the tensors that backward has to meet as they are in what the context holds: arguments, by position,
        and leaves that were lent, by number. A context with such is not packed."""
        live = self._live
        return (_NONE, _NONE) if live is None or self.unbound else bound_tensors(live)

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
        state = state_of(node)
        return {
            "saved": () if state.refused else [pack_slot(node, slot, asked) for slot in state.saved],
            "refused": state.refused,
            "hooks": [pack_hooks(hooks) for hooks in (state.pre_hooks, state.post_hooks)],
            "attributes": pack_attributes(node, state.attributes, asked),
            "copied": state.copied,
            "notes": None if state.notes is None else pack_attribute(node, "metadata", state.notes, asked),
            "references": state.references,
            "needs": state.needs_input_grad,
            "materialize": state.materialize,
            "barren": tuple(sorted(state.barren)),
            "wanted": state.wanted,
            "inputs": tuple(map(pack_meta, state.inputs)),
            "outputs": tuple(map(pack_meta, state.outputs)),
            "places": (pack_places(state.input_places), pack_places(state.places)),
        }


_NONE: Final[dict[int, Tensor]] = {}
"""Never written to."""


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
        facts = state_without_data(node)
        if facts is None:
            return -1
        function = node._function
        place, before = self._first.get(function, (-1, ()))
        if before == facts:
            return place
        self._first[function] = (number, facts)
        return -1


def bound_to(node: FunctionNode) -> int:
    """Return 0 if a context can leave its worker (H10), STAYS if only for the disk there, LIVE if not even that."""
    if any(bound_tensors(node)):
        return LIVE  # a copy of what it holds would hold other tensors than its arguments
    if not devices_of(node):
        try:
            Context(node).packed()
        except NotShippable:
            pass
        else:
            return 0
    held = objects_beside_tensors(node)  # what it saved lies on a device, where its backward has to run
    return LIVE if held is None or any([is_opaque(value) for value in held]) else STAYS


# ---- what backward and the client change (DR-05) ---------------------------------------------------------------------


def with_attributes(node: FunctionNode, assigned: Sequence[tuple[str, int]], values: Sequence[Any]) -> FunctionNode:
    """Return a copy of a context with attributes that the client set: (name, 1 if the value is a tensor's array)."""
    values = [Tensor.made(value) if one[1] else unboxed(value) for one, value in zip(assigned, values, strict=True)]
    return copy_with_attributes(node, dict(zip([name for name, _ in assigned], values, strict=True)))


def attributes_of(node: FunctionNode) -> int:
    """Return what attributes the user set on a context: 0 none, 1 constants, 2 some that backward may write to."""
    attributes = user_attributes(node)
    if has_notes(node) or any([_may_be_written_to(value) for value in attributes.values()]):
        return WRITABLE
    return int(bool(attributes))


WRITABLE: Final = 2


_CONSTANT: Final = (*PLAIN, tuple, frozenset, np.dtype, np.ufunc, type, FunctionType, BuiltinFunctionType)


def _may_be_written_to(value: Any) -> bool:
    if isinstance(value, Tensor):
        value = value._data
    if isinstance(value, np.ndarray):
        return bool(value.flags.writeable)
    return not isinstance(value, _CONSTANT)


def _rebuild(cls: type[Function], packed: dict[str, Any]) -> FunctionNode:
    with functions_of(cls):
        return _unpacked(cls, packed)


def _unpacked(cls: type[Function], packed: dict[str, Any]) -> FunctionNode:
    pre_hooks, post_hooks = [unpack_hooks(hooks) for hooks in packed["hooks"]]
    inputs, outputs = packed["places"]
    return of_state(
        cls,
        ContextState(
            saved=[unpack_slot(cls, slot) for slot in packed["saved"]],
            refused=packed["refused"],
            pre_hooks=pre_hooks,
            post_hooks=post_hooks,
            attributes=unpack_attributes(packed["attributes"]),
            copied=tuple(packed["copied"]),
            notes=None if packed["notes"] is None else unpack_attribute(packed["notes"]),
            references={name: tuple(ref) for name, ref in packed["references"].items()},
            needs_input_grad=tuple(packed["needs"]),
            materialize=packed["materialize"],
            barren=frozenset(packed["barren"]),
            wanted=packed["wanted"],
            inputs=[unpack_meta(meta) for meta in packed["inputs"]],
            outputs=[unpack_meta(meta) for meta in packed["outputs"]],
            input_places=None
            if inputs is None
            else [None if place is None else device_named(place) for place in inputs],
            places=None if outputs is None else [device_named(place) for place in outputs],
        ),
    )


def _find_parts(value: Any, found: list[Any]) -> None:
    """Append the parts of plain data that hold memory, once per occurrence."""
    if isinstance(value, Tensor):
        value = value._data
    if isinstance(value, np.ndarray | ResidentMemory | Blob) or is_device_array(value):
        found.append(value)
    elif isinstance(value, dict):
        for one in cast("dict[Any, Any]", value).values():
            _find_parts(one, found)
    elif isinstance(value, list | tuple):
        for one in cast("Sequence[Any]", value):
            _find_parts(one, found)
