"""User-written Functions: the class that users subclass, and its node, which is also the `ctx` they are given.

Rules of this file: running forward, keeping what it saved, running backward, and the checks on both (SEMANTICS FN, CX,
OU, BW). It knows nothing of sessions but `Recorder`; workers use `run_forward`, `run_backward` and `FunctionNode.replay`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from raygrad.errors import AutogradError, MissingDerivative

from .derive import Meta, sum_to
from .layout import dense, is_plain
from .modes import state
from .node import FREED, NO_EDGE, Edge, Node, next_sequence, stale_message
from .recording import Data, Pending, Recorder
from .tensor import Tensor

INPUT, OUTPUT, VALUE = "input", "output", "value"


class Saved(NamedTuple):
    """One saved slot: an input or output of the Function by position, or a value of its own."""

    kind: str
    position: int
    value: Any
    """The tensor; for an output its data (holding the tensor would make a reference cycle)."""
    counter: list[int] | None
    version: int


class FunctionNode(Node):
    """The node of one application of a Function, and the context given to forward and backward.

    Attributes:
        needs_input_grad: per argument, whether it requires grad.
    """

    _function: type[Function]
    needs_input_grad: tuple[bool, ...] = ()
    to_save: tuple[Any, ...] | None = None
    non_differentiable: tuple[Any, ...] | None = None
    materialize_grads: bool = True
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
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {index} is of type {type(tensor).__name__}; "
                    "keep other things as attributes: ctx.name = value"
                )
        self.to_save = tensors

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """Declare outputs that have no derivative: they do not require grad.

        Raises:
            RuntimeError: an argument is not a tensor.
        """
        for output in outputs:
            if not isinstance(output, Tensor):
                raise AutogradError(f"mark_non_differentiable only accepts variable arguments, but got {type(output).__name__}")
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
            return ()
        if self._saved is None:
            raise AutogradError(FREED)
        return tuple([None if slot is None else self._unpack(slot, number) for number, slot in enumerate(self._saved)])

    # ---- the node -------------------------------------------------------------------------------------------------

    def _unpack(self, slot: Saved, number: int) -> Tensor:
        kind, position, tensor, counter, version = slot
        if counter is not None and counter[0] != version:
            what = f"saved tensor {number} of {self.name()} ({tensor.dtype}, shape {tuple(tensor.shape)})"
            raise AutogradError(stale_message(what, counter[0], version))
        return Tensor.made(tensor, self, position) if kind is OUTPUT else tensor

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if recorder is not None and not create_graph:
            return recorder.function_vjp(self, grads)
        if create_graph:
            return run_backward(self, grads, True)
        wrapped = [None if g is None else Tensor.made(g if g.flags.c_contiguous else dense(g)) for g in grads]
        return [None if g is None else g._data for g in run_backward(self, wrapped, False)]

    def _release(self) -> None:
        self._saved = None

    def _input_metas(self) -> Sequence[Meta | None]:
        return self._inputs

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
                slot if slot is None or slot.kind is VALUE else Saved(VALUE, -1, given[slot.kind][slot.position], None, 0)
                for slot in self._saved
            ]
        for name, (kind, position) in (self._references or {}).items():
            if given[kind][position] is not None:
                setattr(copy, name, given[kind][position])
        return copy


_OWN = frozenset(
    "needs_input_grad to_save non_differentiable materialize_grads _saved _running_forward _inputs _references _edges _metas "
    "_sequence _pre_hooks _post_hooks _tensor_hooks _retained _notes".split()
)


class FunctionMeta(type):
    """Gives each Function class its own node class, `<Name>Backward` (FN-20)."""

    _backward_cls: type[FunctionNode]

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._backward_cls = type(name + "Backward", (FunctionNode,), {"_function": cls, "__module__": cls.__module__})


class Function(metaclass=FunctionMeta):
    """The base of user-written differentiable operations.

    Subclasses give a static `forward`, with or without `setup_context`, and a static `backward` (or `vjp`, the same
    under its other name), and are used through `apply`. In a session, `infer(*specs)` may state the outputs' specs
    without running (H3).
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs: `forward(ctx, *args)`, or `forward(*args)` beside a `setup_context`."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what backward needs, when forward takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return one gradient (or None) per argument of forward, given one per output."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Apply the Function: run forward and, when a tensor argument requires grad, record it for backward.

        Raises:
            TypeError: arguments that do not fit forward's signature.
        """
        if kwargs or cls.setup_context is not Function.setup_context:
            args = bind(cls, args, kwargs)
        recorder = state.recorder
        recording = False
        for arg in args:
            if isinstance(arg, Tensor):
                if arg._requires_grad:
                    recording = True
                if recorder is None and type(arg._data) is Pending:
                    recorder = arg._data.record.recorder
        if recorder is not None:
            return recorder.function(cls, args)
        node, raw = run_forward(cls, args, recording and state.grad)
        return wrap_outputs(node, raw, args) if node._edges else _aliases(raw)


def bind(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return all arguments by position (FN-04, FN-05): keywords moved to their slots, in the separate style defaults
    filled in.

    Raises:
        TypeError: they do not fit forward's signature.
    """
    separate = cls.setup_context is not Function.setup_context
    signature = _signature(cls)
    bound = signature.bind(*args, **kwargs) if separate else signature.bind(None, *args, **kwargs)
    names = list(bound.arguments)
    if separate:
        bound.apply_defaults()
    elif kwargs:
        last = max((i for i, name in enumerate(signature.parameters) if name in names), default=0)
        for name in list(signature.parameters)[: last + 1]:  # skipped defaults before a given keyword
            if name not in bound.arguments and signature.parameters[name].default is not inspect.Parameter.empty:
                bound.arguments[name] = signature.parameters[name].default
        bound.arguments = {n: bound.arguments[n] for n in signature.parameters if n in bound.arguments}
    if bound.kwargs:
        raise TypeError(f"{cls.__name__}.apply: keyword-only arguments are not supported: {', '.join(bound.kwargs)}")
    return bound.args if separate else bound.args[1:]


