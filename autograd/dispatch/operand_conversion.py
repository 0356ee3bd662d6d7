"""Conversion of an op's operands to their common dtype, and its trace in the graph.

Dispatch calls it before the kernel; the rule is `promote` in `core/type_promotion.py`. An op computes, and its node
saves, in the common dtype. Its edges are those of the operands as given: no node stands between, and the op's own node
converts the gradients back (EN-20).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from raygrad.errors import DtypeError

from ..core import dtypes, type_promotion
from ..core.batched_data import Batched
from ..core.catalogue import ops
from ..devices.serving import is_device_array
from ..nodes.op_node import OpNode
from ..registry.registry import Op
from ..tensor.tensor import Tensor


def promote_operands(op: Op, operands: Sequence[Any]) -> Sequence[Any]:
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
    dims: list[Any] = []
    zeros: list[Any] = []
    numbers: list[Any] = []
    for operand in operands:
        if isinstance(operand, Tensor):
            (dims if operand._data.ndim else zeros).append(operand.dtype)
        elif isinstance(operand, np.ndarray) or is_device_array(operand):
            raise DtypeError(f"{op.name}: expected tensors or numbers, got an array; wrap it with raygrad.as_tensor")
        elif operand is not None:
            if not isinstance(operand, bool | int | float | complex | np.generic):
                raise DtypeError(
                    f"{op.name}: unsupported operand of type {type(operand).__name__}; expected a tensor or a number"
                )
            numbers.append(operand)
    target = type_promotion.promote(dims, zeros, numbers)
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


def remember_converted(tensor: Tensor, data: Any) -> None:
    """Note that a node may save `data`, which is what a tensor holds, in another dtype."""
    if type(data) is Batched:  # the values of all examples were converted, and noted there
        return
    known = [entry for entry in tensor._converted or () if entry() is not None]
    tensor._converted = [*known, weakref.ref(data)]


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
