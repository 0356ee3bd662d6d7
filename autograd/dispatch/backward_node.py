"""The node of an op's application in the backward graph: its edges, what its rule keeps, and views that share memory.

Dispatch calls it for each result that requires grad or may share its operand's memory; `record_fast_path` has its own
for ops that were recorded before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.graph_collections import NODES, graph_grew
from ..core.modes import state
from ..core.recorder import Pending
from ..devices.serving import CPU, is_device_array
from ..nodes.anomaly import note_origin as remember_origin
from ..nodes.device_nodes import DeviceOpNode
from ..nodes.node import NO_EDGE, next_sequence
from ..nodes.op_node import OpNode
from ..registry.registry import Op
from ..saved.saved_tensor_hooks import current_hooks
from ..saved.saved_tensors import pack_op
from ..storage.stride_geometry import reshapes_to_view
from ..storage.view import record_view
from ..tensor.tensor import Tensor
from .device_dispatch import compute_dtype, kind_of
from .save_residuals import keep_crossed, keep_residuals

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray
_new: Any = object.__new__


def share_memory(
    result: Tensor, op: Op, operands: Sequence[Any], params: tuple[Any, ...], recorded: bool, number: int = 0
) -> None:
    """Make output `number` a view of the first operand, if it shares the memory."""
    if op.shown is not None:
        op, operands, params = op.shown(operands, params, number)
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
        if type(out) is Pending:
            out.record.recorder.note_view(out, op, operands, params)
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
        node: Any = node_of(op, operands, params, datas, results, metas, DeviceOpNode)
        node._places = [result.device for result in results]
    else:
        node = node_of(op, operands, params, datas, results, metas)
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
_BOTH, _FIRST, _SECOND = (True, True), (True, False), (False, True)


def node_of(
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
    rule = op.sole_rule or op.derivative(kind_of(datas), compute_dtype(datas))
    # an __init__ of so many arguments would take as long as all of this
    node = _new(kind)
    node.op = op
    node.rule = rule
    node.params = params
    node._edges = edges
    node.needs_input_grad = wants
    node.inputs = inputs
    node._metas = metas
    node._hooked = False
    node._sequence = number = next_sequence()
    if not number & NODES:
        graph_grew()
    if rule is None:
        node.saved_tensors = node.versions = ()
    else:
        keep_residuals(node, rule.saves, rule.gates, operands, datas, results)
    return node


def node_of_two(op: Op, first: Tensor, second: Any, data: Any, other: Any, out: Any, result: Tensor) -> OpNode:
    """Return what `node_of` returns for two operands, a tensor and a tensor or number, and one output that needs a
    node: the same without lists and loops."""
    shape, dtype = out.shape, out.dtype
    metas: Any = None
    edge: Any
    meta: Any
    second_edge: Any
    second_meta: Any
    if first._requires_grad:
        producer: Any = first._grad_fn
        edge = first.edge() if producer is None else (producer, first.output_nr)
        known = edge[0]._metas  # who made it knows what it is: that is shared
        meta = known[edge[1]]
        if meta[0] != data.shape:  # it was assigned to `.data` since
            meta = (data.shape, data.dtype)
        elif meta[1] is dtype and meta[0] == shape and len(known) == 1:
            metas = known
        wants = _BOTH
    else:
        edge, meta = NO_EDGE, (data.shape, data.dtype)
        wants = _SECOND
    if type(second) is not Tensor:
        second_edge = second_meta = None
        wants = _FIRST
    elif second._requires_grad:
        producer = second._grad_fn
        second_edge = second.edge() if producer is None else (producer, second.output_nr)
        known = second_edge[0]._metas
        second_meta = known[second_edge[1]]
        if second_meta[0] != other.shape:
            second_meta = (other.shape, other.dtype)
        elif metas is None and second_meta[1] is dtype and second_meta[0] == shape and len(known) == 1:
            metas = known
    else:
        second_edge = NO_EDGE
        second_meta = meta if meta[1] is other.dtype and meta[0] == other.shape else (other.shape, other.dtype)
        wants = _FIRST
    rule = op.sole_rule or op.derivative(kind_of((data, other)), compute_dtype((data, other)))
    node = _new(OpNode)
    node.op = op
    node.rule = rule
    node.params = ()
    node._edges = (edge, second_edge)
    node.needs_input_grad = wants
    node.inputs = (meta, second_meta)
    node._metas = metas or ((shape, dtype),)
    node._hooked = False
    node._sequence = number = next_sequence()
    if not number & NODES:
        graph_grew()
    if rule is None or not rule.saves:
        node.saved_tensors = node.versions = ()
    elif rule.crossed:
        keep_crossed(node, first, second, data, other)
    else:
        keep_residuals(node, rule.saves, rule.gates, (first, second), (data, other), (result,))
    return node
