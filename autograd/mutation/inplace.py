"""In-place changes of a tensor: the one mechanism behind `add_`, `x += y`, `x[i] = y` and their kind.

The value is computed out of place. Eagerly it is then written into the tensor's memory; in a session, where values are
immutable, the tensor and all that share its memory get a next version (functionalisation). The version counter moves in
either case. If gradient flows, the tensor takes the result's place in the graph (`rebase_history.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from raygrad.errors import AutogradError
from raygrad.tracebacks import users_level

from .. import ops
from ..core.batched_data import Batched
from ..core.modes import running_user_code, state
from ..core.recorder import Pending, Recorder
from ..core.transform_scopes import SCOPES
from ..devices.defined_sums import write_into
from ..devices.serving import device_guard, needs_device_guard, writable
from ..nodes.device_nodes import DeviceOpNode, OnDevice
from ..nodes.node import Node
from ..nodes.op_node import OpNode
from ..registry.registry import get_op
from ..storage.storage import owner_of, parent_of, views_of
from ..storage.stride_geometry import note_strides
from ..storage.version_counter import bump, note_exchanged
from ..storage.view import UNKNOWN, LostData, View, check_rebase, creation_meta
from ..storage.view_geometry import GeometricView
from ..tensor.inference import check_change
from ..vmap import whole_batch_change
from . import inplace_tangents
from .captured import check_not_captured
from .copy_slices import CopySlices, ViewChange
from .overlap import check_partial
from .rebase_history import rebase_history
from .set_data import exchange_converted, held_by
from .view_replay import check_sure, is_sure, replay_view, write_through_view

if TYPE_CHECKING:
    from ..functions.context import FunctionNode
    from ..tensor.tensor import Tensor

_KINDS = "biufc"


class DeviceCopySlices(OnDevice, CopySlices):
    """The same on a device."""


class DeviceChangeOfView(OnDevice, ViewChange):
    """The same on a device."""


def in_place(tensor: Any, compute: Callable[[Any], Any], *operands: Any) -> Any:
    """Give `tensor` the value of `compute(tensor)`, in place, and return it. What changes a part of it only says so by
    a result whose node is a `CopySlices`.

    Args:
        operands: what the change computes with, element by element, beside the tensor itself.

    Raises:
        RuntimeError: it is a leaf that requires grad (or a view of one) and gradients are recorded; the result has
            another shape, or a dtype that cannot be cast to the tensor's; its memory is read-only, or in part that of
            an operand.
    """
    if SCOPES:
        check_not_captured(tensor)
    if operands:
        check_partial(tensor, operands)
    if state.here.forward:
        return inplace_tangents.in_place(tensor, compute, _change)
    check_leaf(tensor)
    result = _fitted(tensor, compute(tensor))
    if type(result._data) is Batched and type(tensor._data) is not Batched:
        _write(tensor, result)  # which says why not
    flows = state.here.grad and result._requires_grad
    if flows:
        check_rebase(tensor)
    recorder = recorder_of(tensor, result)
    if recorder is None or tensor._shares_memory:
        _check_writeable(tensor)
    if flows:
        _keep_old_value(result.grad_fn, tensor, _copy if recorder is None else _itself)
    _announce(tensor, flows)
    if recorder is None and not flows:
        _write(tensor, result)
        return tensor
    values = _back_to_owner(tensor, result, recorder is not None)
    if recorder is None:
        _write(tensor, result)
    else:
        owner, value = values[-1]
        _rebind(recorder, tensor, owner, value._data)
    if flows:
        _rebase_base(values)
    if recorder is not None:
        _update_views(tensor, recorder)
        bump(tensor.counter())
    if flows:
        _keep_new_value(result, tensor, recorder is None)
        if tensor._base is not None and not isinstance(result.grad_fn, CopySlices):  # a part is a view of its own
            _ = tensor.grad_fn
    return tensor


def _change(tensor: Any, compute: Callable[[Any], Any]) -> Any:
    """Do `in_place` for what stands behind a tensor that is changed: its tangents, and the tensor of all examples."""
    with running_user_code():
        return in_place(tensor, compute)


def set_item(tensor: Any, index: Any, value: Any) -> None:
    """Do `tensor[index] = value`: eagerly and without gradient only the elements meant are touched."""
    if state.here.forward or (state.here.grad and (tensor._requires_grad or getattr(value, "_requires_grad", False))):
        try:
            in_place(tensor, lambda old: _with_item(old, index, value))
        except AutogradError:
            ops.take_apart(index, tensor.shape)  # that there is no such region comes first
            raise
    elif state.special or recorder_of(tensor, value) is not None:
        in_place(tensor, lambda old: ops.with_item(old, index, value))
    else:
        if SCOPES:
            check_not_captured(tensor)
        check_leaf(tensor)
        _check_writeable(tensor)
        _announce(tensor, False)
        data = tensor._data
        if needs_device_guard(data):
            with device_guard(data):
                ops.write_item(data, index, value)
        else:
            ops.write_item(data, index, value)
        bump(tensor.counter())


def _with_item(old: Tensor, index: Any, value: Any) -> Tensor:
    result = ops.with_item(old, index, value)
    node = result.grad_fn
    if not isinstance(node, OpNode) or node.op.name != "setitem":  # put at indices, which are saved
        return result
    whole = ops.is_whole((node.saved_tensors or ((),))[0], old.shape) and not _counts_from_the_end(index)
    return result if whole else of_part(result)


def _counts_from_the_end(index: Any) -> bool:
    """Tell whether a slice starts or ends at a place that is no bound of its axis: to PyTorch it is a part, even where
    that is all of the tensor, as `x[-3:]` of three elements is, and any of none."""
    for part in cast("tuple[Any, ...]", index) if isinstance(index, tuple) else (index,):
        if isinstance(part, slice):
            ends = cast("slice[Any, Any, Any]", part)
            start, stop = ends.start, ends.stop
            if (start is not None and int(start) != 0) or (stop is not None and int(stop) < 0):
                return True
    return False


def rebase_on_function(
    tensor: Any,
    node: FunctionNode | None,
    number: int,
    outputs: int,
    value: Pending | None = None,
    recorder: Recorder | None = None,
) -> None:
    """Give a tensor that a Function changed in place its new place in the graph: output `number` of `node` (OU-16).

    Args:
        tensor: an argument of the Function; its memory has been changed already.
        node: the Function's node; None where nothing is recorded or the output carries no gradient.
        number: which output it is.
        outputs: how many outputs the Function has.
        value: in a session, what it has become, to be recorded with `recorder`.

    Raises:
        AutogradError: it is a leaf that requires grad, or a view of one (OU-18); a view, and there are other outputs
            (OU-22); a view whose history must not be rewritten.
    """
    if tensor._shares_memory:
        _check_writeable(tensor)
    if node is not None:
        if tensor._base is not None and outputs > 1:
            raise AutogradError(
                f"{node._title()} modifies inplace an input that is a view, and has other outputs beside it: clone the "
                "view before it is passed, or split the Function in two, one of which changes and returns that input "
                "alone"
            )
        check_leaf(tensor)
        check_rebase(tensor)
    if tensor._storage is not None and (node is not None or tensor._requires_grad):
        _warn_of_hooks(tensor)
    if recorder is None:
        bump(tensor.counter())
        if node is None:
            return
    data = tensor._data if value is None else value
    values = _back_to_owner(tensor, tensor.made(data, node, number), recorder is not None)
    if recorder is not None:
        owner, whole = values[-1]
        _rebind(recorder, tensor, owner, whole._data)
    if node is not None:
        _rebase_base(values)
        if tensor._base is not None:
            node._of_part = True
        if tensor._grad is not None:  # that of the value before, unlike where an op changes it
            if recorder is None:
                tensor._grad = None
            else:
                recorder.write(tensor, "_grad", None)
    if recorder is not None:
        _update_views(tensor, recorder)
        bump(tensor.counter())
    if node is not None and tensor._base is not None:
        _ = tensor.grad_fn


def recorder_of(tensor: Tensor, value: Any) -> Recorder | None:
    """Return the recorder of the change, if any; fetch a value of a closed session."""
    if type(tensor._data) is Batched:
        return None  # the tensor of all examples is changed, which is recorded
    if state.here.recorder is not None:
        return state.here.recorder
    for held in (tensor, value):
        data = getattr(held, "_data", None)
        if type(data) is Pending:
            owner = data.record.recorder
            if not owner.closed:
                return owner
            held._data = held._read()
            if held is tensor and not held._data.flags.writeable:
                held._data = held._data.copy(order="K")
    return None


def check_leaf(tensor: Tensor) -> None:
    """Check that a tensor's place in the graph may be taken by a changed value."""
    check_change(tensor)
    view = tensor._view
    if not state.here.grad or (view is not None and view.creation is not None):
        return
    node: Any = tensor._grad_fn
    if view is not None and type(node) is OpNode and node.op.name == "strided_around":
        tensor._grad_fn, view.version = None, -1  # its history leads from the base from now on: there, all it shows is
    if tensor._requires_grad and tensor.grad_fn is None:
        raise AutogradError("a leaf Variable that requires grad is being used in an in-place operation.")
    base = tensor._base
    if base is not None and base.grad_fn is None and (base._requires_grad or tensor._requires_grad):
        raise AutogradError("a view of a leaf Variable that requires grad is being used in an in-place operation.")


