"""User-written Functions: the class that users subclass, and how applying one runs forward (SEMANTICS FN, OU).

Rules of this file: arguments, forward, and the outputs that apply returns. The context is in `context`, backward in
`user_backward`. It knows nothing of sessions but `Recorder`; workers use `run_forward` and `run_backward`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from raygrad.errors import MissingDerivative

from .context import INPUT as INPUT
from .context import OUTPUT as OUTPUT
from .context import VALUE as VALUE
from .context import FunctionNode as FunctionNode
from .context import Saved as Saved
from .context import keep
from .derive import Meta
from .function_jvp import propagate
from .layout import is_plain
from .levels import carried, only
from .members import Members
from .modes import state
from .node import NO_EDGE, Edge, next_sequence
from .once import once_differentiable as once_differentiable
from .recording import Pending
from .tensor import Tensor
from .user_backward import densified, unwritten
from .user_backward import run_backward as run_backward


class FunctionMeta(type):
    """Gives each Function class its own node class, `<Name>Backward` (FN-20)."""

    _backward_cls: type[FunctionNode]
    _context_type: type[FunctionNode] = FunctionNode
    """What the node class is derived from; a Function class may name another."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        members = {"_function": cls, "__module__": cls.__module__}
        cls._backward_cls = type(name + "Backward", (cls._context_type,), members)


class Function(Members, metaclass=FunctionMeta):
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

    backward = staticmethod(unwritten)
    vjp = staticmethod(unwritten)

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Apply the Function: run forward and, when a tensor argument requires grad, record it for backward.

        Raises:
            TypeError: arguments that do not fit forward's signature.
        """
        named: dict[str, Any] = {}
        if kwargs or cls.setup_context is not Function.setup_context:
            args, named = bind(cls, args, kwargs)
        recorder = state.recorder
        recording = False
        for arg in args:
            if isinstance(arg, Tensor):
                if arg._requires_grad:
                    recording = True
                if type(arg._data) is Pending:
                    owner = arg._data.record.recorder
                    if owner.closed:
                        arg._data = arg.read()
                    elif recorder is None:
                        recorder = owner
        if recorder is not None:
            if state.forward and any(isinstance(arg, Tensor) and carried(arg) for arg in args):
                raise MissingDerivative(
                    f"{cls.__name__}.apply: forward mode through a custom Function in a session does not support it "
                    "yet; apply it outside of the session"
                )
            if named:
                raise TypeError(
                    f"{cls.__name__}.apply: keyword-only arguments ({', '.join(named)}) cannot be recorded in a "
                    "session; make them positional parameters of forward"
                )
            return recorder.function(cls, args)
        levels = state.forward
        if not levels:
            node, raw = run_forward(cls, args, recording and state.grad, None, named)
            return wrap_outputs(node, raw, args)
        with only(()):
            node, raw = run_forward(cls, args, recording and state.grad, None, named)
            result = wrap_outputs(node, raw, args)
        propagate(node, args, raw, result)
        return result


_signatures: WeakKeyDictionary[Callable[..., Any], inspect.Signature] = WeakKeyDictionary()
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def _signature(cls: type[Function]) -> inspect.Signature:
    function = getattr(cls.forward, "__func__", cls.forward)
    found = _signatures.get(function)
    if found is None:
        found = _signatures[function] = inspect.signature(cls.forward)
    return found


def _filled(forward: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return `args` with defaults, where `forward` is as plain as nearly always: `inspect` would cost more than all
    the rest of apply."""
    if type(forward) is not FunctionType or "__wrapped__" in forward.__dict__:
        return None
    code = forward.__code__
    missing = code.co_argcount - len(args)
    if missing < 0 or code.co_kwonlyargcount or code.co_flags & _VARIADIC:
        return None
    if not missing:
        return args
    defaults = forward.__defaults__ or ()
    return (*args, *defaults[-missing:]) if missing <= len(defaults) else None


