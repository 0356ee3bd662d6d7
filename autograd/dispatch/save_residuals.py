"""Saving of residuals: the values that an op's derivative rule needs, with their versions, kept on its backward node.

Dispatch calls it for each new node; the node checks the versions when it runs (`nodes/op_node.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.recorder import Pending
from ..nodes.op_node import OpNode
from ..tensor.inference import refuse_saving
from ..tensor.tensor import Tensor


def keep_residuals(
    node: OpNode,
    saves: Sequence[int],
    gates: Sequence[int | None],
    operands: Sequence[Any],
    datas: Sequence[Any],
    results: Sequence[Tensor],
) -> None:
    """Save on a node what its rule needs: operands by position, results as -1, -2, ... (`Derivative.saves`).

    A value with a gate is saved only if the gradient of the gate's operand is wanted, or, for a gate counted from the
    end, if that operand is a tensor.

    Raises:
        RuntimeError: a tensor of inference mode would be kept (MD-04).
    """
    if not saves:
        node.saved_tensors = node.versions = ()
        return
    wants = node.needs_input_grad
    saved: list[Any] = []
    versions: list[Any] = []
    slot = 0
    for position in saves:
        if gates:
            gate = gates[slot]
            slot += 1
            if gate is not None and not wants[gate] and (gate >= 0 or not isinstance(operands[gate], Tensor)):
                saved.append(None)
                versions.append(None)
                continue
        held = operands[position] if position >= 0 else results[-1 - position]
        if isinstance(held, Tensor):
            data = datas[position] if position >= 0 else held._data
            if type(data) is Pending:
                data.record.retained(data.index)
            saved.append(data)
            counter = held._counter
            if counter is None:
                if held._inference is not None:
                    raise refuse_saving()
                counter = held._counter = [0, 0]
            versions.append((counter, counter[0]))
        else:
            saved.append(datas[position])  # a number, as the kernel was given it
            versions.append(None)
    node.saved_tensors = tuple(saved)
    node.versions = tuple(versions)


def keep_crossed(node: OpNode, first: Tensor, second: Any, data: Any, other: Any) -> None:
    """Save of two operands each where the gradient of the other one is wanted: what `keep_residuals` does for a rule
    that is `crossed`, of arrays on the host.

    Raises:
        RuntimeError: a tensor of inference mode would be kept (MD-04).
    """
    for_first, for_second = node.needs_input_grad
    version: Any = None
    second_version: Any = None
    if for_second:
        counter = first._counter
        if counter is None:
            if first._inference is not None:
                raise refuse_saving()
            counter = first._counter = [0, 0]
        version = (counter, counter[0])
    else:
        data = None
    if not for_first:
        other = None
    elif type(second) is Tensor:
        counter = second._counter
        if counter is None:
            if second._inference is not None:
                raise refuse_saving()
            counter = second._counter = [0, 0]
        second_version = (counter, counter[0])
    node.saved_tensors = (data, other)
    node.versions = (version, second_version)
