"""Application of a built-in op: promotion, a kernel now or a recorded node, then a node of the backward graph.

Every op takes this path; in a session `record_fast_path.py` is tried first. Derivative rules call the same functions
with bare arrays, which go straight to the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import DtypeError, MissingKernel

from ..core import dtypes
from ..core.batched_data import Batched, innermost_vmap_level, without_closed_levels
from ..core.modes import Modes, state
from ..core.recorder import Pending
from ..core.transform_handlers import handlers
from ..devices.serving import CPU, as_kernel_result, device_of, is_device_array, is_on_device
from ..nodes.anomaly import note_origin as remember_origin
from ..nodes.closed_session import fetch_from_closed_session
from ..nodes.device_nodes import DeviceOpNode
from ..nodes.node import NO_EDGE, next_sequence
from ..nodes.op_node import OpNode
from ..registry.registry import Op, get_op
from ..saved.saved_tensor_hooks import current_hooks
from ..saved.saved_tensors import pack_op
from ..storage.stride_geometry import reshapes_to_view
from ..storage.view import LostData, record_view
from ..tensor.inference import mark_inference
from ..tensor.tensor import Tensor
from .device_dispatch import missing, on_one_device, run
from .operand_conversion import note_conversion, promote_operands
from .record_fast_path import repeat_recorded_op
from .save_residuals import keep_residuals

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray
_FLOAT64 = np.dtype(np.float64)

_ABSENT: Any = object()
_new: Any = object.__new__

_PLAIN = (float, int, type(None))
"""What meets floating tensors without changing their dtype."""

MISUSE = (ValueError, IndexError, TypeError, AttributeError)
"""What NumPy raises on operands that do not fit; the shape rule then says it better."""

_NO_OPERANDS = (str, bytes, list, tuple, dict, set)


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
    if type(other) is Tensor:
        other_data = other._data
        if type(other_data) is not _ARRAY or other_data.dtype is not dtype:
            return call(op, (operand, other))
        needed = needed or other._requires_grad
    elif other is not _ABSENT and type(other) not in _PLAIN:
        return call(op, (operand, other))
    try:
        out = kernel(data) if other is _ABSENT else kernel(data, other_data)
    except MISUSE as error:
        raise explained(op, (), (data,) if other is _ABSENT else (data, other_data), error) from None
    if type(out) is not _ARRAY:
        out = np.asarray(out)
    if needed and here.grad:
        if other is _ABSENT:
            return _made(here, op, (operand,), (), (data,), out, True)
        return _made(here, op, (operand, other), (), (data, other_data), out, True)
    result = _new(Tensor)
    result._data = out
    result._counter = None
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
    # what is set here is read soon: an attribute of the instance is found in a third of the time of a default
    result._data = out
    result._counter = None
    if needed and here.grad and ((dtype := out.dtype) is _FLOAT64 or dtype.kind in "fc"):
        result._requires_grad = True
        result.output_nr = 0
        result._grad_fn = _node(op, operands, params, datas, (result,), None)
    else:
        result._requires_grad = False
    if op.view:
        _share(result, op, operands, params, here.grad)
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
    needed = tensors = batched = on_device = False
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
    if not tensors:
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
    if recorder is None and on_device:
        datas = [o.read() if isinstance(o, Tensor) else o for o in met]
        try:
            out = run(op, datas, params, _compute_dtype(datas))
        except MISUSE as error:
            raise explained(op, params, datas, error) from None
    elif recorder is None:
        datas = [o.read() if isinstance(o, Tensor) else o for o in met]
        out = _on_arrays(op, datas, params)
    else:
        misfit = _misfit(op, met)
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
        for result in results:
            _share(result, op, operands, params, state.here.grad)
    return results[0] if op.outputs == 1 else results


def _as_function(op: Op, operands: Sequence[Any], params: tuple[Any, ...]) -> Any:
    """Apply an op to tensors by the entries that a user registered; None if they do not serve this application."""
    if not any(isinstance(operand, Tensor) for operand in operands):
        return None
    if op.promotes is not None:
        operands = promote_operands(op, operands)
    return handlers.registered_op(
        op, operands, params, _compute_dtype(operands), kind_of([_held(operand) for operand in operands])
    )


def _held(operand: Any) -> Any:
    return operand._data if isinstance(operand, Tensor) else operand


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


def _kernel_for_arrays(op: Op, datas: Sequence[Any]) -> Any:
    """Return the kernel for bare arrays: raygrad's own where there is one, since its rules run on workers, too."""
    kind, dtype = kind_of(datas), _compute_dtype(datas)
    return op.builtin_kernel(kind, dtype) if op.builtin else op.kernel(kind, dtype)


