"""The call of a user-written backward (or vjp), and the checks on the gradients that it returns (BW-01 to BW-18).

Outside of vmap as well as inside: eager nodes, workers with a recorded vjp, and `backward` (batched gradients) call it;
the mode in force is theirs to set. It materialises undefined gradients and fits shape and dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from raygrad.errors import AutogradError

from ..core.array_layout import as_dense, is_dense_or_expanded
from ..core.modes import state
from ..core.recorder import Pending
from ..core.transform_scopes import SCOPES
from ..devices.serving import CPU, as_kernel_result, device_guard, is_device_array
from ..dispatch.device_dispatch import zeros_on
from ..nodes.closed_session import settle
from ..registry.vjp_rules import Meta, sum_to
from ..tensor.tangent_levels import share_tangents
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from .context import FunctionNode

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray
_new: Any = object.__new__


def backward_on_arrays(node: FunctionNode, grads: Sequence[Any]) -> Sequence[Any]:
    """Return the gradients of a Function's inputs as arrays, given those of its outputs, by running its backward.

    Raises:
        AutogradError: as `run_backward`.
    """
    traits, grad = node._traits, grads[0]
    if len(grads) == 1 and type(grad) is _ARRAY and not traits.boxed:  # nearly always
        tensor = _new(Tensor)
        tensor._data = grad if grad.flags.c_contiguous else as_dense(grad)
        tensor._requires_grad = False
        tensor._frozen = True
        if SCOPES:
            tensor._made_in = state.here.scope
        result = traits.backward(node, tensor)
    elif node._of_part and _is_nothing(grads):
        return [None] * len(node._inputs)
    elif type(grad) is not _ARRAY and (held := next(filter(is_device_array, grads), None)) is not None:
        given = _materialised(node, [for_user_code(g) for g in grads])
        with device_guard(held):
            result = traits.backward(node, given) if traits.boxed else traits.backward(node, *given)
        return [None if g is None else g._data for g in _checked(node, result, False)]
    else:
        given = _materialised(node, [for_user_code(g) for g in grads])
        result = traits.backward(node, given) if traits.boxed else traits.backward(node, *given)
    inputs = node._inputs
    if len(inputs) == 1:  # a single gradient that fits: nearly always
        meta = inputs[0]
        if type(result) is Tensor and meta is not None and node.needs_input_grad[0]:
            data: Any = result._data
            if type(data) is _ARRAY and data.shape == meta[0] and data.dtype is meta[1]:
                return (data,)
    elif type(result) is tuple and (fitting := _fitting(node, cast("tuple[Any, ...]", result))) is not None:
        return fitting
    return [None if g is None else g._data for g in _checked(node, result, False)]


def _fitting(node: FunctionNode, grads: tuple[Any, ...]) -> list[Any] | None:
    """Return the gradients that a backward returned as arrays, if each is a tensor that fits its argument; else None:
    then `_checked` says what is wrong, or makes them fit."""
    inputs = node._inputs
    if len(grads) != len(inputs) or node._input_places is not None:
        return None
    out: list[Any] = []
    for grad, meta, edge in zip(grads, inputs, node._edges, strict=True):
        if grad is None:
            out.append(None)
        elif type(grad) is not Tensor or meta is None or edge is None:
            return None
        elif edge[0] is None:
            out.append(None)
        else:
            data: Any = grad._data
            if type(data) is not _ARRAY or data.dtype is not meta[1] or data.shape != meta[0]:
                return None
            out.append(data)
    return out


def run_backward(node: FunctionNode, grads: Sequence[Tensor | None], create_graph: bool) -> list[Tensor | None]:
    """Run the user's backward and check its results; return one gradient per argument, None for those not requested.

    Undefined gradients are materialised first, as zeros, unless the context says otherwise (CX-20).

    Raises:
        MissingDerivative: neither backward nor vjp is written.
        AutogradError: wrong number, type, shape or dtype of gradients (BW-02 to BW-08).
    """
    if node._of_part and _is_nothing(grads):
        return [None] * len(node._inputs)
    given = _materialised(node, grads)
    traits = node._function._traits
    before, ambient = state.here.grad, state.here.recorder
    state.here.grad = create_graph
    if not create_graph and ambient is not None:
        state.recorder = None
    try:
        result = traits.backward(node, given) if traits.boxed else traits.backward(node, *given)
    finally:
        state.here.grad = before
        if state.here.recorder is not ambient:
            state.recorder = ambient
    return _checked(node, result, create_graph)


def _is_nothing(grads: Sequence[Any]) -> bool:
    """Tell whether every gradient is undefined."""
    return all(grad is None for grad in grads)


def _materialised(node: FunctionNode, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return the gradients, with zeros for undefined ones if the context materialises (CX-20, CX-21)."""
    if not node.materialize_grads:
        return list(grads)
    everything = node._materialize_non_diff_grads
    return [
        zeros_on(node._device(number), *meta)
        if grad is None and meta is not None and (everything or (meta[1].kind in "fc" and number not in node._barren))
        else grad
        for number, (grad, meta) in enumerate(zip(grads, node._metas, strict=True))
    ]


