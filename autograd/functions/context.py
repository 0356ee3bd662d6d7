"""The context `ctx` of a Function, which is also its node in the backward graph: saved tensors, attributes, flags.

`function` makes it and runs forward with it; saved tensors are kept in the slots of `saved`. Names without an
underscore belong to users' attributes, so the engine's own attributes start with one.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

from raygrad.errors import AutogradError

from ..core.modes import state
from ..core.recorder import Data, Recorder
from ..devices import Device
from ..devices.serving import CPU
from ..nodes.accumulator import describe_saved_value, leads_to_producer
from ..nodes.node import FREED, NO_EDGE, Edge, Node
from ..registry.vjp_rules import Meta
from ..saved.saved_slots import (
    INPUT,
    OUTPUT,
    PACKED,
    TAKEN,
    VALUE,
    ReadOnceSlots,
    SavedSlot,
    UnreadableSlots,
    origin_of,
    replayed_slot,
)
from ..saved.saved_tensors import raw_saved_tensors
from ..storage.version_counter import exchanged, stale_message, was_changed
from ..tensor.tangent_levels import carries_tangent
from ..tensor.tensor import Tensor
from ..vmap.batched_backward import backward_batched
from .double_backward import run_packed
from .function_class_api import FunctionMembers
from .user_backward import backward_on_arrays, densified, for_user_code, run_backward

if TYPE_CHECKING:
    from ..core.random_streams import Path
    from .function import Function
    from .function_traits import FunctionTraits


class FunctionNode(FunctionMembers, Node):
    """The node of one application of a Function, and the context given to forward and backward.

    Attributes:
        needs_input_grad: per argument, whether it requires grad.
        to_save, saved_for_forward, dirty_tensors, non_differentiable: the arguments of `save_for_backward`,
            `save_for_forward`, `mark_dirty` and `mark_non_differentiable` while forward runs; None without a call.
        materialize_grads: whether undefined gradients reach backward as zeros.
    """

    _function: type[Function]
    _traits: FunctionTraits
    needs_input_grad: tuple[bool, ...] = ()
    to_save: tuple[Any, ...] | None = None
    saved_for_forward: tuple[Any, ...] | None = None
    dirty_tensors: tuple[Any, ...] | None = None
    non_differentiable: tuple[Any, ...] | None = None
    materialize_grads: bool = True
    _materialize_non_diff_grads: bool = True
    _barren: frozenset[int] = frozenset()
    """The outputs marked as non-differentiable."""
    _ends: dict[int, weakref.ref[Tensor]] | None = None
    """These outputs as apply returned them: a saved one may be made to require grad later."""
    _kept: tuple[Tensor, ...] | None = None
    """The saved tensors on the fast path: the first arguments, unchanged and without slots."""
    _slots: Sequence[SavedSlot | None] | None = ()
    """The saved tensors otherwise: () while forward runs and without recording, None once they are freed."""
    _output_tangents: Sequence[Any] | None = None
    """Per output, its tangents as apply returned them."""
    _of_part: bool = False
    """Whether it changed a view in place: as a part of the base's history, it does not run without a gradient."""
    _suffix: str = "Backward"
    _inputs: Sequence[Meta | None] = ()
    _input_places: Sequence[Device | None] | None = None
    """Per argument, the device of a tensor; None if all are on the host."""
    _places: Sequence[Device] | None = None
    """Per output, its device; None if all are on the host."""
    _given: dict[int, Tensor] | None = None
    """On a worker, arguments that forward's containers or ctx hold as well, by position: backward gets these very
    tensors."""
    _lent: dict[int, Tensor] | None = None
    """On a worker, the client's leaves inside of objects passed to forward, by number: backward may add to their
    `.grad`."""
    _copied: tuple[str, ...] = ()
    """On a worker, the attributes of ctx that are copies of arguments, whose changes the caller would not see."""
    _path: Path | None = None
    """The path of the application, by which its code draws random numbers."""
    _references: dict[str, tuple[str, int]] | None = None
    """Attributes of ctx that are an input or an output of the Function: (INPUT or OUTPUT, position)."""

    def name(self) -> str:
        """Return `<Function name>Backward`."""
        return self._function.__name__ + self._suffix

    def _device(self, number: int) -> Device:
        return CPU if self._places is None else self._places[number]

    # ---- what users call in forward and setup_context ----------------------------------------------------------------

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for backward; a second call replaces the first.

        Raises:
            TypeError: an argument is neither a tensor nor None; set other things as attributes of ctx.
        """
        for tensor in tensors:
            if type(tensor) is Tensor or tensor is None or isinstance(tensor, Tensor):
                continue
            if self._edges:  # unrecorded: discarded anyway
                index = [t is tensor for t in tensors].index(True)
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {index} is of type "
                    f"{type(tensor).__name__}; keep other things as attributes: ctx.name = value"
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for jvp; a second call replaces the first (CX-22).

        Raises:
            AssertionError: an argument is neither a tensor nor None.
        """
        for tensor in tensors:
            assert tensor is None or isinstance(tensor, Tensor), (
                f"save_for_forward expects tensors or None, got {type(tensor).__name__}; keep other things as "
                "attributes: ctx.name = value"
            )
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Declare inputs that forward changed in place; each must be returned (OU-16 to OU-22).

        Raises:
            RuntimeError: an argument is not a tensor.
        """
        self.dirty_tensors = _only_tensors("mark_dirty can only accept", tensors)

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Declare outputs that have no derivative: they do not require grad.

        Raises:
            RuntimeError: an argument is not a tensor.
        """
        self.non_differentiable = _only_tensors("mark_non_differentiable only accepts variable arguments:", outputs)

    def maybe_clear_saved_tensors(self) -> None:
        """Release the saved tensors, in a backward, unless the pass retains them for another one (CX-24)."""
        task = state.here.task
        if task is not None and not task.retain:
            self._saved = None

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Do nothing: aliases are detected without it (CX-23)."""
        warnings.warn(
            "mark_shared_storage is deprecated and does nothing: tensors that share memory are found out by themselves",
            FutureWarning,
            stacklevel=2,
        )

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether undefined gradients reach backward as zeros (the default) or as None.

        Raises:
            TypeError: `value` is not a bool.
        """
        if not isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"set_materialize_grads expects a bool, got {type(value).__name__}")
        self.materialize_grads = value

    @property
    def requires_grad(self) -> bool:
        """Whether the application is recorded for backward."""
        return bool(self._edges)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors, in order.

        Raises:
            RuntimeError: freed by an earlier backward (CX-10), or changed in place since (CX-13).
        """
        kept = self._kept
        if kept is not None:
            position = 0
            for tensor in kept:
                counter = tensor._counter
                if counter is not None and counter[0]:
                    break  # it was changed in place
                if not tensor._requires_grad and self._lost_history(tensor, position):
                    break  # it was detached
                position += 1
            else:
                return kept
        slots = self._saved
        if slots is None:
            raise AutogradError(FREED)
        saved: list[Any] = []
        for slot in slots:
            if slot is None:
                saved.append(None)
                continue
            tensor = slot[2]
            if slot[0] is not INPUT or slot[3][0] != slot[4] or (tensor.grad_fn is None and self._was_detached(slot)):
                tensor = self._unpack(slot)
            saved.append(tensor)
        if type(slots) is not list and slots and self._function._traits.read_once:
            self.give_up_saved()
        return tuple(saved)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The old name of `saved_tensors` (CX-19)."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    def apply(self, *grads: Any) -> Any:
        """Run the user's backward on gradients of the outputs and return what it returns (ND-08)."""
        traits = self._function._traits
        return traits.backward(self, list(grads)) if traits.boxed else traits.backward(self, *grads)

    # ---- the node ----------------------------------------------------------------------------------------------------

    @property
    def _saved(self) -> Sequence[SavedSlot | None] | None:
        """The saved tensors, in slots."""
        kept = self._kept
        if kept is not None:
            slots: list[SavedSlot | None] = [
                SavedSlot(INPUT, i, held, held.counter(), 0) for i, held in enumerate(kept)
            ]
            self._kept, self._slots = None, slots
        return self._slots

    @_saved.setter
    def _saved(self, slots: Sequence[SavedSlot | None] | None) -> None:
        self._kept, self._slots = None, slots

    def _was_detached(self, slot: SavedSlot) -> bool:
        """Tell whether a saved input lost its history by an in-place detach (CX-32)."""
        return self._lost_history(slot.value, slot.position)

    def _lost_history(self, tensor: Tensor, position: int) -> bool:
        if tensor._requires_grad or tensor.grad_fn is not None:
            return False
        return leads_to_producer(self._edges[position] if position < len(self._edges) else None)

    def _detached_message(self, position: int) -> str:
        return (
            f"input {position} of {self._title()} was detached in place after it was saved: its gradient would be "
            "lost silently. Use the out-of-place detach() instead"
        )

    def _unpack(self, slot: SavedSlot) -> Tensor:
        kind, position, tensor, counter, version = slot
        if kind is PACKED:
            unpacked: Tensor = tensor[1].tensor(self._edge_of(tensor[0], position))
            if tensor[0] is OUTPUT and self._output_tangents is not None:
                unpacked._tangents = self._output_tangents[position]
            return unpacked
        if was_changed(counter, version):
            made_by: Edge = (self, position) if kind is OUTPUT else (tensor.grad_fn, tensor.output_nr)
            what = describe_saved_value(tensor, made_by, self)
            raise AutogradError(stale_message(what, counter[0], version))
        if kind is INPUT and self._was_detached(slot):
            raise AutogradError(self._detached_message(position))
        if kind is not OUTPUT:
            return tensor
        made = self._output(position, self._output_now(position, counter, tensor))
        if self._output_tangents is not None:
            made._tangents = self._output_tangents[position]
        return made

    def _edge_of(self, kind: str, position: int) -> Edge | None:
        """Return the edge along which the gradient of a saved value flows."""
        return self._edges[position] if kind is INPUT else (self, position) if kind is OUTPUT else None

    def unpacked_slots(self) -> Sequence[SavedSlot | None] | None:
        """Return the slots of saved tensors, with those packed by saved-tensor hooks unpacked."""
        slots = self._saved
        if not slots or not self.readable or not any(slot is not None and slot[0] is PACKED for slot in slots):
            return slots
        plain: list[SavedSlot | None] = []
        for slot in slots:
            if slot is not None and slot.kind is PACKED:
                kind, made = slot.value[0], self._unpack(slot)
                slot = SavedSlot(
                    kind, slot.position, made._data if kind is OUTPUT else made, made.counter(), made._version
                )
            plain.append(slot)
        return plain

    def check_saved(self) -> None:
        """Check what was saved without reading it; that a pass has released it is said where it is read.

        Raises:
            RuntimeError: something saved was changed or detached in place since.
        """
        for slot in (self._saved or ()) if self.readable else ():
            if slot is not None and slot[0] is not PACKED:
                self._unpack(slot)

    def give_up_saved(self) -> None:
        """Forget what was saved: of this Function it can be read once (CX-25)."""
        self._saved = TAKEN

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        """A handle for each saved slot, on which saved-tensor hooks can be set (CX-29)."""
        return raw_saved_tensors(self)

    def _output_now(self, position: int, counter: list[int], data: Data) -> Data:
        """Return the current data of a saved output; of one without derivative, the data that replaced it (CX-14)."""
        flows = position not in self._barren and data.dtype.kind in "fc"
        return exchanged(counter, data, (self, position) if flows else NO_EDGE, output=flows)

    def note_end(self, position: int, tensor: Tensor) -> None:
        """Note the tensor that apply returned for an output without derivative."""
        if self._ends is None:
            self._ends = {}
        self._ends[position] = weakref.ref(tensor)

    def _output(self, position: int, data: Data) -> Tensor:
        """Return a saved output as a tensor with this node as its producer."""
        if position in self._barren or data.dtype.kind not in "fc":
            known = None if self._ends is None else self._ends.get(position)
            end = None if known is None else known()
            return end if end is not None and end._requires_grad and end.grad_fn is None else Tensor.made(data)
        return Tensor.made(data, self, position)

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if recorder is not None and not create_graph:
            return recorder.function_vjp(self, grads)
        if not create_graph and self._needed is None:
            return backward_on_arrays(self, grads)
        static, needed = self.needs_input_grad, self._needed
        if needed is None or static != tuple([edge is not None and edge[0] is not None for edge in self._edges]):
            return self._run_here(grads, create_graph)  # every gradient is needed, or the user said which (CX-18)
        self.needs_input_grad = narrowed = tuple(needed)
        try:
            return self._run_here(grads, create_graph)
        finally:
            if self.needs_input_grad is narrowed:
                self.needs_input_grad = static

    def _run_backward(self, grads: Sequence[Tensor | None], create_graph: bool) -> list[Tensor | None]:
        return run_backward(self, grads, create_graph)

    def _run_on_arrays(self, grads: list[Data | None]) -> Sequence[Data | None]:
        return backward_on_arrays(self, grads)

    def _run_here(self, grads: list[Data | None], create_graph: bool) -> Sequence[Data | None]:
        if not create_graph:
            return [
                None if g is None else g._data for g in run_backward(self, [for_user_code(g) for g in grads], False)
            ]
        dense_grads = [None if g is None else densified(g) for g in grads]
        if not self.readable:  # reading it will say so
            return run_backward(self, dense_grads, True)
        packed = self._saved
        self._saved = plain = self.unpacked_slots()
        try:
            return self._run_on_tape(grads, dense_grads)
        finally:
            if self._saved is plain:
                self._saved = packed

    def _run_on_tape(self, grads: Sequence[Any], dense_grads: list[Tensor | None]) -> Sequence[Data | None]:
        self.check_saved()
        if state.here.batches:  # no local tape: its leaves would lose the history that values have outside of vmap
            return backward_batched(self, dense_grads, state.here.grad)
        if not state.here.grad or self._any_carried(grads):
            return run_backward(self, dense_grads, state.here.grad)
        return run_packed(self, dense_grads, lambda node, leaves: run_backward(node, leaves, True))

    def _any_carried(self, grads: Sequence[Any]) -> bool:
        """Tell whether a gradient or a saved value carries a tangent; a local tape, which would lose it, is not used
        then."""
        if not state.here.forward:
            return False
        saved = [self._unpack(slot) for slot in self._saved or () if slot is not None]
        return any(carries_tangent(tensor) for tensor in (*grads, *saved) if tensor is not None)

    def _release(self) -> None:
        self._kept = self._slots = None

    def _holds(self) -> bool:
        return bool(self._kept or self._slots)

    def _input_metas(self) -> Sequence[Meta | None]:
        return self._inputs

    @property
    def readable(self) -> bool:
        """Whether the saved tensors may still be read."""
        return self._kept is not None or (self._slots is not None and type(self._slots) is not UnreadableSlots)

    def freed(self, instead: Sequence[SavedSlot | None] | None = None) -> FunctionNode:
        """Return a copy whose saved tensors are gone, as after a backward that did not retain them, or others."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._saved = instead
        return copy

    def _attributes(self) -> dict[str, Any]:
        """Return the attributes that the user set on ctx."""
        return {name: value for name, value in self.__dict__.items() if name not in CONTEXT_ATTRIBUTES}

    def references(self) -> dict[str, tuple[str, int]]:
        """Return which attributes are an input or an output of the Function. Right after forward they are known by
        identity, later by their place in the graph."""
        if self._references is None:
            references: dict[str, tuple[str, int]] = {}
            for name, value in self._attributes().items():
                if isinstance(value, Tensor) and value._requires_grad:
                    edge = value.edge()
                    for position, known in enumerate(self._edges):
                        if known == edge:
                            references[name] = (INPUT, position)
            self._references = references
        return self._references

    def keep_slots(self, slots: list[SavedSlot | None]) -> None:
        """Keep the slots of saved tensors, for as many reads as the Function allows."""
        self._saved = ReadOnceSlots(slots) if slots and self._function._traits.read_once else slots

    def replay(self, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor | None]) -> FunctionNode:
        """Return a copy of this context in which saved inputs and outputs, also those in attributes, are the given
        tensors: the context with which a worker runs backward (H7)."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        given = {INPUT: inputs, OUTPUT: outputs}
        if self.readable:
            copy.keep_slots([slot if slot is None else replayed_slot(slot, given) for slot in self._saved or ()])
        for name, (kind, position) in self.references().items():
            if given[kind][position] is not None:
                setattr(copy, name, given[kind][position])
        return copy


