"""Wrapping of forward's outputs: each output of `apply` as a fresh tensor, an unchanged argument, a view, or an
argument changed in place (OU-01 to OU-27).

Called by `apply` and by a session. `mutation` handles what an in-place change means for views and their bases.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from raygrad.errors import AutogradError, DtypeError

from ..core.modes import state
from ..core.recorder import Pending
from ..devices.defined_sums import write_into
from ..devices.serving import CPU, is_device_array
from ..mutation.inplace import rebase_on_function
from ..nodes.closed_session import settle
from ..saved.saved_slots import OUTPUT
from ..storage.view import (
    FUNCTION,
    function_creation,
    owns_grad,
    record_alias,
    record_function_view,
    record_output_view,
)
from ..storage.view_geometry import GeometricView, geometry_of
from ..tensor.tensor import Tensor
from .context import note_references

if TYPE_CHECKING:
    from .context import FunctionNode

Args = tuple[Any, ...]

_NUMERIC: Final = "biufc"
"""Kinds of dtypes that a tensor may have."""


def check_unmarked(node: FunctionNode, args: Args, since: int) -> None:
    """Check that what forward changed in place was marked as dirty (OU-23).

    Args:
        node: the context.
        args: the arguments.
        since: the reading of the clock of changes before forward.

    Raises:
        AutogradError: an argument was changed that is not marked.
    """
    marked = [tensor.counter() for tensor in node.dirty_tensors or ()]
    for position, arg in enumerate(args):
        if isinstance(arg, Tensor) and arg.counter()[1] > since and not is_among(arg.counter(), marked):
            raise AutogradError(
                f"{node._function.__name__} changed argument {position} in place without saying so: call "
                "ctx.mark_dirty(...) with it in forward and return it, or work on a copy (x.clone())"
            )


def wrap_outputs(node: FunctionNode, raw: Any, args: Args, given: Args, separate: bool) -> Any:
    """Return the outputs of apply, made from the outputs of forward.

    Args:
        node: the context, after forward.
        raw: what forward returned.
        args: the arguments that forward was given.
        given: those that apply was given: where forward got a dense copy, the tensor that was copied.
        separate: whether the Function is written with a setup_context.

    Raises:
        AutogradError: a dirty argument that is not returned, is a leaf that requires grad or a view of one (OU-18,
            OU-19), or a view beside other outputs (OU-22); a saved input returned as it is (CX-17).
    """
    outputs: Args = cast("Args", raw) if isinstance(raw, tuple) else (raw,)
    check_returned(node, args, outputs, separate)
    node.to_save = None
    dirty = node.dirty_tensors or ()
    if node._edges:
        _describe(node, outputs)
    marked = node.non_differentiable or ()
    several = sum(_flowing(output, marked) for output in outputs) > 1
    results: list[Any] = []
    for number, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            results.append(output)
            continue
        position = _position(output, args)
        flows = bool(node._edges) and _flowing(output, marked)
        if position >= 0:
            source = given[position]
            if is_among(output, dirty):
                results.append(_changed(node, source, output, number, flows, len(outputs)))
            else:
                results.append(_unchanged(node, source, number, flows, several))
            continue
        twin = next((results[j] for j in range(number) if outputs[j] is output), None)
        if twin is None:
            if output._base is not None:
                output = _in_memory_of(given, output, args)
            twin = _fresh(node, output, number, flows, several)
        elif twin.grad_fn is not None:
            twin.output_nr = number  # one new tensor in two slots is one object, known by the last (OU-08)
        results.append(twin)
    if node._edges:
        note_references(node, args, outputs)
        for name, (kind, place) in (node._references or {}).items():
            if kind is OUTPUT:  # an attribute that is an output is the tensor that apply returns (CX-04)
                setattr(node, name, results[place])
    return tuple(results) if isinstance(raw, tuple) else results[0]


def _describe(node: FunctionNode, outputs: Args) -> None:
    node._metas = [(o._data.shape, o._data.dtype) if isinstance(o, Tensor) else None for o in outputs]
    if node._input_places is not None:
        node._places = [o.device if isinstance(o, Tensor) else CPU for o in outputs]
    marked = node.non_differentiable
    if marked:
        node._barren = frozenset(number for number, output in enumerate(outputs) if is_among(output, marked))


def check_returned(node: FunctionNode, args: Args, outputs: Args, separate: bool) -> None:
    """Check that what forward returned fits what it marked and saved, and that it returned no array for a tensor.

    Raises:
        AutogradError: a dirty argument is not returned (OU-19); a saved argument is returned as it is, in the separate
            style (CX-17).
        DtypeError: an output is an array or a NumPy scalar (OU-02). Beside a tensor, in the separate style, it is how
            forward hands an array to setup_context.
    """
    for number, output in enumerate(outputs):
        if type(output) is not Tensor and (found := _array_in(output, outputs)) is not None:
            if not separate or not any([isinstance(one, Tensor) for one in outputs]):
                raise _array_returned(node, found, number if len(outputs) > 1 else -1, output)
        if type(output) is Tensor and type(output._data) is Pending:
            settle(output)
    dirty = node.dirty_tensors or ()
    if separate:
        for tensor in (*(node.to_save or ()), *(node.saved_for_forward or ())):
            position = -1 if tensor is None or is_among(tensor, dirty) else _position(tensor, args)
            if position >= 0 and is_among(tensor, outputs):
                raise AutogradError(
                    f"argument {position} of {node._function.__name__} is saved by setup_context and returned "
                    "as-is: return and save a view of it instead (x.view_as(x)), or write forward in the combined "
                    "style, with ctx as its first argument"
                )
    for tensor in dirty:
        if not is_among(tensor, outputs):
            raise AutogradError(
                f"Some elements marked as dirty during the forward method of {node._function.__name__} were not "
                "returned as output. The inputs that are modified inplace must all be outputs of the Function."
            )
        if not is_among(tensor, args):
            warnings.warn(
                f"{node._function.__name__} marked a tensor as dirty that is none of its inputs: only inputs that "
                "forward changed in place belong there",
                UserWarning,
                stacklevel=5,
            )


def _array_in(output: Any, outputs: Args) -> Any:
    """Return an output that is an array or a NumPy scalar, or the first one in a list or tuple that is returned where
    no output is a tensor; None if there is none.

    Arrays of other kinds than numbers (strings, objects, dates) have no tensor, and are outputs like any other object.
    """
    if _is_numeric(output):
        return output
    if type(output) is list or type(output) is tuple:
        found = next((one for one in cast("Sequence[Any]", output) if _is_numeric(one)), None)
        return None if any(isinstance(one, Tensor) for one in outputs) else found
    return None


def _is_numeric(value: Any) -> bool:
    """Tell whether a value is an array of numbers, of the host or of a device, or a NumPy scalar."""
    if isinstance(value, np.ndarray | np.generic):
        return cast("Any", value).dtype.kind in _NUMERIC
    return is_device_array(value)


def _array_returned(node: FunctionNode, found: Any, number: int, output: Any) -> DtypeError:
    """Return the error for an array that forward returned in the place of a tensor."""
    name = node._function.__name__
    kind = f"{type(found).__module__}.{type(found).__qualname__}"
    what = f"a {kind}" if found is output else f"a {type(output).__name__} that holds a {kind}"
    where = f" as output {number}" if number >= 0 else ""
    if isinstance(found, np.generic):
        remedy = "return rg.from_numpy(np.asarray(value)) for a tensor, or value.item() for a Python number"
    elif isinstance(found, np.ndarray):
        remedy = "return rg.from_numpy(array) for a tensor, or array.tolist() for plain Python numbers"
    else:
        remedy = "return rg.from_dlpack(array) for a tensor, as rg.from_numpy(array) does for an array of the host"
    return DtypeError(f"{name}.forward returned {what}{where}, through which no gradient would flow: {remedy}")


def _flowing(output: Any, marked: Args) -> bool:
    """Tell whether an output can carry a gradient."""
    return isinstance(output, Tensor) and output._data.dtype.kind in "fc" and not is_among(output, marked)


def _unchanged(node: FunctionNode, source: Tensor, number: int, flows: bool, several: bool) -> Tensor:
    """Return an alias of an argument that forward returned unchanged; the argument is its base (OU-09)."""
    alias = source.alias(apart=True)
    if flows:
        _place(alias, node, number)
    record_unchanged(alias, source, several)
    return alias


def record_unchanged(alias: Tensor, source: Tensor, several: bool) -> None:
    """Record that a Function, of one or `several` outputs, returned `source` unchanged, as `alias` (OU-09)."""
    if state.here.grad or not source._requires_grad:
        requires_grad = alias._requires_grad  # of no derivative, it does not as its base does (OU-26)
        record_output_view(alias, source, source if source._base is None else source._base, function_creation(several))
        alias._requires_grad = requires_grad
    else:  # unrecorded, what requires grad is detached, and no view
        record_alias(alias, source)


def _in_memory_of(given: Args, output: Tensor, args: Args) -> Tensor:
    """Return a view that forward made of a dense copy (H1) as the same view of the argument itself, if PyTorch, which
    copies nothing, has a view there."""
    for source, copy in zip(given, args, strict=True):
        if copy is output._base and copy is not source:
            place = geometry_of(output._data, copy._data)
            data = None if place is None else GeometricView(place, output.shape).over(source._data)
            if data is not None:
                output = output.alias()
                output._data = data
                record_function_view(output, source, place, FUNCTION, sure=True)
            break
    return output


def _changed(node: FunctionNode, source: Tensor, output: Tensor, number: int, flows: bool, outputs: int) -> Tensor:
    """Return an argument that forward changed in place, with this node as its producer (OU-16)."""
    if output is not source:  # forward got a dense copy, whose changes counted for both
        write_into(source._data, output._data)
    rebase_on_function(source, node if flows else None, number, outputs)
    if not flows and source._requires_grad:  # of no derivative, or not recorded: it keeps its history (OU-24)
        alias = source.alias(apart=True)
        record_alias(alias, source)
        return alias
    return source


def _fresh(node: FunctionNode, output: Tensor, number: int, flows: bool, several: bool) -> Tensor:
    """Return an output with memory of its own, or a view that forward made (OU-11)."""
    if is_captured(node, output):
        warn_of_captured(node._function)
    twin = output.alias()
    if flows:
        _place(twin, node, number)
    if output._base is not None:
        record_output_view(twin, output, output._base, function_creation(several))
    elif output._view is not None:
        record_alias(twin, output)
    if not flows and number in node._barren:
        node.note_end(number, twin)
    return twin


def is_captured(node: FunctionNode, output: Tensor) -> bool:
    """Tell whether an output that requires grad existed before forward ran; forward itself makes none, unless it
    records (FN-11)."""
    if not owns_grad(output):
        return False
    return output.grad_fn is None or (bool(node._edges) and output.grad_fn._sequence < node._sequence)


def warn_of_captured(function: type) -> None:
    """Warn that a Function returned a captured tensor that requires grad (OU-27)."""
    warnings.warn(
        f"{function.__name__} returned a tensor that it captured and that requires grad: what is returned is an alias, "
        "and no gradient flows to the captured tensor. Pass it as an argument instead",
        UserWarning,
        stacklevel=6,
    )


def _place(tensor: Tensor, node: FunctionNode, number: int) -> None:
    tensor._requires_grad = True
    tensor._grad_fn = node
    tensor.output_nr = number


def _position(tensor: Tensor, args: Args) -> int:
    for position, arg in enumerate(args):
        if arg is tensor:
            return position
    return -1


def is_among(tensor: Any, others: Sequence[Any]) -> bool:
    """Tell whether a tensor is one of others, by identity; `in` would compare elements."""
    for other in others:
        if other is tensor:
            return True
    return False
