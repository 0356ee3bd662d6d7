"""Call nodes: the backward node of one call of a user Function, made when the call is recorded, and completed when its
run has shown another signature (CX, H3).

The Function recorder makes them of the arguments of a call and its signature; `recorded_function_node` is their class.
"""

from __future__ import annotations

from typing import Any

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import FEW_OUTPUTS, Pending
from raygrad.autograd.functions.context import name_as_generated
from raygrad.autograd.nodes.anomaly import note_origin as remember_origin
from raygrad.autograd.nodes.node import NO_EDGE, next_sequence
from raygrad.autograd.tensor.tensor import Tensor

from ..recording.records import NodeRecord
from .call_arguments import NONE, CallArguments
from .call_signature import CallSignature
from .recorded_function_node import RecordedFunction


def _retain(value: Pending) -> None:
    """Note that a backward node retains a value, as `retained` does: of nearly all records without a call of it."""
    if value.index < FEW_OUTPUTS:
        value.record.saved |= 1 << value.index
    else:
        value.record.retained(value.index)


def node_of(
    call: CallArguments, record: NodeRecord, call_signature: CallSignature, context: Pending | None, values: list[Any]
) -> RecordedFunction:
    """Return the node of an application that is recorded for backward."""
    signature, args, inputs = call_signature.signature, call.args, call.inputs
    noted = call.recorder.log.residual_bit
    if not call_signature.members:
        call_signature.members.update(_members(call, call_signature))
    saved_inputs: dict[int, Pending] = {}
    tensors: dict[int, Tensor] = {}
    versions: list[tuple[int, bool, list[int], int]] = []
    for i in call_signature.saved:
        pending, arg = inputs[i], args[i]
        assert pending is not None
        counter = arg._counter
        if counter is None:
            counter = arg.counter() if signature.saved_inputs is None else arg.counter_to_save()
        if arg._shares_memory:
            pending = call.recorder.inputs.saved_by_function(arg, pending)
        saved_inputs[i] = pending
        if noted:
            _retain(pending)
        tensors[i] = arg
        if not signature.unchecked or (i, False) not in signature.unchecked:
            versions.append((i, False, counter, counter[0]))
    saved_outputs: dict[int, Pending] = NONE
    if (signature.saved_outputs is None or signature.saved_outputs) and context is not None:
        saved_outputs = {}
        places = range(len(values)) if signature.saved_outputs is None else signature.saved_outputs
        for j in [j for j in places if signature.outputs[j].dtype is not None]:
            value = saved_outputs[j] = values[j]
            if noted:
                _retain(value)
    edges: list[Any] = []
    tangents: dict[int, Any] = NONE
    for i, arg in enumerate(args):
        if not isinstance(arg, Tensor):
            edges.append(None)
            continue
        if not arg._requires_grad:
            edges.append(NO_EDGE)
        else:
            producer = arg._grad_fn
            edges.append(arg.edge() if producer is None else (producer, arg.output_nr))
        if arg._tangents:
            tangents = {**tangents, i: arg._tangents}
    node = RecordedFunction.of(call.written, call_signature.members)
    node.__dict__.update(
        _site=record.site,
        _context=context,
        _edges=edges,
        _saved_inputs=saved_inputs,
        _saved_outputs=saved_outputs,
        _tensors=tensors,
        _shipped=call.shipped,
        _captured=call.captured[: len(call.shipped.captured)],  # the others are those of arguments
        _call_cost=call.call_cost,
        _versions=versions,
        _sequence=next_sequence(),
        _path=record.paths[0],
        _input_tangents=tangents,
    )
    if call.changing:
        node.__dict__["_changing"] = call.changing
    if call.leaves:
        node.__dict__["_held_leaves"] = call.leaves
    here = state.here
    if here.anomaly is not None:
        remember_origin(node)
    if here.transforms:
        name_as_generated(node)
    return node


def _members(call: CallArguments, call_signature: CallSignature) -> dict[str, Any]:
    """Return what the nodes of such applications have in common."""
    signature, args = call_signature.signature, call.args
    objects = [arg for arg in args if not isinstance(arg, Tensor)] if call.leaves else []
    members: dict[str, Any] = {
        "_recorder": call.recorder,
        "_fn": call.fn,
        "_applied": call.cls,
        "_inputs": tuple([(a.shape, a.dtype) if isinstance(a, Tensor) else None for a in args]),
        "needs_input_grad": tuple([isinstance(a, Tensor) and a._requires_grad for a in args]),
        "_metas": tuple([None if entry.dtype is None else (entry.shape, entry.dtype) for entry in signature.outputs]),
        "_shapes": call_signature.shapes,
        "_saves": signature.saves,
        "_attributes_kind": signature.attributes,
        "_pinned": call_signature.pinned,
        "_barren": frozenset([j for j, flows in enumerate(signature.differentiable) if not flows]),
        "_unchecked": signature.unchecked,
        "_unseen": call_signature.key if signature.expected is None else None,
        "_leaf_effects": call.recorder.code.effects(call.cls, call.shipped, objects),
    }
    if call_signature.placed:
        members["_input_places"] = tuple([a.device if isinstance(a, Tensor) else None for a in args])
        members["_places"] = tuple([entry.device for entry in signature.outputs])
    return members


def complete_node(
    call: CallArguments, node: RecordedFunction, record: NodeRecord, call_signature: CallSignature, values: list[Any]
) -> None:
    """Let a node go by another signature; what it saved already stays as it was when the call was recorded."""
    before = node.__dict__
    versions = {entry[0]: entry for entry in before["_versions"] if not entry[1]}
    own = vars(node_of(call, record, call_signature, node._context, values))
    own["_versions"] = [versions.get(entry[0], entry) for entry in own["_versions"]]
    for name in ("_saved_inputs", "_tensors"):
        own[name] = {position: before[name].get(position, value) for position, value in own[name].items()}
    kept = ("_sequence", "_edges", "_input_tangents", "_site")
    before.update({name: value for name, value in own.items() if name not in kept})