def _misfit(op: Op, operands: Sequence[Any]) -> DtypeError | None:
    """Return the error for an operand that can be none, if there is one. (Other ops than these may take a tuple, an
    index say, or None, for an operand that is left out.)"""
    if op.promotes is None and len(op.operands) > 1:
        return None
    for position, operand in enumerate(operands):
        if isinstance(operand, _NO_OPERANDS) or (len(op.operands) <= 2 and not is_operand(operand)):
            name = op.operands[min(position, len(op.operands) - 1)].removeprefix("*")
            expected = "Tensor or a number" if len(op.operands) > 1 else "Tensor"
            kind: type[Any] = type(operand)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            return wrong_argument(op.name, name, position + 1, expected, kind.__name__)
    return None


def explained(op: Op, params: tuple[Any, ...], datas: Sequence[Any], error: Exception) -> Exception:
    """Return what to raise for an error of a kernel: that an operand is no tensor; what the shape rule says of the
    operands, if it refuses them; that there is no kernel for their dtype, if NumPy says so; else the error itself."""
    misfit = _misfit(op, datas)
    if misfit is not None:
        return misfit
    if op.infer is not None:
        try:
            op.infer(params, *datas)
        except (RuntimeError, *MISUSE) as better:
            return better
    kind = kind_of(datas)
    if kind != "cpu" and not op.has_kernel(kind, _compute_dtype(datas)):
        return missing(op, kind)
    if isinstance(error, TypeError) and "not supported for the input types" in str(error):
        names = ", ".join(sorted({str(data.dtype) for data in datas if hasattr(data, "dtype")}))
        return MissingKernel(f'"{op.name}" not implemented for {names}')
    return error


def is_operand(value: Any) -> bool:
    """Tell whether a value is a tensor, an array or a number."""
    return hasattr(value, "dtype") or isinstance(value, int | float | complex)


def wrong_argument(function: str, name: str, position: int, expected: str, kind: str) -> DtypeError:
    """Return the error for an argument of a wrong kind, as PyTorch words it; position 0 is none, of one given by
    name."""
    where = f" (position {position})" if position > 0 else ""
    return DtypeError(f"{function}(): argument '{name}'{where} must be {expected}, not {kind}")


def check_operand(name: str, value: Any, argument: str = "input", position: int = 1) -> None:
    """Check that an argument of a function that would take anything is a tensor, an array or a number.

    Raises:
        TypeError: it is none.
    """
    if not is_operand(value):
        raise wrong_argument(name, argument, position, "Tensor", type(value).__name__)


def kind_of(datas: Sequence[Any]) -> str:
    """Return the kind of device of operands: "cpu" if all are on the host."""
    for data in datas:
        if is_on_device(data):
            return device_of(data).type
    return "cpu"


def _compute_dtype(datas: Sequence[Any]) -> Any:
    for data in datas:
        if hasattr(data, "dtype"):
            return data.dtype
    return dtypes.get_default_dtype()