_signatures: dict[Any, inspect.Signature] = {}


def _signature(cls: type[Function]) -> inspect.Signature:
    found = _signatures.get(cls.forward)
    if found is None:
        found = _signatures[cls.forward] = inspect.signature(cls.forward)
    return found


def run_forward(
    cls: type[Function], args: tuple[Any, ...], recording: bool, edges: list[Edge | None] | None = None
) -> tuple[FunctionNode, Any]:
    """Run forward (and setup_context) with recording off; return the node and what forward returned.

    With `recording` the node has its edges (`edges`, or those of the arguments) and what was saved; without, none.
    Arguments that are neither dense nor an expansion are made dense first (H1).
    """
    needs: list[bool] = []
    targets: list[Edge | None] = []
    metas: list[Meta | None] = []
    for position, arg in enumerate(args):
        if not isinstance(arg, Tensor):
            needs.append(False)
            targets.append(None)
            metas.append(None)
            continue
        data = arg._data
        if not (data.flags.c_contiguous or is_plain(data)):
            arg = _dense(arg)
            args = (*args[:position], arg, *args[position + 1 :])
        needs.append(arg._requires_grad)
        metas.append((data.shape, data.dtype))
        if not arg._requires_grad:
            targets.append(NO_EDGE)
        else:
            targets.append(arg.edge() if arg.grad_fn is None else (arg.grad_fn, arg.output_nr))
    node = cls._backward_cls()
    node.needs_input_grad = tuple(needs)
    if recording:
        node._edges = targets if edges is None else edges
        node._inputs = metas
        node._sequence = next_sequence()
    before, ambient = state.grad, state.recorder
    state.grad = False
    if ambient is not None:
        state.recorder = None
    try:
        if cls.setup_context is Function.setup_context:
            raw = cls.forward(node, *args)
        else:
            raw = cls.forward(*args)
            cls.setup_context(node, args, raw)
    finally:
        state.grad, state.recorder = before, ambient
    if recording:
        _keep(node, args, raw if isinstance(raw, tuple) else (raw,))
    node._running_forward = False
    node.to_save = None
    return node, raw


def _dense(tensor: Tensor) -> Tensor:
    """Return a tensor whose data is plain, in the place of `tensor` in the graph."""
    if is_plain(tensor._data):
        return tensor
    edge = tensor.edge() if tensor._requires_grad else NO_EDGE
    copy = Tensor.made(dense(tensor._data), tensor.grad_fn, tensor.output_nr)
    copy._requires_grad = tensor._requires_grad
    if tensor.grad_fn is None and edge[0] is not None:
        copy._accumulator = tensor._accumulator  # gradients of the copy are the leaf's
    return copy


