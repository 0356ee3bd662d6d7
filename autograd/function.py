"""User-written Functions: the class that users subclass, and how applying one runs forward (SEMANTICS FN).

Rules of this file: apply and forward. Arguments are bound in `binding`, outputs wrapped in `outputs`; the context is in
`context`, backward in `user_backward`. It knows nothing of sessions but `Recorder`; workers use `run_forward` and
`run_backward`.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .anomaly import remember as remember_origin
from .binding import bind
from .context import INPUT as INPUT
from .context import OUTPUT as OUTPUT
from .context import UNSHARED as UNSHARED
from .context import VALUE as VALUE
from .context import FunctionNode as FunctionNode
from .context import Saved as Saved
from .context import keep, refer
from .derive import Meta
from .function_jvp import propagate
from .inference import marked
from .layout import is_plain
from .levels import carried, only
from .members import Members
from .modes import Modes, state
from .node import NO_EDGE, Edge, next_sequence
from .once import once_differentiable as once_differentiable
from .outputs import check_returned, check_unmarked, wrap_outputs
from .plan import Plan, unwritten, unwritten_forward, unwritten_setup
from .recording import Pending
from .tensor import Tensor
from .user_backward import densified
from .user_backward import run_backward as run_backward
from .views import Stale

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray


class FunctionMeta(type):
    """Gives each Function class its own node class, `<Name>Backward` (FN-20), and its plan."""

    _backward_cls: type[FunctionNode]
    _context_type: type[FunctionNode] = FunctionNode
    """What the node class is derived from; a Function class may name another."""
    _plan: Plan

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        members = {"_function": cls, "__module__": cls.__module__}
        type.__setattr__(cls, "_backward_cls", type(name + "Backward", (cls._context_type,), members))
        type.__setattr__(cls, "_plan", Plan(cast("type[Function]", cls)))

    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        _plan_anew(cls)

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name)
        _plan_anew(cls)


def _plan_anew(cls: Any) -> None:
    """Make the plan of a class that was patched anew, and those of the classes that inherit from it."""
    type.__setattr__(cls, "_plan", Plan(cls))
    for below in type.__subclasses__(cls):
        _plan_anew(below)


class Function(Members, metaclass=FunctionMeta):
    """The base of user-written differentiable operations.

    Subclasses give a static `forward`, with or without `setup_context`, and a static `backward` (or `vjp`, the same
    under its other name), and are used through `apply`. In a session, `infer(*specs)` may state the outputs' specs
    without running (H3).
    """

    forward = staticmethod(unwritten_forward)
    setup_context = staticmethod(unwritten_setup)
    backward = staticmethod(unwritten)
    vjp = staticmethod(unwritten)
    clear_saved_tensors_on_access = False
    boxed_grads_call = False

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Apply the Function: run forward and, when a tensor argument requires grad, record it for backward.

        Raises:
            TypeError: arguments that do not fit forward's signature.
        """
        named: dict[str, Any] = {}
        if kwargs or cls._plan.setup is not None:
            args, named = bind(cls, args, kwargs)
        here = state.here
        if here.special:
            return _apply_specially(cls, here, args, named)
        for arg in args:
            if isinstance(arg, Tensor) and type(arg._data) is not _ARRAY:
                return _apply_specially(cls, here, args, named)
        return _apply_here(cls, here, args, named)


