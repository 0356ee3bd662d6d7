"""The node of a user's Function, which is also the `ctx` that forward and backward are given (SEMANTICS CX).

Rules of this file: what a context keeps and gives back. Making and running one is `function`'s. Names that users may
set as attributes are theirs: what belongs to the engine starts with an underscore.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from raygrad.errors import AutogradError

from .derive import Meta
from .layout import dense
from .levels import carried
from .members import MembersOfFunction
from .modes import state
from .node import FREED, Edge, Node, stale_message, stale_value
from .packed import run_packed
from .recording import Data, Recorder
from .tensor import Tensor
from .user_backward import densified, run_backward

if TYPE_CHECKING:
    from .function import Function

INPUT, OUTPUT, VALUE = "input", "output", "value"


class Saved(NamedTuple):
    """One saved slot: an input or output of the Function by position, or a value of its own."""

    kind: str
    position: int
    value: Any
    """The tensor; for an output its data (holding the tensor would make a reference cycle)."""
    counter: list[int] | None
    version: int


class FunctionNode(MembersOfFunction, Node):
    """The node of one application of a Function, and the context given to forward and backward.

    Attributes:
        needs_input_grad: per argument, whether it requires grad.
    """

    _function: type[Function]
    needs_input_grad: tuple[bool, ...] = ()
    to_save: tuple[Any, ...] | None = None
    non_differentiable: tuple[Any, ...] | None = None
    materialize_grads: bool = True
    saved_for_forward: tuple[Any, ...] | None = None
    dirty_tensors: tuple[Any, ...] | None = None
    _shown: tuple[Any, ...] = ()
    """What `saved_tensors` is while forward or jvp runs."""
    _output_tangents: Sequence[Any] | None = None
    _saved: list[Saved | None] | None = None
    _running_forward: bool = True
    _inputs: Sequence[Meta | None] = ()
    _references: dict[str, tuple[str, int]] | None = None
    """Attributes of ctx that are an input or an output of the Function: (INPUT or OUTPUT, position)."""

    def name(self) -> str:
        """Return `<Function name>Backward`."""
        return self._function.__name__ + "Backward"

    # ---- what users call in forward and setup_context -------------------------------------------------------------

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for backward; a second call replaces the first.

        Raises:
            TypeError: an argument is neither a tensor nor None; set other things as attributes of ctx.
        """
        for index, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Tensor) and self._edges:  # unrecorded: discarded anyway
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {index} is of type "
                    f"{type(tensor).__name__}; keep other things as attributes: ctx.name = value"
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for jvp, where `saved_tensors` shows them.

        Raises:
            AssertionError: an argument is neither a tensor nor None.
        """
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes "
                    f"on ctx (got {type(tensor).__name__})"
                )
        self.saved_for_forward = tensors

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Declare outputs that have no derivative: they do not require grad.

        Raises:
            RuntimeError: an argument is not a tensor.
        """
        for output in outputs:
            if not isinstance(output, Tensor):
                raise AutogradError(
                    f"mark_non_differentiable only accepts variable arguments, but got {type(output).__name__}"
                )
        self.non_differentiable = outputs

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether undefined gradients reach backward as zeros (the default) or as None.

        Raises:
            TypeError: `value` is not a bool.
        """
        if not isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"set_materialize_grads expects a bool, got {type(value).__name__}")
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What forward saved, in order.

        Raises:
            RuntimeError: freed by an earlier backward (CX-10), or changed in place since (CX-13).
        """
        if self._running_forward:
            return self._shown
        if self._saved is None:
            raise AutogradError(FREED)
        saved: list[Any] = []
        for slot in self._saved:
            saved.append(None if slot is None else self._unpack(slot))
        return tuple(saved)

    # ---- the node -------------------------------------------------------------------------------------------------

    def _unpack(self, slot: Saved) -> Tensor:
        kind, position, tensor, counter, version = slot
        if counter is not None and counter[0] != version:
            made_by: Edge = (self, position) if kind is OUTPUT else (tensor.grad_fn, tensor.output_nr)
            what = stale_value(tensor, made_by, self)
            raise AutogradError(stale_message(what, counter[0], version))
        if kind is not OUTPUT:
            return tensor
        made = Tensor.made(tensor, self, position)
        if self._output_tangents is not None:
            made._tangents = self._output_tangents[position]
        return made

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if recorder is not None and not create_graph:
            return recorder.function_vjp(self, grads)
        static, needed = self.needs_input_grad, self._needed
        if needed is None or static != tuple([edge is not None and edge[0] is not None for edge in self._edges]):
            return self._run_here(grads, create_graph)  # every gradient is needed, or the user said which (CX-18)
        self.needs_input_grad = narrowed = tuple(needed)
        try:
            return self._run_here(grads, create_graph)
        finally:
            if self.needs_input_grad is narrowed:
                self.needs_input_grad = static

    def _run_here(self, grads: list[Data | None], create_graph: bool) -> Sequence[Data | None]:
        if create_graph:
            if self._saved is None:  # freed: reading it will say so
                return run_backward(self, [None if g is None else densified(g) for g in grads], True)
            for slot in self._saved:
                if slot is not None:
                    self._unpack(slot)  # raises when something saved was changed in place
            dense_grads = [None if g is None else densified(g) for g in grads]
            if not state.grad or self._any_carried(grads):
                return run_backward(self, dense_grads, state.grad)
            return run_packed(self, dense_grads, lambda node, leaves: run_backward(node, leaves, True))
        wrapped: list[Tensor | None] = []
        for grad in grads:
            wrapped.append(None if grad is None else Tensor.made(grad if grad.flags.c_contiguous else dense(grad)))
        return [None if g is None else g._data for g in run_backward(self, wrapped, False)]

    def _any_carried(self, grads: Sequence[Any]) -> bool:
        """Tell whether a gradient or a saved value carries a tangent: then there is no local tape, which has none."""
        if not state.forward:
            return False
        saved = [self._unpack(slot) for slot in self._saved or () if slot is not None]
        return any(carried(tensor) for tensor in (*grads, *saved) if tensor is not None)

    def _release(self) -> None:
        self._saved = None

    def _input_metas(self) -> Sequence[Meta | None]:
        return self._inputs

    def freed(self) -> FunctionNode:
        """Return a copy whose saved tensors are gone, as after a backward that did not retain them."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._saved = None
        return copy

    def _attributes(self) -> dict[str, Any]:
        """Return the attributes that the user set on ctx."""
        return {name: value for name, value in self.__dict__.items() if name not in _OWN}

    def replay(self, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor | None]) -> FunctionNode:
        """Return a copy of this context in which saved inputs and outputs, also those kept as plain attributes, are
        the given tensors (H7): what a worker runs backward on."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        given = {INPUT: inputs, OUTPUT: outputs}
        if self._saved is not None:
            copy._saved = [
                slot
                if slot is None or slot.kind is VALUE
                else Saved(VALUE, -1, given[slot.kind][slot.position], None, 0)
                for slot in self._saved
            ]
        for name, (kind, position) in (self._references or {}).items():
            if given[kind][position] is not None:
                setattr(copy, name, given[kind][position])
        return copy