def _write(tensor: Tensor, result: Tensor) -> None:
    """Write a value into the tensor's memory, and count the change."""
    counter = tensor.counter()
    before = counter[0]
    if type(tensor._data) is Batched or type(result._data) is Batched:
        value, new = whole_batch_change(tensor, result)
        _change(value, lambda old: new)
    elif 0 not in tensor.shape:
        write_into(tensor._data, result._data)
    if counter[0] == before:  # what is under a batch counts its own change, with the same counter
        bump(counter)


def _itself(value: Any) -> Any:
    return value


def _announce(tensor: Tensor, flows: bool) -> None:
    """Tell the saved-tensor hooks in force that a tensor is going to be changed in place, and the user where hooks of
    its views will not be called any more."""
    if tensor._storage is not None and (flows or tensor._requires_grad):
        _warn_of_hooks(tensor)
    for hooks in state.here.saving:
        if hooks.about_to_change is not None:
            hooks.about_to_change(tensor)


def _check_writeable(tensor: Tensor) -> None:
    if owner_of(tensor)._frozen or tensor._frozen:
        raise AutogradError(
            "a gradient that backward or a hook is given must not be changed in place, since others read it too: work "
            "on a copy (grad.clone()), or return a new tensor"
        )
    data = tensor._data
    if type(data) is Pending:  # in a session values change, and memory that the program shares follows
        data = owner_of(tensor)._data
    if type(data) not in (Batched, Pending) and not writable(data) and 0 not in tensor.shape:
        raise AutogradError(
            "unsupported operation: this tensor's memory is read-only (an expanded view, whose elements share places, "
            "or a value of a session): clone it before changing it in place"
        )


