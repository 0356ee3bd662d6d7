"""Fast path for recording an op in a session that was recorded before over equal specs, as a training loop does.

`dispatch` tries it first. It promotes, infers and looks up nothing: the recorder finds its template of the op
(`Recorder.repeat_op`). Off the fast path it returns None, and `dispatch` takes the general path with equal results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.modes import Modes
from ..core.recorder import Pending
from ..core.transform_scopes import SCOPES
from ..nodes.node import NO_EDGE, next_sequence
from ..nodes.op_node import OpNode
from ..registry.registry import Derivative, Op
from ..registry.vjp_rules import Meta
from ..tensor.presumed_tensor import PresumedTensor
from ..tensor.tensor import Tensor
from .save_residuals import keep_residuals

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray
_new: Any = object.__new__
_WANTED = (True,)


class SharedNodeFields:
    """What the backward nodes of an op over certain specs share."""

    __slots__ = ("carries", "gates", "inputs", "metas", "rule", "saves")

    def __init__(self, op: Op, operands: Sequence[Any], value: Pending) -> None:
        dtype = next(operand.dtype for operand in operands if type(operand) is Pending)
        self.rule: Derivative | None = op.sole_rule or op.derivative("cpu", dtype)
        self.inputs: tuple[Meta | None, ...] = tuple(
            [(operand.shape, operand.dtype) if type(operand) is Pending else None for operand in operands]
        )
        meta = (value.shape, value.dtype)
        self.metas: tuple[Meta, ...] = self.inputs if self.inputs == (meta,) else (meta,)  # type: ignore[assignment]
        self.saves: Sequence[int] = () if self.rule is None else self.rule.saves
        self.gates: Sequence[int | None] = () if self.rule is None else self.rule.gates
        self.carries = value.dtype.kind in "fc"


def repeat_recorded_op(here: Modes, op: Op, operands: Sequence[Any], params: tuple[Any, ...]) -> Tensor | None:
    """Apply an op of one output while `here` records and does nothing else that is special; None if that cannot be done
    by what is known."""
    recorder: Any = here.only_recorder
    if op.view or op.custom or op.outputs != 1:
        return None
    datas: list[Any] = []
    first = None
    needed = False
    for operand in operands:
        if type(operand) is Tensor:
            data = operand._data
            if type(data) is not Pending and type(data) is not _ARRAY:
                return None
            dtype = data.dtype
            if dtype is not first:
                if first is not None:
                    return None
                first = dtype
            if type(data) is not Pending or operand._shares_memory:
                data = recorder.leaf(operand)
            if operand._requires_grad:
                needed = True
            datas.append(data)
        elif type(operand) is float or type(operand) is int:
            datas.append(operand)
        elif type(operand) is PresumedTensor and operand.become_plain():
            return repeat_recorded_op(here, op, operands, params)
        else:
            return None
    if first is None or (first.kind != "f" and op.promotes is not None):
        return None
    value: Pending | None = recorder.repeat_op(op, datas, params)
    if value is None:
        return None
    result = _new(Tensor)
    result._data = value
    result._counter = None
    result._requires_grad = False
    if SCOPES:
        result._made_in = here.scope
    if not needed or not here.grad:
        return result
    record: Any = value.record
    shared: SharedNodeFields | None = record.template.node
    if shared is None:
        shared = record.template.node = SharedNodeFields(op, datas, value)
    if not shared.carries:
        return result
    # an __init__ of so many arguments would take as long as all of this; see `dispatch._node`, too
    node = _new(OpNode)
    if len(operands) == 1:
        operand = operands[0]
        producer = operand._grad_fn
        node._edges = (operand.edge() if producer is None else (producer, operand.output_nr),)
        node.needs_input_grad = _WANTED
    else:
        edges: list[Any] = []
        wanted: list[bool] = []
        for operand in operands:
            if type(operand) is not Tensor:
                edges.append(None)
                wanted.append(False)
            elif operand._requires_grad:
                producer = operand._grad_fn
                edges.append(operand.edge() if producer is None else (producer, operand.output_nr))
                wanted.append(True)
            else:
                edges.append(NO_EDGE)
                wanted.append(False)
        node._edges = tuple(edges)
        node.needs_input_grad = tuple(wanted)
    node.op = op
    node.rule = shared.rule
    node.params = params
    node.inputs = shared.inputs
    node._metas = shared.metas
    node._sequence = next_sequence()
    node._origin = record
    result._requires_grad = True
    result.output_nr = 0
    result._grad_fn = node
    keep_residuals(node, shared.saves, shared.gates, operands, datas, (result,))
    return result
