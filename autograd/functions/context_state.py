"""The state of a context as plain data, extracted and restored, and queries on a context: devices, sizes, attributes.

Other rooms move contexts between processes, count their bytes and show them through these functions, so that none of
them reads a context's fields. How a state travels is decided in `workers.values`; contexts that run are in
`context_runs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from raygrad.errors import AutogradError

from ..core.hooks import HookDict
from ..devices import Device
from ..nodes.node import FREED, Edge
from ..registry.vjp_rules import Meta
from ..saved.saved_slots import INPUT, OUTPUT, PACKED, UNSHARED, VALUE, SavedSlot, UnreadableSlots
from ..tensor.tensor import Tensor
from .context import CONTEXT_ATTRIBUTES, FunctionNode
from .function import Function

_NONE: Final[dict[Any, Any]] = {}
"""Never written to."""


class _Wanted(FunctionNode):
    """Stands at the end of an edge whose gradient is wanted; never run."""


WANTED: Final = (_Wanted(), 0)
UNWANTED: Final = (None, 0)
"""The edges of a context whose graph is elsewhere."""


def wanted_edge(flag: int) -> Edge:
    """Return the edge of an argument whose gradient is wanted; `flag` is one more than which output it is."""
    return WANTED if flag == 1 else (WANTED[0], flag - 1)


class ContextState(NamedTuple):
    """A context taken apart.

    Attributes:
        saved: the slots; none if they must not be read.
        refused: why not, or nothing.
        attributes: what the user set on ctx, but for the `references`: those that are inputs or outputs.
        copied: the attributes that are copies of arguments, on a worker.
        notes: what is in `metadata`.
        materialize: whether undefined gradients become zeros, and those of outputs without derivative.
        barren: the outputs without derivative.
        wanted: per argument, 0 if its gradient is not, else one more than which output of its node it is.
        inputs, outputs: per argument and output (shape, dtype).
        input_places, places: their devices; None if all are on the host.
    """

    saved: Sequence[SavedSlot | None]
    refused: str
    pre_hooks: HookDict | None
    post_hooks: HookDict | None
    attributes: dict[str, Any]
    copied: tuple[str, ...]
    notes: dict[Any, Any] | None
    references: dict[str, tuple[str, int]]
    needs_input_grad: tuple[bool, ...]
    materialize: tuple[bool, bool]
    barren: frozenset[int]
    wanted: tuple[int, ...]
    inputs: Sequence[Meta | None]
    outputs: Sequence[Meta | None]
    input_places: Sequence[Device | None] | None
    places: Sequence[Device] | None


def state_of(node: FunctionNode) -> ContextState:
    """Return what a context consists of."""
    references = node.references()
    saved: Any = node._saved
    return ContextState(
        saved=saved if node.readable else (),
        refused=saved.message if type(saved) is UnreadableSlots else "" if node.readable else FREED,
        pre_hooks=node._pre_hooks,
        post_hooks=node._post_hooks,
        attributes={
            name: one for name, one in vars(node).items() if name not in CONTEXT_ATTRIBUTES and name not in references
        },
        copied=node._copied,
        notes=node._notes or None,
        references=dict(references),
        needs_input_grad=node.needs_input_grad,
        materialize=(node.materialize_grads, node._materialize_non_diff_grads),
        barren=node._barren,
        wanted=tuple([0 if edge is None or edge[0] is None else 1 + edge[1] for edge in node._edges]),
        inputs=node._inputs,
        outputs=node._metas,
        input_places=node._input_places,
        places=node._places,
    )


def of_state(cls: type[Function], state: ContextState) -> FunctionNode:
    """Return a context of `cls` that consists of this."""
    node = cls._backward_cls()
    node.keep_slots(list(state.saved))
    if state.refused:
        node._saved = UnreadableSlots(state.refused)
    if state.notes is not None:
        node._notes = state.notes
    for name, value in state.attributes.items():
        setattr(node, name, value)
    if state.copied:
        node._copied = state.copied
    node._references = state.references
    node.needs_input_grad = state.needs_input_grad
    node.materialize_grads, node._materialize_non_diff_grads = state.materialize
    node._barren = state.barren
    node._inputs, node._metas = state.inputs, state.outputs
    node._edges = [
        None if meta is None else wanted_edge(wanted) if wanted else UNWANTED
        for meta, wanted in zip(state.inputs, state.wanted, strict=True)
    ]
    node._pre_hooks, node._post_hooks = state.pre_hooks, state.post_hooks
    if state.input_places is not None:
        node._input_places = state.input_places
    if state.places is not None:
        node._places = state.places
    return node


def copy_for(cls: type[Function], node: FunctionNode) -> FunctionNode:
    """Return another context, of `cls`, that holds the same. What hooks have packed, those of `cls` unpack."""
    made = cls._backward_cls()
    made.__dict__.update(node.__dict__)
    hooks: Any = getattr(cls, "_applied_under", None)
    if hooks is not None and node.readable:
        made.keep_slots([_unpacked_by(hooks[1], slot) for slot in node._saved or ()])
    return made


def _unpacked_by(unpack: Any, slot: SavedSlot | None) -> SavedSlot | None:
    if slot is None or slot.kind != PACKED:
        return slot
    what, packed = slot.value
    return slot._replace(value=(what, packed.unpacked_by(unpack)))


def state_without_data(node: FunctionNode) -> tuple[Any, ...] | None:
    """Return what the state of a context is made from that holds no data of its own: two with equal ones are equal.
    None if it holds some: a value, an attribute, a note, a hook."""
    saved: Any = node._saved
    if type(saved) not in (list, tuple) or node._references != {} or node._notes:
        return None
    if node._pre_hooks is not None or node._post_hooks is not None:
        return None
    for name in node.__dict__:
        if name not in CONTEXT_ATTRIBUTES:
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


# ---- what a context holds --------------------------------------------------------------------------------------------


def held_values(node: FunctionNode) -> list[Any]:
    """Return what a context holds by itself: values that it saved, what hooks have packed of others, attributes."""
    found: list[Any] = []
    if node.readable:
        for slot in node._saved or ():
            if slot is None or (slot.position >= 0 and slot.kind is not PACKED):
                continue  # nearly always: an input or an output, which is a value of its own
            if slot.kind is VALUE:
                found.append(slot.value._data)
            elif slot.kind is PACKED and not slot.checked:
                found.append(slot.value[1].content[1])
    references = node._references or ()
    found.extend([v for name, v in node.__dict__.items() if name not in CONTEXT_ATTRIBUTES and name not in references])
    return found


def user_attributes(node: FunctionNode) -> dict[str, Any]:
    """Return the attributes that the user set on ctx."""
    return node._attributes()


def has_notes(node: FunctionNode) -> bool:
    """Tell whether there is anything in its `metadata`."""
    return bool(node._notes)


def objects_beside_tensors(node: FunctionNode) -> list[Any] | None:
    """Return what user code has made and a context holds: attributes, and what saved-tensor hooks have packed; None if
    it has notes or hooks, which may hold anything."""
    if node._notes or node._pre_hooks or node._post_hooks:
        return None
    saved: Any = node._saved if node.readable else ()
    packed = [slot.value[1].content[1] for slot in saved or () if slot is not None and slot.kind is PACKED]
    return [*node._attributes().values(), *packed]


def is_bare(node: FunctionNode) -> bool:
    """Tell whether a context holds nothing but references to arguments and outputs."""
    if node._notes or not node._attributes().keys() <= node.references().keys():
        return False
    slots: Any = node._saved if node.readable else ()
    return all([slot is None or slot.kind is INPUT or slot.kind is OUTPUT for slot in slots or ()])


def devices_of(node: FunctionNode) -> list[Device]:
    """Return the devices of arguments and outputs that are tensors; none if all are on the host."""
    return [place for place in (*(node._input_places or ()), *(node._places or ())) if place is not None]


def bound_tensors(node: FunctionNode) -> tuple[Mapping[int, Tensor], Mapping[int, Tensor]]:
    """Return the tensors that backward has to meet as they are in what a context holds: arguments, by position, and
    leaves that were lent, by number."""
    return (node._given or _NONE, node._lent or _NONE)


def bind_arguments(node: FunctionNode, tensors: Mapping[int, Tensor]) -> None:
    """Have backward meet these arguments, by position, as they are: what forward was given holds them, too."""
    node._given = {**(node._given or {}), **tensors}


def bind_lent_leaves(node: FunctionNode, leaves: dict[int, Tensor]) -> None:
    """Have backward meet these leaves of the client's, by number, as they are."""
    node._lent = leaves