def _fitted(tensor: Tensor, result: Tensor) -> Tensor:
    """Return the result in the tensor's dtype."""
    if result.shape != tensor.shape:
        raise AutogradError(
            f"output with shape {list(tensor.shape)} doesn't match the broadcast shape {list(result.shape)}"
        )
    dtype = tensor.dtype
    if result.dtype == dtype:
        return result
    rank = _KINDS.index
    if rank(result.dtype.kind) > rank(dtype.kind) and not (result.dtype.kind in "iu" and dtype.kind in "iu"):
        raise AutogradError(f"result type {result.dtype} can't be cast to the desired output type {dtype}")
    return ops.to_dtype(result, dtype)


def _keep_old_value(node: Node | None, tensor: Tensor, copy: Callable[[Any], Any]) -> None:
    """Let the op of this change keep the value that is about to be replaced."""
    while isinstance(node, OpNode) and node.op.name == "to_dtype":  # the result was computed in another dtype
        edge = node._edges[0]
        node = None if edge is None else edge[0]
    if isinstance(node, OpNode):
        node.keep_old_value(tensor._data, tensor.counter(), copy)


def _keep_new_value(result: Tensor, tensor: Tensor, copied: bool) -> None:
    """Let a node that saved its result save the tensor that it was written to: a later change makes that stale."""
    node = result.grad_fn
    if isinstance(node, OpNode):
        for slot, data in enumerate(node.saved_tensors or ()):
            if data is result._data:
                counter = tensor.counter()
                node.keep_in(slot, tensor._data if copied else data, (counter, counter[0]))


def _copy(data: Any) -> Any:
    if type(data) is Batched:
        return Batched(data.value.clone(), data.dim, data.level)
    return data.copy(order="K")


def _back_to_owner(tensor: Tensor, value: Tensor, through_aliases: bool) -> list[tuple[Tensor, Tensor]]:
    """Return the tensor with its new value, its parent with the value that this means for it, and so on: up to the
    base, or through detached aliases to the owner of the memory."""
    values = [(tensor, value)]
    parent = parent_of(tensor)
    while parent is not None and (through_aliases or tensor._base is not None):
        value = write_through_view(tensor, parent, value)
        values.append((parent, value))
        tensor, parent = parent, parent_of(parent)
    return values