def _keep(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
    """Sort what forward saved into inputs, outputs and values of its own; the last are tagged by what they are not."""
    node._metas = [(o._data.shape, o._data.dtype) if isinstance(o, Tensor) else None for o in outputs]
    saved: list[Saved | None] = []
    for tensor in node.to_save or ():
        if tensor is None:
            saved.append(None)
            continue
        counter = tensor._version or tensor.counter()
        kind, position = _place(tensor, args, outputs)
        saved.append(Saved(kind, position, tensor._data if kind is OUTPUT else tensor, counter, counter[0]))
    node._saved = saved
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


def wrap_outputs(node: FunctionNode, raw: Any, args: tuple[Any, ...]) -> Any:
    """Return what apply returns: each tensor a new one with `node` as its producer (OU-01 to OU-10)."""
    single = not isinstance(raw, tuple)
    outputs: tuple[Any, ...] = (raw,) if single else raw
    unmarked = node.non_differentiable
    wrapped: list[Any] = []
    seen: dict[int, Tensor] = {}
    for number, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            wrapped.append(output)
            continue
        twin = seen.get(id(output))
        if twin is None:
            twin = seen[id(output)] = output.alias()
        if output._data.dtype.kind in "fc" and (unmarked is None or not any(output is marked for marked in unmarked)):
            twin._requires_grad = True
            twin.grad_fn = node
            twin.output_nr = number
        wrapped.append(twin)
    if node._references is not None:
        for name, (kind, position) in node._references.items():
            if kind is OUTPUT:
                setattr(node, name, wrapped[position])
    return wrapped[0] if single else tuple(wrapped)


def _aliases(raw: Any) -> Any:
    """Return what apply returns when nothing is recorded."""
    if isinstance(raw, tuple):
        return tuple([output.alias() if isinstance(output, Tensor) else output for output in raw])
    return raw.alias() if isinstance(raw, Tensor) else raw


def run_backward(node: FunctionNode, grads: Sequence[Tensor | None], create_graph: bool) -> list[Tensor | None]:
    """Run the user's backward and check what it returns; one gradient per argument, None for those not wanted.

    Undefined gradients are materialised first, as zeros, unless the context says otherwise (CX-20).

    Raises:
        MissingDerivative: neither backward nor vjp is written.
        AutogradError: wrong number, type, shape or dtype of gradients (BW-02 to BW-08).
    """
    rule = _backward_of(node._function)
    if node.materialize_grads:
        for grad in grads:
            if grad is None:
                grads = [_zeros(m) if g is None and m is not None else g for g, m in zip(grads, node._metas, strict=True)]
                break
    before, ambient = state.grad, state.recorder
    state.grad = create_graph
    if not create_graph:
        state.recorder = None
    try:
        result = rule(node, *grads)
    finally:
        state.grad, state.recorder = before, ambient
    given: tuple[Any, ...] = result if isinstance(result, tuple) else (result,)
    inputs, edges = node._inputs, node._edges
    expected = len(inputs)
    if len(given) != expected and (len(given) < expected or any(extra is not None for extra in given[expected:])):
        raise AutogradError(f"function {node.name()} returned an incorrect number of gradients (expected {expected}, got {len(given)})")
    out: list[Tensor | None] = []
    for i in range(expected):
        grad, meta, edge = given[i], inputs[i], edges[i]
        if grad is None:
            out.append(None)
            continue
        if meta is None:
            raise AutogradError(f"function {node.name()} returned a gradient different than None at position {i + 1}, but the corresponding forward input was not a Variable")
        if not isinstance(grad, Tensor):
            if not isinstance(grad, np.ndarray | np.generic):
                raise AutogradError(
                    f"expected Variable or None (got {type(grad).__name__}) at position {i + 1} of what {node.name()} returned; "
                    "return tensors, or arrays"
                )
            grad = Tensor.made(np.asarray(grad))
        if edge is None or edge[0] is None:
            out.append(None)
            continue
        data = grad._data
        if data.shape != meta[0] or data.dtype != meta[1]:
            grad = _fitted(node, i, grad, meta, create_graph)
        out.append(grad if create_graph or not grad._requires_grad else grad.detach())
    return out


def _fitted(node: FunctionNode, index: int, grad: Tensor, meta: Meta, create_graph: bool) -> Tensor:
    """Return a gradient of another shape or dtype than its input's as one that fits it."""
    shape, dtype = meta
    if grad.shape != shape:
        try:
            grad = sum_to(grad if create_graph else grad.detach(), shape)
        except AutogradError:
            raise AutogradError(
                f"Function {node.name()} returned an invalid gradient at index {index} - got {list(grad.shape)} but expected shape compatible with {list(shape)}; expected shape {tuple(shape)}"
            ) from None
    if grad.dtype != dtype:
        if grad.dtype.kind == "c" and dtype.kind != "c":
            raise AutogradError(f"Function {node.name()} returned a complex gradient at index {index} for a real input; return its real part")
        grad = grad.to(dtype)
    return grad


def _backward_of(cls: type[Function]) -> Any:
    backward, vjp = cls.backward is not Function.backward, cls.vjp is not Function.vjp
    if backward and vjp:
        raise AutogradError("Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of them.")
    if not backward and not vjp:
        raise MissingDerivative(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )
    return cls.backward if backward else cls.vjp


def _zeros(meta: Meta) -> Tensor:
    return Tensor.made(np.zeros(meta[0], meta[1]))