def _only_tensors(complaint: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    for value in values:
        if not isinstance(value, Tensor):
            raise AutogradError(f"{complaint} variables, but got {type(value).__name__}")
    return values


CONTEXT_ATTRIBUTES = frozenset(
    "needs_input_grad to_save saved_for_forward dirty_tensors non_differentiable materialize_grads "
    "_materialize_non_diff_grads _barren _ends _output_tangents _saved _kept _slots _inputs _input_places _places "
    "_given _lent _copied _path _references _edges _metas _sequence _suffix _of_part _pre_hooks _post_hooks "
    "_tensor_hooks _retained _notes _needed _hooked _applied_in _applied_at".split()
)
"""Names of the context's own attributes, as opposed to the user's."""

SAVED_ATTRIBUTES = frozenset({"_kept", "_slots"})
"""The attributes among them that hold the saved tensors."""


def name_as_generated(node: FunctionNode) -> None:
    """Name a node as PyTorch does inside of a transform (FT-08)."""
    node._suffix = "GeneratedBackward"


def note_references(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
    """Note which attributes of ctx are an input or an output; backward sees these in their place, wherever it runs."""
    if node.__dict__.keys() <= CONTEXT_ATTRIBUTES:  # none are the user's: nearly always
        return
    references: dict[str, tuple[str, int]] = {}
    given: dict[int, Tensor] = {}
    for name, value in node.__dict__.items():
        if name in CONTEXT_ATTRIBUTES:
            continue
        if isinstance(value, Tensor):
            kind, position = origin_of(value, args, outputs, node.dirty_tensors)
            if kind is not VALUE:
                references[name] = (kind, position)
        elif isinstance(value, list | tuple | dict | set):
            _note_given(cast("Collection[Any]", value), args, given)
    if references:
        node._references = references
    if given:
        node._given = given


def _note_given(held: Collection[Any], args: tuple[Any, ...], given: dict[int, Tensor]) -> None:
    """Note which arguments a container, or a container in it, holds."""
    seen: set[int] = set()
    stack: list[Any] = [held]
    while stack:
        one = stack.pop()
        if isinstance(one, Tensor):
            given.update({position: one for position, arg in enumerate(args) if arg is one})
        elif isinstance(one, list | tuple | dict | set) and id(one) not in seen:  # pyright: ignore[reportUnknownArgumentType]
            seen.add(id(one))  # pyright: ignore[reportUnknownArgumentType]
            stack.extend(one.values() if isinstance(one, dict) else one)  # pyright: ignore[reportUnknownArgumentType]
