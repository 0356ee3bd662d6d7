"""Application of a built-in op: promotion, a kernel now or a recorded node, then a node of the backward graph.

Every op takes this path; in a session `record_fast_path.py` is tried first. Derivative rules call the same functions
with bare arrays, which go straight to the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.batched_data import Batched, innermost_vmap_level, without_closed_levels
from ..core.modes import Modes, state
from ..core.recorder import Pending
from ..core.transform_handlers import handlers
from ..core.transform_scopes import SCOPES
from ..devices.serving import as_kernel_result, is_on_device
from ..nodes.closed_session import fetch_from_closed_session
from ..registry.registry import Op, get_op
from ..storage.view import LostData
from ..tensor.inference import mark_inference
from ..tensor.tensor import Tensor
from .backward_node import attach_node, node_of, node_of_two, share_memory
from .device_dispatch import compute_dtype, kind_of, on_one_device, run
from .operand_conversion import note_conversion, promote_operands
from .operand_errors import MISUSE, NUMBERS_ALONE, explained, misfit_of, no_tensor
from .record_fast_path import repeat_recorded_op

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray
_FLOAT64 = np.dtype(np.float64)

_ABSENT: Any = object()
_new: Any = object.__new__

_PLAIN = (float, int, type(None))
"""What meets floating tensors without changing their dtype."""


def call(op: Op, operands: Sequence[Any], params: tuple[Any, ...] = ()) -> Any:
    """Apply `op` to operands (tensors, arrays, constants) and return its output, or the tuple of its outputs.

    Operands that are all arrays give arrays; with a tensor among them, tensors.
    """
    here = state.here
    if here.special:
        if here.only_recorder is not None and (again := repeat_recorded_op(here, op, operands, params)) is not None:
            return again
        return _general(op, operands, params)
    # The common case, in one pass over the operands: arrays at hand that need not be converted to meet.
    datas: list[Any] = []
    first = None
    needed = odd = False
    for operand in operands:
        if type(operand) is Tensor or isinstance(operand, Tensor):
            data = operand._data
            if type(data) is not _ARRAY:
                return _general(op, operands, params)
            dtype = data.dtype
            if dtype is not first:
                if first is None:
                    first = dtype
                elif dtype != first:
                    odd = True
            if operand._requires_grad:
                needed = True
            datas.append(data)
        else:
            if type(operand) not in _PLAIN:
                odd = True
            datas.append(operand)
    if first is None:
        if not odd and operands and op.name not in NUMBERS_ALONE:
            raise no_tensor(op, operands)
        return _on_arrays(op, operands, params)
    if (odd or (first is not _FLOAT64 and first.kind != "f")) and op.promotes is not None:
        return _general(op, operands, params)
    kernel = op.sole
    if kernel is None or op.outputs != 1:
        if (
            op.custom
            and innermost_vmap_level(operands) is None
            and (results := _as_function(op, operands, params)) is not None
        ):
            return results
        outs = _on_arrays(op, datas, params)
        return _several(op, operands, params, datas, (outs,) if op.outputs == 1 else outs, needed)
    try:
        out = kernel(*datas, *params)
    except MISUSE as error:
        raise explained(op, params, datas, error) from None
    return _made(here, op, operands, params, datas, out if type(out) is _ARRAY else np.asarray(out), needed)


def call_few(op: Op, operand: Any, other: Any = _ABSENT) -> Any:
    """Apply an op of one or two operands and no parameters: what `call` does, in half the steps."""
    kernel = op.simple
    if type(operand) is not Tensor or kernel is None:
        return _any(op, operand, other)
    here = state.here
    data = operand._data
    if here.special or type(data) is not _ARRAY:
        if here.only_recorder is not None:
            again = repeat_recorded_op(here, op, (operand,) if other is _ABSENT else (operand, other), ())
            if again is not None:
                return again
        return _any(op, operand, other)
    dtype = data.dtype
    if dtype is not _FLOAT64 and dtype.kind != "f" and op.promotes is not None:
        return _any(op, operand, other)
    needed = operand._requires_grad
    other_data = other
    if other is _ABSENT:
        try:
            out = kernel(data)
        except MISUSE as error:
            raise explained(op, (), (data,), error) from None
    else:
        if type(other) is Tensor:
            other_data = other._data
            if type(other_data) is not _ARRAY or other_data.dtype is not dtype:
                return call(op, (operand, other))
            needed = needed or other._requires_grad
        elif type(other) not in _PLAIN:
            return call(op, (operand, other))
        try:
            out = kernel(data, other_data)
        except MISUSE as error:
            raise explained(op, (), (data, other_data), error) from None
    if type(out) is not _ARRAY:
        out = np.asarray(out)
    result = _new(Tensor)
    # what is set here is read soon: an attribute of the instance is found in a third of the time of a default
    result._data = out
    result._counter = None
    if SCOPES:
        result._made_in = here.scope
    if needed and here.grad and ((dtype := out.dtype) is _FLOAT64 or dtype.kind in "fc"):
        result._requires_grad = True
        result.output_nr = 0
        if other is _ABSENT:
            result._grad_fn = node_of(op, (operand,), (), (data,), (result,), None)
        else:
            result._grad_fn = node_of_two(op, operand, other, data, other_data, out, result)
    else:
        result._requires_grad = False
    return result


def _any(op: Op, operand: Any, other: Any) -> Any:
    """Slow path of `call_few`: operands that need promotion, recording or another device."""
    return call(op, (operand,) if other is _ABSENT else (operand, other))


def _made(
    here: Modes,
    op: Op,
    operands: Sequence[Any],
    params: tuple[Any, ...],
    datas: Sequence[Any],
    out: np.ndarray[Any, Any],
    needed: bool,
) -> Tensor:
    """Return the one output as a tensor, with its node if one is needed."""
    result = _new(Tensor)
    result._data = out
    result._counter = None
    if SCOPES:
        result._made_in = here.scope
    if needed and here.grad and ((dtype := out.dtype) is _FLOAT64 or dtype.kind in "fc"):
        result._requires_grad = True
        result.output_nr = 0
        result._grad_fn = node_of(op, operands, params, datas, (result,), None)
    else:
        result._requires_grad = False
    if op.view:
        share_memory(result, op, operands, params, here.grad)
    return result


def call_met(op: Op, given: Sequence[Any], met: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Apply `op` to operands that have been converted to `met`; in the graph are those that were given."""
    return _general(op, given, params, met)


