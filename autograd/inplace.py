"""Changing a tensor in place: one mechanism for `add_`, `x += y`, `x[i] = y` and all their kind.

Rules of this file: the value is always computed out of place. Eagerly it is then written into the tensor's memory; in a
session, where values are immutable, the tensor gets a next version (functionalisation). Either way its version counter
moves, and if gradient flows, the tensor takes the place of the result in the graph.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from raygrad.errors import AutogradError

from .modes import state
from .node import Node, OpNode
from .recording import Pending, Recorder

if TYPE_CHECKING:
    from .tensor import Tensor

_KINDS = "biufc"


def in_place(tensor: Any, compute: Callable[[Any], Any]) -> Any:
    """Give `tensor` the value of `compute(tensor)`, in place, and return it.

    Raises:
        RuntimeError: it is a leaf that requires grad (or a view of one) and gradients are recorded; the result has
            another shape, or a dtype that cannot be cast to the tensor's; it is a view and gradient flows.
    """
    _check_leaf(tensor)
    recorder = recorder_of(tensor)
    if recorder is not None:
        _check_unshared(tensor)
    result = _fitted(tensor, compute(tensor))
    if recorder is None and type(result._data) is not Pending:
        _write(tensor, result)
    else:
        recorder = recorder or result._data.record.recorder
        _check_unshared(tensor)
        old = tensor._data
        if state.grad and result._requires_grad:
            _keep_old_value(result.grad_fn, old, old)
        recorder.write(tensor, "_data", result._data)
        tensor.counter()[0] += 1
    if state.grad and result._requires_grad:
        _rebase(tensor, result)
    return tensor


def set_item(tensor: Any, index: Any, value: Any) -> None:
    """Do `tensor[index] = value`: eagerly and without gradient only the elements meant are touched."""
    from . import ops

    data = tensor._data
    plain = recorder_of(tensor) is None and type(getattr(value, "_data", None)) is not Pending
    if plain and not (state.grad and (tensor._requires_grad or getattr(value, "_requires_grad", False))):
        _check_leaf(tensor)
        _check_writeable(data)
        ops.write_item(data, index, value)
        tensor.counter()[0] += 1
    else:
        in_place(tensor, lambda old: ops.with_item(old, index, value))


def recorder_of(tensor: Tensor) -> Recorder | None:
    """Return the recorder that changes to `tensor` are told to, if any."""
    data = tensor._data
    if type(data) is Pending:
        owner = data.record.recorder
        if not owner.closed:
            return owner
    return state.recorder


def _check_leaf(tensor: Tensor) -> None:
    if not state.grad:
        return
    if tensor._requires_grad and tensor.grad_fn is None:
        raise AutogradError("a leaf Variable that requires grad is being used in an in-place operation.")
    base = tensor._base
    if base is not None and base._requires_grad and base.grad_fn is None:
        raise AutogradError("a view of a leaf Variable that requires grad is being used in an in-place operation.")


def _check_unshared(tensor: Tensor) -> None:
    if tensor._base is not None or tensor._viewed:
        what = "is a view" if tensor._base is not None else "has views"
        raise AutogradError(
            f"in a session this tensor (shape {list(tensor.shape)}) cannot be changed in place, because it {what}: "
            "values are immutable there, and the change would not be seen through the other name. Clone it first, or "
            "use the out-of-place operation."
        )


def _check_writeable(data: Any) -> None:
    if not data.flags.writeable:
        raise AutogradError(
            "this tensor's memory is read-only (an expanded view, or a value of a session): clone it before changing "
            "it in place"
        )


def _fitted(tensor: Tensor, result: Tensor) -> Tensor:
    """Return the result in the tensor's dtype."""
    from . import ops

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


def _write(tensor: Tensor, result: Tensor) -> None:
    """Write the result's data into the tensor's memory."""
    data: Any = tensor._data
    if type(data) is Pending:  # of a closed session
        data = tensor._data = tensor.read()
    _check_writeable(data)
    if state.grad and result._requires_grad:
        if tensor._base is not None:
            raise AutogradError(
                "differentiable in-place changes of views are not supported yet: use the out-of-place operation "
                "(x = x + y), or clone the view first"
            )
        _keep_old_value(result.grad_fn, data, None)
    np.copyto(data, result._data, casting="unsafe")
    tensor.counter()[0] += 1


def _keep_old_value(node: Node | None, old: Any, kept: Any) -> None:
    """Let a node that saved the value about to be replaced keep it: as `kept`, or as a copy."""
    if not isinstance(node, OpNode) or node.saved is None:
        return
    for slot, data in enumerate(node.saved):
        if data is old:
            if kept is None:
                kept = old.copy(order="K")
            node.saved[slot] = kept
            node.versions[slot] = None


def _rebase(tensor: Tensor, result: Tensor) -> None:
    """Put the tensor in the place of the result in the graph."""
    before, node = tensor.grad_fn, result.grad_fn
    assert node is not None
    if tensor._retains_grad and before is not None and before._retained is not None:
        before._retained.pop(tensor.output_nr, None)
        if node._retained is None:
            node._retained = {}
        node._retained[result.output_nr] = weakref.ref(tensor)
    tensor._requires_grad = True
    tensor.grad_fn = node
    tensor.output_nr = result.output_nr