def bind(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return all arguments by position, and those that forward takes by keyword only (FN-04, FN-05).

    Keywords are moved to their slots, with the defaults before them; in the separate style all defaults are filled in.

    Raises:
        TypeError: they do not fit forward's signature, or a keyword-only one is a tensor.
    """
    separate = cls.setup_context is not Function.setup_context
    if separate and not kwargs:
        filled = _filled(cls.forward, args)
        if filled is not None:
            return filled, kwargs
    signature = _signature(cls)
    bound = signature.bind(*args, **kwargs) if separate else signature.bind(None, *args, **kwargs)
    given = set(bound.arguments)
    bound.apply_defaults()
    positional = bound.args if separate else bound.args[1:]
    if not separate:  # an argument that the caller left out behind the last one given is none (FN-04)
        names = [name for name, parameter in signature.parameters.items() if parameter.kind in _POSITIONAL]
        omitted = 0
        while len(positional) - omitted > len(args) and len(names) > omitted and names[-1 - omitted] not in given:
            omitted += 1
        positional = positional[: len(positional) - omitted]
    named = {name: value for name, value in bound.kwargs.items() if name in kwargs}
    for name, value in named.items():
        if isinstance(value, Tensor):
            raise TypeError(
                f"{cls.__name__}.apply: the keyword-only argument '{name}' is a tensor; keyword-only tensors are no "
                "differentiable inputs: make it a positional parameter of forward"
            )
    return positional, named


def run_forward(
    cls: type[Function],
    args: tuple[Any, ...],
    recording: bool,
    edges: list[Edge | None] | None = None,
    named: dict[str, Any] | None = None,
) -> tuple[FunctionNode, Any]:
    """Run forward (and setup_context) with recording off; return the node and what forward returned.

    With `recording` the node has its edges (`edges`, or those of the arguments) and what was saved; without, none.
    Arguments that are neither dense nor an expansion are made dense first (H1). `named` are keyword-only arguments.
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
            arg = densified(arg)
            args = (*args[:position], arg, *args[position + 1 :])
        required = arg._requires_grad
        needs.append(required)
        metas.append((data.shape, data.dtype))
        if not required or not recording:
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
            raw: Any = cls.forward(node, *args, **named) if named else cls.forward(node, *args)
        else:
            raw = cls.forward(*args, **named) if named else cls.forward(*args)
            cls.setup_context(node, args, raw)
    finally:
        state.grad, state.recorder = before, ambient
    if recording:
        keep(node, args, _outputs(raw))
    else:
        node._saved = []
    node._running_forward = False
    node.to_save = None
    return node, raw


def _outputs(raw: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", raw) if isinstance(raw, tuple) else (raw,)


def wrap_outputs(node: FunctionNode, raw: Any, args: tuple[Any, ...]) -> Any:
    """Return what apply returns: each tensor a new one with `node` as its producer, if it is recorded (OU-01 to OU-10).

    An argument that forward returned unchanged becomes a view of it.
    """
    if isinstance(raw, Tensor):
        wrapped = _wrapped(node, raw, 0, args)
        if node._references is not None:
            _refer(node, (wrapped,))
        return wrapped
    if not isinstance(raw, tuple):
        return raw
    outputs = cast("tuple[Any, ...]", raw)
    results: list[Any] = []
    for number, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            results.append(output)
            continue
        twin = None
        if number and not _is_among(output, args):
            twin = next((results[earlier] for earlier in range(number) if outputs[earlier] is output), None)
        if twin is None:
            twin = _wrapped(node, output, number, args)
        elif twin.grad_fn is not None:
            twin.output_nr = number  # one new tensor in two slots is one object, known by the last (OU-08)
        results.append(twin)
    if node._references is not None:
        _refer(node, results)
    return tuple(results)


def _wrapped(node: FunctionNode, output: Tensor, number: int, args: tuple[Any, ...]) -> Tensor:
    twin = output.alias()
    for arg in args:
        if arg is output and state.grad:
            twin._base = output if output._base is None else output._base
    if node._edges and output._data.dtype.kind in "fc":
        marked = node.non_differentiable
        if marked is None or not _is_among(output, marked):
            twin._requires_grad = True
            twin.grad_fn = node
            twin.output_nr = number
    return twin


def _is_among(tensor: Tensor, others: tuple[Any, ...]) -> bool:
    for other in others:  # by identity: `in` would compare elements
        if other is tensor:
            return True
    return False


def _refer(node: FunctionNode, results: Sequence[Any]) -> None:
    """Make attributes of ctx that are outputs the tensors that apply returns (CX-04)."""
    for name, (kind, position) in (node._references or {}).items():
        if kind is OUTPUT:
            setattr(node, name, results[position])


if TYPE_CHECKING:
    from .legacy import InplaceFunction as InplaceFunction
    from .nested import NestedIOFunction as NestedIOFunction
else:

    def __getattr__(name):
        """Return a kind of Function that is written with this one."""
        home = {"InplaceFunction": "legacy", "NestedIOFunction": "nested"}.get(name)
        if home is None:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        return getattr(importlib.import_module(f".{home}", __package__), name)