def copied_arguments(node: FunctionNode) -> dict[str, Any]:
    """Return the attributes of ctx that are copies of arguments which forward was given."""
    names = node._copied
    return {name: vars(node)[name] for name in names if name in vars(node)} if names else _NONE


def note_copied_arguments(node: FunctionNode, names: tuple[str, ...]) -> None:
    """Note which attributes of ctx are copies of arguments."""
    node._copied = names


def place_on(node: FunctionNode, inputs: Sequence[Device | None], outputs: Sequence[Device]) -> None:
    """Note the devices of arguments and outputs of a Function that ran on others than the host."""
    node._input_places, node._places = inputs, outputs


def release_large(node: FunctionNode, limit: int) -> bool:
    """Hold arguments and outputs by reference only if one of them has `limit` bytes or more: others hold these. Tell
    whether there was one."""
    if not node.readable:
        return False
    large = False
    for tensor in node._kept or ():
        large = large or tensor._data.nbytes >= limit
    if node._kept is None:
        for slot in node._saved or ():
            if slot is not None and (slot[0] is INPUT or slot[0] is OUTPUT):
                value = slot[2]
                large = large or (value._data if slot[0] is INPUT else value).nbytes >= limit
    if not large:
        return False
    node.keep_slots(
        [
            slot
            if slot is None or (slot.kind is not INPUT and slot.kind is not OUTPUT)
            else SavedSlot(slot.kind, slot.position, None, UNSHARED, 0)
            for slot in node._saved or ()
        ]
    )
    for name in node._references or ():
        node.__dict__.pop(name, None)
    return True


# ---- what the client shows of a context that came home ---------------------------------------------------------------


def saved_slots(node: FunctionNode) -> Sequence[SavedSlot | None]:
    """Return what was saved; nothing where it was freed.

    Raises:
        AutogradError: it must not be read.
    """
    saved = node._saved
    if type(saved) is UnreadableSlots:
        raise AutogradError(saved.message)
    return saved or ()


def noted_reference(node: FunctionNode, name: str) -> tuple[str, int] | None:
    """Return which input or output an attribute of ctx is known to be, None for others."""
    return (node._references or _NONE).get(name)