def _apply_specially(cls: type[Function], here: Modes, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Apply a Function while a rare mode is on, or to values that are not at hand."""
    recorder = here.recorder
    for arg in args:
        if not isinstance(arg, Tensor):
            continue
        if type(arg._data) is Stale:
            arg._data = arg._data.for_use(here.grad and arg._requires_grad)
        if type(arg._data) is Pending:
            owner = arg._data.record.recorder
            if owner.closed:
                arg._data = arg.read()
            elif recorder is None:
                recorder = owner
    if recorder is None:
        if here.inference:
            result = _apply_here(cls, here, args, named)
            for output in _outputs(result):
                if isinstance(output, Tensor) and output._base is None:
                    marked(output)
            return result
        if not here.forward:
            return _apply_here(cls, here, args, named)
        return apply_with_tangents(cls, args, named)[2]
    if here.forward and any(isinstance(arg, Tensor) and carried(arg) for arg in args):
        from .jointly import apply_jointly

        return apply_jointly(cls, args, named)
    return recorder.function(cls, args, named)


def apply_with_tangents(
    cls: type[Function], args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[FunctionNode, Any, Any]:
    """Run forward, then jvp where an argument carries a tangent; return the context, what forward returned, and what
    apply returns."""
    here = state.here
    with only(()):
        node, raw, dense = _forward(cls, here, args, here.grad, None, named)
        result = wrap_outputs(node, raw, dense, args, cls._plan.setup is not None)
    propagate(node, dense, raw, result)
    return node, raw, result


def _apply_here(cls: type[Function], here: Modes, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Run forward in this process and return what apply returns."""
    node, raw, dense = _forward(cls, here, args, here.grad, None, named)
    holders = sys.getrefcount(raw)
    kept = node.to_save
    if kept is not None:
        for tensor in kept:
            if tensor is raw:
                holders -= 1
    if (
        type(raw) is Tensor
        and holders == 2
        and node.dirty_tensors is None
        and node.non_differentiable is None
        and raw._recipe is None
        and not raw._requires_grad
    ):
        # fresh, and nobody else has it: nearly always. It need not be wrapped
        if kept is not None:
            node.to_save = None
        data = raw._data
        if node._edges:
            node._metas = ((data.shape, data.dtype),)
            if data.dtype.kind in "fc":
                raw._requires_grad = True
                raw.grad_fn = node
                raw.output_nr = 0
        return raw
    return wrap_outputs(node, raw, dense, args, cls._plan.setup is not None)


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
    ambient = state.recorder
    if ambient is not None:
        state.recorder = None
    try:
        node, raw, args = _forward(cls, state.here, args, recording, edges, named or {})
    finally:
        if ambient is not None:
            state.recorder = ambient
    outputs = _outputs(raw)
    check_returned(node, args, outputs, cls._plan.setup is not None)
    if recording:
        node._metas = [(o._data.shape, o._data.dtype) if isinstance(o, Tensor) else None for o in outputs]
        refer(node, args, outputs)
    node.to_save = None
    return node, raw


def _forward(
    cls: type[Function],
    here: Modes,
    args: tuple[Any, ...],
    recording: bool,
    edges: list[Edge | None] | None,
    named: dict[str, Any],
) -> tuple[FunctionNode, Any, tuple[Any, ...]]:
    """Run forward; return the node, what forward returned, and the arguments that it was given."""
    needs: list[bool] = []
    targets: list[Edge | None] = []
    metas: list[Meta | None] = []
    versions: list[Any] = []
    for position, arg in enumerate(args):
        if not isinstance(arg, Tensor):
            needs.append(False)
            targets.append(None)
            metas.append(None)
            versions.append(0)
            continue
        data = arg._data
        if not (data.flags.c_contiguous or is_plain(data)):
            arg = densified(arg)
            args = (*args[:position], arg, *args[position + 1 :])
        metas.append((data.shape, data.dtype))
        counter = arg._counter
        versions.append(0 if counter is None else counter[0])
        if not arg._requires_grad:
            needs.append(False)
            targets.append(NO_EDGE)
        else:
            needs.append(True)
            producer = arg.grad_fn
            targets.append((producer, arg.output_nr) if producer is not None else arg.edge())
    node = cls._backward_cls()
    node.needs_input_grad = tuple(needs)
    recorded = recording and (edges is not None or True in needs)
    if recorded:
        node._edges = targets if edges is None else edges
        node._inputs = metas
        node._sequence = next_sequence()
        if here.transforms and here.transforms.count("vmap") < len(here.transforms):
            node._suffix = "GeneratedBackward"  # as PyTorch names it there (FT-08)
    plan = cls._plan
    setup = plan.setup
    before = here.grad
    here.grad = False
    try:
        if setup is None:
            raw: Any = plan.forward(node, *args, **named) if named else plan.forward(node, *args)
        else:
            raw = plan.forward(*args, **named) if named else plan.forward(*args)
            setup(node, args, raw)
    finally:
        here.grad = before
    for arg, version in zip(args, versions):  # noqa: B905 - of equal length
        if isinstance(arg, Tensor) and (counter := arg._counter) is not None and counter[0] != version:
            check_unmarked(node, args, versions)
            break
    if recorded:
        keep(node, args, _outputs(raw))
        if here.anomaly is not None:
            remember_origin(node)
    return node, raw, args


def _outputs(raw: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", raw) if isinstance(raw, tuple) else (raw,)


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