def _share(result: Tensor, op: Op, operands: Sequence[Any], params: tuple[Any, ...], recorded: bool) -> None:
    """Make a result a view of the first operand, if it shares the memory."""
    base, out = operands[0], result._data
    data = base._data
    sure = True
    if type(out) is _ARRAY or is_device_array(out):
        if out is not data and out.base is not data and (out.base is None or out.base is not data.base):
            return
    elif op.name == "reshape":  # it copies what it cannot view
        viewed = reshapes_to_view(base, out.shape)
        if viewed is False:
            return
        sure = viewed is True
    if base._shares_memory:
        result._shares_memory = True
    record_view(result, op, operands, params, sure, recorded)


def attach_node(
    op: Op, operands: Sequence[Any], params: tuple[Any, ...], datas: Sequence[Any], results: tuple[Tensor, ...]
) -> None:
    """Give the results a node, unless none of them can carry a gradient."""
    metas = [(result._data.shape, result._data.dtype) for result in results]
    carrying = [dtype.kind in "fc" for _, dtype in metas]
    if not any(carrying):
        return
    if any(value.device is not CPU for value in (*results, *operands) if isinstance(value, Tensor)):
        node: Any = _node(op, operands, params, datas, results, metas, DeviceOpNode)
        node._places = [result.device for result in results]
    else:
        node = _node(op, operands, params, datas, results, metas)
    if type(results[0]._data) is Pending:
        node._origin = results[0]._data.record
    for number, result in enumerate(results):
        if carrying[number]:
            result._requires_grad = True
            result._grad_fn = node
            result.output_nr = number
    here = state.here
    if here.special:
        if here.anomaly is not None:
            remember_origin(node)
        if here.saving:
            pack_op(node, current_hooks())


_WANTED = (True,)


def _node(
    op: Op,
    operands: Sequence[Any],
    params: tuple[Any, ...],
    datas: Sequence[Any],
    results: tuple[Tensor, ...],
    metas: Sequence[Any] | None,
    kind: type[OpNode] = OpNode,
) -> OpNode:
    """Return the node of one application: its edges, and what its rule keeps. With `metas` None there is one output."""
    edges: Any
    wants: Any
    inputs: Any
    edge: Any
    producer: Any
    if len(operands) == 1:
        operand = operands[0]
        producer = operand._grad_fn
        edge = operand.edge() if producer is None else (producer, operand.output_nr)
        edges = (edge,)
        wants = _WANTED
        inputs = edge[0]._metas  # who made it knows what it is: that is shared
        if len(inputs) > 1:
            inputs = (inputs[edge[1]],)
        data = datas[0]
        if inputs[0][0] != data.shape:  # it was assigned to `.data` since
            inputs = ((data.shape, data.dtype),)
    else:
        edges = []
        wants = []
        inputs = []
        for operand in operands:
            if not isinstance(operand, Tensor):
                edges.append(None)
                wants.append(False)
                inputs.append(None)
            elif operand._requires_grad:
                producer = operand._grad_fn
                edge = operand.edge() if producer is None else (producer, operand.output_nr)
                edges.append(edge)
                wants.append(True)
                meta = edge[0]._metas[edge[1]]
                data = operand._data
                inputs.append(meta if meta[0] == data.shape else (data.shape, data.dtype))
            else:
                edges.append(NO_EDGE)
                wants.append(False)
                data = operand._data
                inputs.append((data.shape, data.dtype))
        edges, wants, inputs = tuple(edges), tuple(wants), tuple(inputs)
    if metas is None:
        data = results[0]._data
        meta = inputs[0]
        if meta is None or meta[1] is not data.dtype or meta[0] != data.shape:
            metas = ((data.shape, data.dtype),)
        else:
            metas = inputs if len(inputs) == 1 else (meta,)
    rule = op.sole_rule or op.derivative(kind_of(datas), _compute_dtype(datas))
    # an __init__ of so many arguments would take as long as all of this
    node = _new(kind)
    node.op = op
    node.rule = rule
    node.params = params
    node._edges = edges
    node.needs_input_grad = wants
    node.inputs = inputs
    node._metas = metas
    node._sequence = next_sequence()
    if rule is None:
        node.saved_tensors = node.versions = ()
    else:
        keep_residuals(node, rule.saves, rule.gates, operands, datas, results)
    return node