def _rebind(recorder: Recorder, changed: Tensor, tensor: Tensor, data: Any) -> None:
    """Give a tensor its next value, after the memory that it shares with `changed` was changed. Where that is counted
    as a change of the other only, who has saved this one sees the new value (CX-14)."""
    note_strides(tensor)
    if type(data) is Pending and data.ndim > 1 and parent_of(tensor) is None:
        order = tensor.axis_order()
        if order is None:
            data = ops.in_order_data(data, None, tensor._data, recorder)
        elif order != _NATURAL.get(len(order), order):
            data = _in_axis_order(recorder, data, order)
    before, counter = held_by(tensor), tensor._counter
    if tensor._shares_memory and parent_of(tensor) is None:
        recorder.note_change(tensor)
    recorder.write(tensor, "_data", data)
    if counter is not None and counter is not changed._counter:
        for old in before:
            note_exchanged(counter, old, tensor.made(data), written=True)
        exchange_converted(tensor, written=True)


_NATURAL: Final = {ndim: tuple(range(ndim)) for ndim in range(9)}
"""The order of the axes of a tensor in C order, by their number."""


def _in_axis_order(recorder: Recorder, value: Pending, order: tuple[int, ...]) -> Pending:
    """Return a value with its axes in an order from outermost to innermost: eagerly a tensor that is changed in place
    keeps it, whatever it is computed with."""
    (moved,) = recorder.op(get_op("permute"), (value,), (order,))
    (dense,) = recorder.op(get_op("contiguous"), (moved,), ())
    (laid,) = recorder.op(get_op("permute"), (dense,), (tuple([order.index(axis) for axis in range(len(order))]),))
    return laid


def set_next_value(tensor: Tensor, data: Any, recorder: Recorder) -> None:
    """Give a tensor its next value in a session, and with it the memory that it shows and all that show that; no
    gradient flows."""
    owner, value = _back_to_owner(tensor, tensor.made(data), True)[-1]
    _rebind(recorder, tensor, owner, value._data)
    _update_views(tensor, recorder)


def _rebase_base(values: list[tuple[Tensor, Tensor]]) -> None:
    """Rebase the history of the base among a tensor and its parents on its new value."""
    base, value = next((t, v) for t, v in values if t._base is None)
    if base is not values[0][0]:
        _through_view(values[0][1])
        of_part(value)
    rebase_history(base, value)


def _through_view(result: Tensor) -> None:
    """Mark the node of a result as the change of a view."""
    _become(result, ViewChange, DeviceChangeOfView)


def of_part(result: Tensor) -> Tensor:
    """Mark the node of a result as a change of a part of the tensor, and return the result."""
    _become(result, CopySlices, DeviceCopySlices)
    return result


def _become(result: Tensor, on_host: type[OpNode], on_device: type[OpNode]) -> None:
    """Give the node of a result another class, if it is that of an op as it is."""
    node: Any = result.grad_fn
    if node.__class__ is OpNode:
        node.__class__ = on_host
    elif node.__class__ is DeviceOpNode:
        node.__class__ = on_device


def _warn_of_hooks(changed: Tensor) -> None:
    """Say that hooks of views stay with the values that these had before their base was changed (HK-11)."""
    root = changed if changed._base is None else changed._base
    for view in views_of(root):
        node = view._grad_fn
        hooks = node and node._tensor_hooks
        if hooks and hooks.get(view.output_nr) and view._base is root and creation_meta(view) is None:
            warnings.warn(
                "the base of a view with hooks is being changed in place: they stay with the view's old value, and are "
                "not called for gradients of the new one; register them again after the change",
                UserWarning,
                stacklevel=users_level(),
            )


def refresh_views(owner: Tensor, recorder: Recorder) -> None:
    """Give the views of a tensor, in a session, what they show of its memory now: NumPy has written to that."""
    _update_views(owner, recorder)


def _update_views(changed: Tensor, recorder: Recorder) -> None:
    """Give the living views of changed memory their next values in a session, by replays of the views."""
    before, state.here.grad = state.here.grad, False
    try:
        for tensor in views_of(changed):
            view, parent = tensor._view, parent_of(tensor)
            if view is None or parent is None:
                continue
            if type(parent._data) is LostData or (_is_functions(view) and not is_sure(tensor)):
                data: Any = LostData(tensor)
            else:
                if not view.sure:
                    check_sure(tensor)
                data = replay_view(tensor, parent)._data
            _rebind(recorder, changed, tensor, data)
    finally:
        state.here.grad = before


def _is_functions(view: View) -> bool:
    """Tell whether a Function made a view on a worker, and may have copied: who changes its memory need not care."""
    return view.op is UNKNOWN or type(view.op) is GeometricView
