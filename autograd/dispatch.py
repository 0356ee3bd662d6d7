"""Calling a built-in op: promotion, then a kernel now or a record for later, then a node of the backward graph.

Rules of this file: the one path that every op takes. Rules of derivatives call the same functions with bare arrays,
which go straight to the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from raygrad.errors import DtypeError

from . import dtypes
from .modes import state
from .node import NO_EDGE, OpNode
from .recording import Pending
from .registry import Op
from .tensor import Tensor

_ARRAY = np.ndarray


def call(op: Op, operands: Sequence[Any], params: tuple[Any, ...] = ()) -> Any:
    """Apply `op` to operands (tensors, arrays, constants) and return its output, or the tuple of its outputs.

    Operands that are all arrays give arrays; with a tensor among them, tensors.
    """
    recorder = state.recorder
    needed = tensors = False
    for operand in operands:
        if isinstance(operand, Tensor):
            tensors = True
            if operand._requires_grad:
                needed = True
            if type(operand._data) is Pending:
                owner = operand._data.record.recorder
                if owner.closed:
                    operand._data = operand.read()
                elif recorder is None:
                    recorder = owner
    if not tensors:
        return _on_arrays(op, operands, params)
    if op.promotes is not None:
        operands = promoted(op, operands)
    if recorder is None:
        datas = [o._data if isinstance(o, Tensor) else o for o in operands]
        out = op.kernel("cpu", _compute_dtype(datas))(*datas, *params)
    else:
        datas = [recorder.leaf(o) if isinstance(o, Tensor) else o for o in operands]
        recorded = recorder.op(op, datas, params)
        out = recorded[0] if op.outputs == 1 else tuple(recorded)
    if op.outputs == 1:
        result = Tensor.made(out)
        if op.view:
            _share(result, operands[0])
        if needed and state.grad:
            _attach(op, operands, params, datas, (result,))
        return result
    results = tuple([Tensor.made(o) for o in out])
    if op.view:
        for result in results:
            _share(result, operands[0])
    if needed and state.grad:
        _attach(op, operands, params, datas, results)
    return results


def _on_arrays(op: Op, operands: Sequence[Any], params: tuple[Any, ...]) -> Any:
    return op.kernel("cpu", _compute_dtype(operands))(*operands, *params)


def _compute_dtype(datas: Sequence[Any]) -> Any:
    for data in datas:
        if isinstance(data, _ARRAY | Pending):
            return data.dtype
    return dtypes.get_default_dtype()


def _share(result: Tensor, base: Tensor) -> None:
    """Make a view share the version counter of its base (CX-14)."""
    result._version = base.counter()
    result._base = base._base if base._base is not None else base


def _attach(op: Op, operands: Sequence[Any], params: tuple[Any, ...], datas: Sequence[Any], results: tuple[Tensor, ...]) -> None:
    """Give the results a node, unless none of them can carry a gradient."""
    if not any(dtypes.is_differentiable(r.dtype) for r in results):
        return
    rule = op.derivative("cpu", _compute_dtype(datas))
    edges: list[Any] = []
    inputs: list[Any] = []
    for operand in operands:
        if isinstance(operand, Tensor):
            edges.append(operand.edge() if operand._requires_grad else NO_EDGE)
            inputs.append((operand.shape, operand.dtype))
        else:
            edges.append(None)
            inputs.append(None)
    saved: list[Any] = []
    versions: list[Any] = []
    if rule is not None:
        for position in rule.saves:
            held = operands[position] if position >= 0 else results[-1 - position]
            if isinstance(held, Tensor):
                counter = held.counter()
                data = datas[position] if position >= 0 else held._data
                if type(data) is Pending:
                    data.record.claimed(data.index)
                saved.append(data)
                versions.append((counter, counter[0]))
            else:
                saved.append(held)
                versions.append(None)
    node = OpNode(op, rule, params, edges, inputs, saved, versions, [(r.shape, r.dtype) for r in results])
    if type(results[0]._data) is Pending:
        node._origin = results[0]._data.record
    for number, result in enumerate(results):
        if dtypes.is_differentiable(result.dtype):
            result._requires_grad = True
            result.grad_fn = node
            result.output_nr = number


def promoted(op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    """Return the operands in the dtype in which they meet (PyTorch's promotion); numbers stay numbers."""
    first = None
    same = True
    for operand in operands:
        if isinstance(operand, Tensor):
            dtype = operand._data.dtype
            if first is None:
                first = dtype
            elif dtype is not first and dtype != first:
                same = False
        elif operand is not None and type(operand) is not float and type(operand) is not int:
            same = False
    if same and first is not None and first.kind == "f":
        return operands
    return _meet(op, operands)


def _meet(op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    from . import ops

    dims, zeros, numbers = [], [], []
    for operand in operands:
        if isinstance(operand, Tensor):
            (dims if operand._data.ndim else zeros).append(operand.dtype)
        elif isinstance(operand, np.ndarray):
            raise DtypeError(f"{op.name}: expected tensors or numbers, got an array; wrap it with raygrad.as_tensor")
        elif operand is not None:
            if not isinstance(operand, bool | int | float | complex | np.generic):
                raise DtypeError(f"{op.name}: unsupported operand of type {type(operand).__name__}; expected a tensor or a number")
            numbers.append(operand)
    target = dtypes.promote(dims, zeros, numbers)
    if op.promotes == "float":
        target = dtypes.floating(target)
    out: list[Any] = []
    for operand in operands:
        if isinstance(operand, Tensor):
            out.append(operand if operand.dtype == target else ops.to_dtype(operand, target))
        elif operand is None:
            out.append(None)
        else:
            out.append(operand.item() if isinstance(operand, np.generic) else operand)
    return out
