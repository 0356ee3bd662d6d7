"""The `Function` base class and `Function.apply`: how a user-written forward is called, recorded and given a node.

`bind_arguments` binds arguments, `function_outputs` wraps outputs, `context` is the node, `user_backward` runs
backward. Sessions are reached through `Recorder` only; workers call `run_forward`.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from raygrad.errors import AutogradError
from raygrad.tracebacks import leave, users_site

from ..core.array_layout import is_dense_or_expanded
from ..core.batched_data import innermost_vmap_level, without_closed_levels
from ..core.graph_collections import NODES, graph_grew
from ..core.modes import Modes, state
from ..core.pytree import flatten
from ..core.random_streams import PACK, PROGRAM, Path, path_of_application
from ..core.recorder import Pending, Recorder
from ..core.transform_handlers import handlers
from ..devices.serving import device_guard, is_device_array, needs_device_guard
from ..dispatch.device_dispatch import check_kinds, tensor_devices
from ..forward_mode.function_jvp import propagate
from ..mutation.overlap import may_share
from ..nodes.anomaly import note_origin as remember_origin
from ..nodes.closed_session import fetch_from_closed_session
from ..nodes.node import NO_EDGE, Edge, next_sequence
from ..nodes.once_differentiable import once_differentiable as once_differentiable
from ..registry.vjp_rules import Meta
from ..saved.saved_slots import sort_into_slots
from ..saved.saved_tensor_hooks import current_hooks
from ..saved.saved_tensors import pack_function
from ..storage.version_counter import CLOCK
from ..storage.view import LostData
from ..tensor.inference import mark_inference
from ..tensor.tangent_levels import active_levels, carries_tangent
from ..tensor.tensor import Tensor
from .bind_arguments import bind
from .context import FunctionNode, name_as_generated, note_references
from .function_class_api import FunctionClassMembers
from .function_outputs import check_returned, check_unmarked, wrap_outputs
from .function_traits import FunctionTraits, may_mark, unwritten, unwritten_forward, unwritten_setup
from .user_backward import densified, run_backward as run_backward
from .writable_inputs import saved_copies

if TYPE_CHECKING:
    from .apply_types import Apply, NotWritten

    def _typed_by_forward(method: Any) -> Apply: ...

else:
    _typed_by_forward = classmethod

_HERE = contextlib.nullcontext()
current_frame, references_to = sys._getframe, sys.getrefcount
_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray
_FLOAT64 = np.dtype(np.float64)
_numbers = itertools.count()
_WANTED = (True,)


class FunctionMeta(type):
    """Gives each Function class its own node class, `<Name>Backward` (FN-20), and the traits of the class."""

    _backward_cls: type[FunctionNode]
    _context_type: type[FunctionNode] = FunctionNode
    """The base of the node class; a Function class may name another."""
    _traits: FunctionTraits

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        members = {
            "_function": cls,
            "_forward_cls": cls,  # its name in PyTorch
            "_autograd_function_id": next(_numbers),
            "__module__": cls.__module__,
        }
        type.__setattr__(cls, "_backward_cls", type(name + "Backward", (cls._context_type,), members))
        _renew_traits(cls)

    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        _renew_traits(cls)

    def __delattr__(cls, name: str) -> None:
        super().__delattr__(name)
        _renew_traits(cls)


def _renew_traits(cls: Any) -> None:
    """Recompute the traits of a patched class and of its subclasses."""
    cls._backward_cls._traits = traits = FunctionTraits(cls)
    saved: Any = cls._context_type.saved_tensors
    cls._backward_cls.saved_tensors = saved_copies(saved) if traits.writable else saved
    type.__setattr__(cls, "_traits", traits)
    for below in type.__subclasses__(cls):
        _renew_traits(below)


class Function(FunctionClassMembers, metaclass=FunctionMeta):
    """The base of user-written differentiable operations.

    Subclasses give a static `forward`, with or without `setup_context`, and a static `backward` (or `vjp`, the same
    under its other name), and are used through `apply`. In a session, `infer(*specs)` may state the outputs without
    running (H3): each as (shape, dtype), or as (shape, dtype, differentiable); None leaves it to a run. `cost`, in
    seconds or a function of what `infer` is given, hints at the time of forward before it has run.
    `writable_inputs = True` has forward given copies of its tensors, and backward of the gradients and of what was
    saved, in C order: code of other languages may work in their memory. What forward saves of them is the argument
    itself; what it returns of them is a new tensor.
    """

    if TYPE_CHECKING:

        @staticmethod
        def forward(*args: Any, **kwargs: Any) -> Any:
            """Compute the outputs: `forward(ctx, *args)`, or, with a `setup_context`, `forward(*args)`."""

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any, /) -> NotWritten | None:
            """Save what backward needs, when forward takes no ctx."""

        # of any arguments behind the first, so that those that a user names fit

        @staticmethod
        def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
            """Return one gradient (or None) per argument of forward, given one per output."""

        @staticmethod
        def vjp(ctx: Any, *args: Any, **kwargs: Any) -> Any:
            """Do the same, under its other name."""

        @staticmethod
        def jvp(ctx: Any, *args: Any, **kwargs: Any) -> Any:
            """Return one tangent per output, given one (or None) per argument of forward."""

        @staticmethod
        def vmap(info: Any, in_dims: Any, *args: Any, **kwargs: Any) -> Any:
            """Return the outputs of a batch and where their batch dimension lies."""

    else:
        forward = staticmethod(unwritten_forward)
        setup_context = staticmethod(unwritten_setup)
        backward = staticmethod(unwritten)
        vjp = staticmethod(unwritten)
    clear_saved_tensors_on_access = False
    boxed_grads_call = False
    writable_inputs = False

    @_typed_by_forward
    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply the Function: run forward and, when a tensor argument requires grad, record it for backward.

        Raises:
            TypeError: arguments that do not fit forward's signature.
        """
        here, traits = state.here, cls._traits
        try:
            if kwargs or traits.setup is not None:
                args, kwargs = bind(cls, args, kwargs)
            if here.special:
                recorder = here.only_recorder
                if recorder is not None and _are_recorded_by(recorder, args):
                    return recorder.function(cls, args, kwargs)
                return _apply_specially(cls, here, args, kwargs)
            node, raw, given = _forward(cls, here, args, here.grad, None, kwargs)
            if node is None:
                return _apply_specially(cls, here, args, kwargs)
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise
        holders = references_to(raw)
        kept = node.to_save
        if kept is not None and node._kept is None:  # else they are arguments, of which others hold references, too
            for tensor in kept:
                if tensor is raw:
                    holders -= 1
        if (
            holders != 2
            or type(raw) is not Tensor
            or raw._view is not None
            or raw._requires_grad
            or node.dirty_tensors is not None
            or node.non_differentiable is not None
            or node.saved_for_forward is not None
        ):
            if node._edges:
                applied = current_frame(1)
                node._applied_in, node._applied_at = applied.f_code, applied.f_lasti
            try:
                result = wrap_outputs(node, raw, given, args, traits.setup is not None)
            except BaseException as error:  # of any kind: it goes on as it is
                leave(error)
                raise
            node.saved_for_forward = None
            return result
        # fast path: a fresh output, held by nobody else, is not wrapped
        if kept is not None:
            node.to_save = None
        if node._edges:
            applied = current_frame(1)
            node._applied_in, node._applied_at = applied.f_code, applied.f_lasti
            data, known = raw._data, node._inputs
            dtype = data.dtype
            meta = known[0]
            if meta is None or meta[1] is not dtype or meta[0] != data.shape:
                node._metas = ((data.shape, dtype),)
            else:
                node._metas = known if len(known) == 1 else (meta,)
            if dtype is _FLOAT64 or dtype.kind in "fc":
                raw._requires_grad = True
                raw._grad_fn = node
                raw.output_nr = 0
        return raw


