"""How operands of several dtypes meet: PyTorch's promotion, and what of it shows in the graph.

Rules of this file: an op computes with operands in the dtype in which they meet, and what its node keeps is so. Its
edges are those of the operands as they were given: no node stands between, and gradients are converted back by the op's
own (EN-20).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from raygrad.errors import DtypeError

from . import dtypes
from .devices.serving import is_elsewhere
from .exchange import remember_converted
from .node import Edge, next_sequence
from .op_node import OpNode
from .registry import Op, get_op
from .tensor import Tensor


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

    dims: list[Any] = []
    zeros: list[Any] = []
    numbers: list[Any] = []
    for operand in operands:
        if isinstance(operand, Tensor):
            (dims if operand._data.ndim else zeros).append(operand.dtype)
        elif isinstance(operand, np.ndarray) or is_elsewhere(operand):
            raise DtypeError(f"{op.name}: expected tensors or numbers, got an array; wrap it with raygrad.as_tensor")
        elif operand is not None:
            if not isinstance(operand, bool | int | float | complex | np.generic):
                raise DtypeError(
                    f"{op.name}: unsupported operand of type {type(operand).__name__}; expected a tensor or a number"
                )
            numbers.append(operand)
    target = dtypes.promote(dims, zeros, numbers)
    if op.admits is not None:
        op.admits(op.name, operands, target)
    if op.promotes == "float":
        target = dtypes.floating(target)
    out: list[Any] = []
    for operand in operands:
        if isinstance(operand, Tensor):
            if operand.dtype != target:
                converted = ops.to_dtype(operand, target)
                converted._counter = operand.counter()  # a user's entry that saves it saves the operand (CX-13)
                remember_converted(operand, converted._data)
                operand = converted
            out.append(operand)
        elif operand is None:
            out.append(None)
        else:
            number: Any = cast("np.generic[Any]", operand).item() if isinstance(operand, np.generic) else operand
            if target.kind in "iu" and target.itemsize < 8:  # a number too large for the dtype wraps round
                number = np.int64(number).astype(target).item()
            out.append(number)
    return out


def note_conversion(results: Sequence[Tensor], given: Sequence[Any], met: Sequence[Any]) -> None:
    """Note on the node of an op if it computed with operands, `met`, in another dtype than they were given in."""
    for operand, converted in zip(given, met, strict=True):
        if operand is not converted and isinstance(operand, Tensor):
            break
    else:
        return
    for result in results:
        node = result.grad_fn
        if isinstance(node, OpNode):
            node._converts = True
            return


def as_computed(data: Any, edge: Edge) -> Edge:
    """Return where the gradient of an operand that a node saved goes: to `edge`, through a conversion to the dtype in
    which the operand was given."""
    below, number = edge
    if below is None or (meta := below._metas[number]) is None or meta[1] == data.dtype:
        return edge
    op = get_op("to_dtype")
    node = OpNode()
    node.op = op
    node.rule = op.sole_rule or op.derivative("cpu", data.dtype)
    node.params = (data.dtype.name,)
    node._edges = (edge,)
    node.needs_input_grad = (True,)
    node.inputs = ((data.shape, meta[1]),)
    node._metas = ((data.shape, data.dtype),)
    node._sequence = next_sequence()
    node.saved_tensors = node.versions = ()
    return node, 0