_OWN = frozenset(
    "needs_input_grad to_save non_differentiable materialize_grads _saved _running_forward _inputs _references _edges "
    "_metas _shown _output_tangents saved_for_forward dirty_tensors _sequence _pre_hooks _post_hooks _tensor_hooks "
    "_retained _notes _needed".split()
)
"""What is no attribute of the user's."""


def keep(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
    """Sort what forward saved into inputs, outputs and values of its own; the last are tagged by what they are not."""
    metas: list[Meta | None] = []
    for output in outputs:
        metas.append((output._data.shape, output._data.dtype) if isinstance(output, Tensor) else None)
    node._metas = metas
    saved: list[Saved | None] = []
    for tensor in node.to_save or ():
        if tensor is None:
            saved.append(None)
            continue
        counter = tensor._version or tensor.counter()
        kind, position = _place(tensor, args, outputs)
        held: Any = tensor._data if kind is OUTPUT else tensor
        saved.append(Saved(kind, position, held, counter, counter[0]))
    node._saved = saved
    if _OWN.issuperset(node.__dict__):
        return  # no attribute of the user's: nearly always
    references: dict[str, tuple[str, int]] = {}
    for name, value in node.__dict__.items():
        if isinstance(value, Tensor) and name not in _OWN:
            kind, position = _place(value, args, outputs)
            if kind is not VALUE:
                references[name] = (kind, position)
    if references:
        node._references = references


def _place(tensor: Tensor, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[str, int]:
    for position, arg in enumerate(args):
        if arg is tensor:
            return INPUT, position
    for position, output in enumerate(outputs):
        if output is tensor:
            return OUTPUT, position
    return VALUE, -1