def for_user_code(grad: Any) -> Tensor | None:
    """Return a gradient for user code: dense and read-only (BW-15)."""
    if grad is None:
        return None
    tensor = Tensor.made(as_dense(grad) if type(grad) is _ARRAY or is_device_array(grad) else grad)
    tensor._frozen = True
    return tensor


def _checked(node: FunctionNode, result: Any, create_graph: bool) -> list[Tensor | None]:
    """Return the results of a backward as one gradient per argument (BW-01 to BW-09)."""
    given = cast("tuple[Any, ...]", result) if isinstance(result, tuple) else (result,)
    inputs, edges = node._inputs, node._edges
    expected = len(inputs)
    if len(given) != expected and (len(given) < expected or any(extra is not None for extra in given[expected:])):
        raise AutogradError(
            f"function {node._title()} returned an incorrect number of gradients "
            f"(expected {expected}, got {len(given)})"
        )
    out: list[Tensor | None] = []
    for i in range(expected):
        grad, meta, edge = given[i], inputs[i], edges[i]
        if grad is None:
            out.append(None)
            continue
        if meta is None:
            raise AutogradError(
                f"function {node._title()} returned a gradient different than None at position {i + 1}, but the "
                "corresponding forward input was not a Variable"
            )
        if not isinstance(grad, Tensor):
            grad = _from_array(node, i, grad)
        if edge is None or edge[0] is None:
            out.append(None)
            continue
        data = grad._data
        if type(data) is Pending:
            data = settle(grad)._data
        if node._input_places is not None or is_device_array(data):
            expected_device = CPU if node._input_places is None else node._input_places[i]
            if expected_device is not None and grad.device != expected_device:
                raise AutogradError(
                    f"Function {node._title()} returned an invalid gradient at index {i} - expected device "
                    f"{expected_device} but got {grad.device}"
                )
        if data.shape != meta[0] or data.dtype != meta[1]:
            grad = _fitted(node, i, grad, meta, create_graph)
        out.append(grad if create_graph or not grad._requires_grad else share_tangents(grad, grad.detach()))
    return out


def _from_array(node: FunctionNode, index: int, grad: Any) -> Tensor:
    """Return an array that backward returned as a tensor; raygrad accepts both (BW-06)."""
    if not isinstance(grad, np.ndarray | np.generic) and not is_device_array(grad):
        raise AutogradError(
            f"expected Variable or None (got {type(grad).__name__}) at position {index + 1} of what {node._title()} "
            "returned; return tensors, or arrays"
        )
    return Tensor.made(as_kernel_result(grad))


def _fitted(node: FunctionNode, index: int, grad: Tensor, meta: Meta, create_graph: bool) -> Tensor:
    """Return a gradient summed, reshaped or converted to its input's shape and dtype."""
    shape, dtype = meta
    if grad.shape != shape:
        try:
            grad = sum_to(grad if create_graph else share_tangents(grad, grad.detach()), shape)
        except AutogradError:
            raise AutogradError(
                f"Function {node._title()} returned an invalid gradient at index {index} - got {list(grad.shape)} but "
                f"expected shape compatible with {list(shape)}"
            ) from None
    if grad.dtype != dtype:
        if grad.dtype.kind == "c" and dtype.kind != "c":
            raise AutogradError(
                f"Function {node._title()} returned a complex gradient at index {index} for a real input; "
                "return its real part"
            )
        grad = grad.to(dtype)
    return grad


def densified(tensor: Tensor) -> Tensor:
    """Return `tensor`, or a dense copy if its array is neither dense nor an expansion of a dense one (H1). Gradients of
    the copy are the tensor's, and writes to the tensor make the saved copy stale."""
    data = tensor._data
    if (
        (type(data) is not _ARRAY and not is_device_array(data))
        or data.flags.c_contiguous
        or is_dense_or_expanded(data)
    ):
        return tensor
    copy = Tensor.made(as_dense(data), tensor.grad_fn, tensor.output_nr)
    copy.share_counter(tensor)
    share_tangents(tensor, copy)
    if tensor._requires_grad and tensor.grad_fn is None:
        copy._requires_grad = True
        accumulator: Any = tensor.edge()[0]
        copy._accumulator = lambda: accumulator
    return copy