def _general(op: Op, operands: Sequence[Any], params: tuple[Any, ...], met: Sequence[Any] | None = None) -> Any:
    """Apply `op` in any case: recording, operands that must be converted (or are, to `met`), values of a closed
    session."""
    if op.custom and (results := _as_function(op, operands, params)) is not None:
        return results
    recorder = state.here.recorder
    needed = tensors = batched = on_device = arrays = False
    for operand in operands:
        if isinstance(operand, Tensor):
            tensors = True
            if operand._requires_grad:
                needed = True
            if type(operand._data) is LostData:
                operand._data.refuse()
            if type(operand._data) is Pending:
                owner = operand._data.record.recorder
                if owner.closed:
                    fetch_from_closed_session(operand)
                elif recorder is None:
                    recorder = owner
            if is_on_device(operand._data):
                on_device = True
            elif type(operand._data) is Batched:
                batched = True
                if not operand._data.level.entered:
                    alive = [without_closed_levels(o) if isinstance(o, Tensor) else o for o in operands]
                    return _general(op, alive, params)
        elif type(operand) not in _PLAIN:
            arrays = True
    if not tensors:
        if not arrays and operands and op.name not in NUMBERS_ALONE:
            raise no_tensor(op, operands)
        return _on_arrays(op, operands, params)
    if on_device and not batched:
        operands, met = on_one_device(op, operands), None
    if met is None:
        met = operands if op.promotes is None else promote_operands(op, operands)
    if batched:
        made = handlers.batched_op(op, met, params, needed)
        if state.here.forward:
            handlers.forward_op(op, met, params, made)
        return made
    if recorder is None:
        if state.here.outside is not None:
            state.here.computes()
        datas = [o._read() if isinstance(o, Tensor) else o for o in met]
        out = (_on_device if on_device else _on_arrays)(op, datas, params)
    else:
        misfit = misfit_of(op, met)
        if misfit is not None:
            raise misfit
        datas = [recorder.leaf(o) if isinstance(o, Tensor) else o for o in met]
        out = recorder.op(op, datas, params)
    outs = (out,) if recorder is None and op.outputs == 1 else out
    result = _several(op, operands, params, datas, outs, needed)
    if met is not operands:
        note_conversion((result,) if op.outputs == 1 else result, operands, met)
    if state.here.forward:
        handlers.forward_op(op, met, params, result)
    if state.here.inference:
        for made in (result,) if op.outputs == 1 else result:
            if made._base is None:
                mark_inference(made)
    return result


def _several(
    op: Op, operands: Sequence[Any], params: tuple[Any, ...], datas: Sequence[Any], outs: Sequence[Any], needed: bool
) -> Any:
    """Return the outputs as tensors, with their node: a tuple, or the one."""
    results = tuple([Tensor.made(out) for out in outs])
    if needed and state.here.grad:
        attach_node(op, operands, params, datas, results)
    if op.view:
        for number, result in enumerate(results):
            share_memory(result, op, operands, params, state.here.grad, number)
    return results[0] if op.outputs == 1 else results


def _as_function(op: Op, operands: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Apply an op to tensors by the entries that a user registered; None if they do not serve this application."""
    if not any(isinstance(operand, Tensor) for operand in operands):
        return None
    if op.promotes is not None:
        operands = promote_operands(op, operands)
    return handlers.registered_op(
        op,
        operands,
        params,
        compute_dtype(operands),
        kind_of([one._data if isinstance(one, Tensor) else one for one in operands]),
    )


def apply_op(name: str, *operands: Any, params: tuple[Any, ...] = ()) -> Any:
    """Apply a registered op by its name: how ops that users declare are called.

    Raises:
        GraphError: no such op.
    """
    return call(get_op(name), operands, params)


def _on_arrays(op: Op, datas: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Run the kernel. Its results are arrays, also zero-dimensional ones, of which NumPy makes scalars."""
    kernel = op.bare or _kernel_for_arrays(op, datas)
    try:
        out = kernel(*datas, *params)
    except MISUSE as error:
        raise explained(op, params, datas, error) from None
    if type(out) is _ARRAY:
        return out
    if op.outputs == 1:
        return as_kernel_result(out)
    return tuple([o if type(o) is _ARRAY else as_kernel_result(o) for o in out])


def _on_device(op: Op, datas: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Run the kernel for the device of the operands."""
    try:
        return run(op, datas, params, compute_dtype(datas))
    except MISUSE as error:
        raise explained(op, params, datas, error) from None


def _kernel_for_arrays(op: Op, datas: Sequence[Any]) -> Any:
    """Return the kernel for bare arrays: raygrad's own where there is one, since its rules run on workers, too."""
    kind, dtype = kind_of(datas), compute_dtype(datas)
    return op.builtin_kernel(kind, dtype) if op.builtin else op.kernel(kind, dtype)