def _are_recorded_by(recorder: Recorder, args: tuple[Any, ...]) -> bool:
    """Tell whether all tensors among the arguments are values of a session, or arrays of the host."""
    for arg in args:
        if isinstance(arg, Tensor):
            data: Any = arg._data
            if type(data) is Pending:
                if data.record.recorder is not recorder:
                    return False
            elif type(data) is not _ARRAY:
                return False
    return True


def _apply_specially(cls: type[Function], here: Modes, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Apply a Function off the fast path: in a session, forward mode, vmap or another rare mode."""
    args = tuple([without_closed_levels(arg) if isinstance(arg, Tensor) else arg for arg in args])
    if here.batches and (level := innermost_vmap_level(flatten(args)[0])) is not None:
        return handlers.batched_function(cls, args, named, level)
    recorder = here.recorder
    for arg in args:
        if not isinstance(arg, Tensor):
            continue
        if type(arg._data) is LostData:
            arg._data.refuse()
        if type(arg._data) is Pending:
            owner = arg._data.record.recorder
            if owner.closed:
                fetch_from_closed_session(arg)
            elif recorder is None:
                recorder = owner
    if recorder is None:
        if here.outside is not None:
            here.computes()
        result = apply_with_tangents(cls, args, named)[2]
        if here.inference:
            for output in _outputs(result):
                if isinstance(output, Tensor) and output._base is None:
                    mark_inference(output)
        return result
    if here.forward and any(isinstance(arg, Tensor) and carries_tangent(arg) for arg in args):
        if here.saving:
            raise AutogradError(
                f"{cls.__name__}.apply: in a session saved-tensor hooks do not pack what a Function saves while its "
                "arguments carry tangents: leave their block before it is applied, or apply it outside of the session"
            )
        return handlers.forward_function(cls, args, named)
    return recorder.function(cls, args, named)


def apply_with_tangents(
    cls: type[Function], args: tuple[Any, ...], named: dict[str, Any], path: Path | None = None
) -> tuple[FunctionNode, Any, Any]:
    """Run forward, and jvp if an argument carries a tangent; return the context, forward's outputs, and apply's
    outputs. `path` is that of the application, if it is not a new one."""
    here = state.here
    held = _on_other_device(args)
    if held is not None:
        check_kinds(cls, [arg.device for arg in args if isinstance(arg, Tensor)])
    with active_levels(()), device_guard(held) if needs_device_guard(held) else _HERE:
        node, raw, given = _forward(cls, here, args, here.grad, None, named, True, path=path)
        assert node is not None
        if (site := users_site()) is not None:
            node._applied_in, node._applied_at = site
        if here.anomaly is not None and node._edges:
            remember_origin(node)
        if held is not None:
            node._input_places = tensor_devices(args)
        result = wrap_outputs(node, raw, given, args, cls._traits.setup is not None)
    if here.forward:
        propagate(node, given, raw, result)
    node.saved_for_forward = None
    return node, raw, result


def run_forward(
    cls: type[Function],
    args: tuple[Any, ...],
    recording: bool,
    edges: Sequence[Edge | None] | None = None,
    named: dict[str, Any] | None = None,
    laid: bool = False,
    path: Path | None = None,
) -> tuple[FunctionNode, Any]:
    """Run forward (and setup_context) with recording off; return the node and what forward returned.

    With `recording` the node has its edges (`edges`, or those of the arguments) and what was saved; without, none.
    Arguments that are neither dense nor an expansion are made dense first (H1), unless some are of one memory and have
    to stay so: they are `laid`. `named` are keyword-only arguments; `path` is that of the application.
    """
    here = state.here
    ambient = here.recorder
    if ambient is not None:
        state.recorder = None
    try:
        node, raw, args = _forward(cls, here, args, recording, edges, named or {}, True, laid, path)
        assert node is not None
    finally:
        if ambient is not None:
            state.recorder = ambient
    outputs = _outputs(raw)
    check_returned(node, args, outputs, cls._traits.setup is not None)
    if recording:
        node._metas = [(o._data.shape, o._data.dtype) if isinstance(o, Tensor) else None for o in outputs]
        note_references(node, args, outputs)
        if node._references is None:
            node._references = {}  # cached on the class: checked once
    node.to_save = None
    return node, raw


def _forward(
    cls: type[Function],
    here: Modes,
    args: tuple[Any, ...],
    recording: bool,
    edges: Sequence[Edge | None] | None,
    named: dict[str, Any],
    elsewhere: bool = False,
    laid: bool = False,
    path: Path | None = None,
) -> tuple[FunctionNode | None, Any, tuple[Any, ...]]:
    """Run forward; return the node, forward's outputs, and its arguments. Without `elsewhere`, return no node and run
    nothing if an argument's array is not on the host. Without `path`, this is a new application."""
    traits, single = cls._traits, len(args) == 1
    arg: Any = args[0] if single else None
    needs: tuple[bool, ...]
    targets: tuple[Edge | None, ...]
    metas: Any
    finds_edges = recording and edges is None
    if (
        type(arg) is Tensor and arg._requires_grad and type(arg._data) is _ARRAY and arg._data.flags.c_contiguous
    ):  # fast path: one tensor argument
        needs = _WANTED
        if finds_edges:
            producer: Any = arg._grad_fn
            edge: Any = arg.edge() if producer is None else (producer, arg.output_nr)
            targets, metas = (edge,), edge[0]._metas
            if len(metas) != 1:
                metas = (metas[edge[1]],)
        else:
            targets, metas = (), ((arg._data.shape, arg._data.dtype),) if recording else ()
    elif len(args) == 2 and (of_two := _of_two(args[0], args[1], finds_edges)) is not None:
        needs, targets, metas = of_two
    else:
        described = _described(cls, args, recording, edges, elsewhere, laid)
        if described is None:
            return None, None, args
        args, needs, targets, metas = described
    node = traits.node()
    node.needs_input_grad = needs
    # they are read soon: an attribute of the instance is found in a third of the time of a default
    node.dirty_tensors = node.non_differentiable = node.saved_for_forward = None
    recorded = recording and (edges is not None or True in needs)
    if recorded:
        node._edges = targets if edges is None else tuple(edges)
        node._inputs = metas
        node._hooked = False
        node._sequence = number = next_sequence()
        if not number & NODES:
            graph_grew()
        if here.transforms and here.transforms.count("vmap") < len(here.transforms):
            name_as_generated(node)
    since, before, outer = CLOCK[0], here.grad, here.stream
    if path is None:
        if outer is PROGRAM:
            path = next(PROGRAM.applications)
        else:
            path = path_of_application(here)
            outer = here.stream  # a stream from now on, if it was a path
    node._path = here.stream = path
    here.grad = False
    around = here.scope
    if around is not None:
        here.scope = around.of_user_code()
    try:
        if traits.setup is None:
            if single and not named:  # to spread one argument takes as long as to call
                raw: Any = traits.forward(node, args[0])
            else:
                raw = traits.forward(node, *args, **named) if named else traits.forward(node, *args)
        else:
            raw = traits.forward(*args, **named) if named else traits.forward(*args)
            traits.setup(node, args, raw)
    finally:
        here.grad, here.stream = before, outer
        if around is not None:
            here.scope = around
    if CLOCK[0] != since:
        check_unmarked(node, args, since)
    if recorded:
        if (saved := node.to_save) is not None:
            sort_into_slots(node, saved, args, raw)
        if traits.read_once:
            node.keep_slots(list(node._saved or ()))
        if here.saving:
            here.stream = (*path, PACK)
            try:
                pack_function(node, current_hooks())
            finally:
                here.stream = outer
    return node, raw, args


def _of_two(
    first: Any, second: Any, recording: bool
) -> tuple[tuple[bool, bool], tuple[Edge, Edge], tuple[Meta | None, Meta | None]] | None:
    """Return of two tensors on the host, in C order, what `_described` returns; None for any other arguments."""
    if type(first) is not Tensor or type(second) is not Tensor:
        return None
    data: Any = first._data
    other: Any = second._data
    if type(data) is not _ARRAY or type(other) is not _ARRAY:
        return None
    if not data.flags.c_contiguous or not other.flags.c_contiguous:
        return None
    producer: Any
    edge: Any = NO_EDGE
    second_edge: Any = NO_EDGE
    if first._requires_grad and recording:
        producer = first._grad_fn
        edge = first.edge() if producer is None else (producer, first.output_nr)
        meta = edge[0]._metas[edge[1]]
    else:
        meta = (data.shape, data.dtype)
    if second._requires_grad and recording:
        producer = second._grad_fn
        second_edge = second.edge() if producer is None else (producer, second.output_nr)
        second_meta = second_edge[0]._metas[second_edge[1]]
    else:
        second_meta = meta if meta[1] is other.dtype and meta[0] == other.shape else (other.shape, other.dtype)
    return (first._requires_grad, second._requires_grad), (edge, second_edge), (meta, second_meta)


def _described(
    cls: type[Function],
    args: tuple[Any, ...],
    recording: bool,
    edges: Sequence[Edge | None] | None,
    elsewhere: bool,
    laid: bool,
) -> tuple[tuple[Any, ...], tuple[bool, ...], tuple[Edge | None, ...], tuple[Meta | None, ...]] | None:
    """Return the arguments of forward, dense where required (H1), with their requires_grad flags, edges and specs; None
    if an array is not on the host and `elsewhere` is not set."""
    needs: list[bool] = []
    targets: list[Edge | None] = []
    metas: list[Meta | None] = []
    given = args
    position = 0
    for arg in given:
        if type(arg) is not Tensor and not isinstance(arg, Tensor):
            needs.append(False)
            targets.append(None)
            metas.append(None)
        else:
            data = arg._data
            if type(data) is not _ARRAY and not elsewhere:
                return None
            if not (data.flags.c_contiguous or is_dense_or_expanded(data) or laid) and not (
                len(given) > 1 and _stays(cls, arg, given)
            ):
                first = next((args[i] for i in range(position) if given[i] is arg), None)
                arg = densified(arg) if first is None else first  # an argument passed twice stays one tensor
                args = (*args[:position], arg, *args[position + 1 :])
            if arg._requires_grad:
                needs.append(True)
                producer: Any = arg._grad_fn
                if not recording or (producer is None and edges is not None):
                    targets.append(NO_EDGE)  # asked for by nobody, or of a leaf whose edge is given
                    metas.append((data.shape, data.dtype))
                else:
                    edge: Any = arg.edge() if producer is None else (producer, arg.output_nr)
                    targets.append(edge)
                    metas.append(edge[0]._metas[edge[1]])  # its producer has the spec already
            else:
                needs.append(False)
                targets.append(NO_EDGE)
                metas.append((data.shape, data.dtype))
        position += 1
    return args, tuple(needs), tuple(targets), tuple(metas)


def _stays(cls: type[Function], arg: Tensor, given: tuple[Any, ...]) -> bool:
    """Tell whether an argument keeps its layout: another argument shares its memory, and the Function may change one of
    them."""
    others = [other for other in given if isinstance(other, Tensor) and other is not arg]
    return any(other._counter is arg._counter is not None or may_share(arg, other) for other in others) and may_mark(
        cls
    )


def _on_other_device(args: tuple[Any, ...]) -> Any:
    """Return the first argument's array that is on another device than the host, None if there is none."""
    for arg in args:
        if isinstance(arg, Tensor) and is_device_array(arg._data):
            return arg._data
    return None


def _outputs(raw: Any) -> tuple[Any, ...]:
    return cast("tuple[Any, ...]", raw) if isinstance(raw, tuple) else (raw,)
