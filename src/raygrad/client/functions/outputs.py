"""Function outputs: the tensors that `apply` returns in a session, each in its place in the graph (OU, DR-01, DR-03).

The last step of recording a call: pending values become tensors, aliases or changed arguments, by the observed
signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import Pending
from raygrad.autograd.core.transform_scopes import SCOPES
from raygrad.autograd.functions.function_outputs import record_unchanged, warn_of_captured
from raygrad.autograd.mutation.inplace import rebase_on_function
from raygrad.autograd.storage.view import function_creation, record_alias, record_function_view
from raygrad.autograd.storage.view_geometry import ViewGeometry
from raygrad.autograd.tensor.inference import mark_inference
from raygrad.autograd.tensor.presumed_tensor import complete
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.proto.ir.signatures import CAPTURED, DIRTY, SAME
from raygrad.proto.ir.specs import ObjectSpec

from ..recording.records import NodeRecord
from .observed_signature import FunctionSignature

if TYPE_CHECKING:
    from raygrad.autograd.functions.function import Function

    from .functions import FunctionRecorder
    from .recorded_function_node import RecordedFunction


_new: Any = object.__new__


def fresh_outputs(signature: FunctionSignature, values: Sequence[Pending], node: RecordedFunction | None) -> Any:
    """Return what apply returns where every output is a new tensor: what `wrap_outputs` does, outside of inference
    mode."""
    results: list[Any] = []
    for number, value in enumerate(values):
        flows = node is not None and signature.differentiable[number]
        made = _new(Tensor)
        made._data, made._requires_grad = value, flows
        if SCOPES:
            made._made_in = state.here.scope
        if flows:
            made._grad_fn, made.output_nr = node, number
        results.append(made)
    return _returned(results, signature, node)


def wrap_outputs(
    recorder: FunctionRecorder,
    cls: type[Function],
    record: NodeRecord,
    signature: FunctionSignature,
    args: tuple[Any, ...],
    inputs: Sequence[Pending | None],
    values: Sequence[Pending],
    node: RecordedFunction | None,
    present: Sequence[Tensor | None] = (),
) -> Any:
    """Return what apply returns.

    Args:
        recorder: the session's.
        cls: the Function.
        record: the recorded application.
        signature: what runs showed of the Function.
        args: what apply was given.
        inputs: per argument, its pending value; None for what is no tensor.
        values: per output, its pending value.
        node: the producer of the outputs that require grad, if the application is recorded for backward.
        present: what apply has returned already, by another signature: these tensors become the outputs.

    Raises:
        AutogradError: an argument that forward changes in place must not be (OU-18, OU-22).
    """
    several = sum(signature.differentiable) > 1
    results: list[Any] = []
    for number, (value, entry) in enumerate(zip(values, signature.outputs, strict=True)):
        flows = node is not None and signature.differentiable[number]
        kind, position, *place = signature.origins[number] or ("", -1)
        if present and present[number] is None:
            results.append(None)
        elif number in signature.fixed:
            results.append(signature.fixed[number])
        elif isinstance(entry.spec, ObjectSpec):
            if recorder.log.trace is not None:
                raise recorder.log.trace.refusal(
                    f"'{cls.__name__}' returns an object that is no tensor, which is fetched"
                )
            results.append(recorder.execution.read(record, number + 1))
        elif signature.twins[number] >= 0:
            twin = results[signature.twins[number]]
            twin.output_nr = number if twin.grad_fn is not None else 0
            results.append(twin)
        elif kind == DIRTY:
            results.append(_changed(recorder, args[position], value, node, number, flows, signature))
        elif kind == SAME:
            alias = _as(args[position].alias(), present, number)
            alias._data = inputs[position]
            results.append(_placed(alias, node if flows else None, number))
            record_unchanged(alias, args[position], several)
        else:
            made = _placed(_as(Tensor.made(value), present, number), node if flows else None, number)
            if kind == CAPTURED:
                warn_of_captured(cls)
            elif kind:
                source = args[position] if position >= 0 else made
                made._counter = source.counter()
                geometry = ViewGeometry(*place[0]) if place and place[0] else None
                record_function_view(made, source, geometry, function_creation(several))
            results.append(made)
    if state.inference:
        results = [mark_inference(result) if isinstance(result, Tensor) else result for result in results]
    return _returned(results, signature, node)


def _as(made: Tensor, present: Sequence[Tensor | None], number: int) -> Tensor:
    """Return a new output, or the tensor that is present for it, which becomes like it."""
    tensor = present[number] if present else None
    if tensor is None:
        return made
    complete(tensor, made)
    return tensor


def _returned(results: list[Any], signature: FunctionSignature, node: RecordedFunction | None) -> Any:
    """Return the outputs as forward did, those that it saved noted on its node."""
    if node is not None:
        for number in node._saved_outputs:
            if results[number] is None:
                continue
            if number in node._barren:
                node.note_end(number, results[number])
            if (number, True) not in signature.unchecked:
                counter = results[number].counter()
                node._versions.append((number, True, counter, counter[0]))
    return tuple(results) if signature.as_tuple else results[0]


def _changed(
    recorder: FunctionRecorder,
    source: Tensor,
    value: Pending,
    node: RecordedFunction | None,
    number: int,
    flows: bool,
    signature: FunctionSignature,
) -> Tensor:
    """Return an argument that forward changes in place: itself, with its next value and place in the graph (OU-16)."""
    rebase_on_function(source, node if flows else None, number, len(signature.outputs), value, recorder.log.recorder)
    source.counter()[0] += signature.bumps.get(signature.origins[number][1], 0)
    if not flows and source._requires_grad:  # of no derivative, or not recorded: it keeps its history (OU-24)
        alias = source.alias()
        record_alias(alias, source)
        return alias
    return source


def _placed(tensor: Tensor, node: RecordedFunction | None, number: int) -> Tensor:
    if node is not None:
        tensor._requires_grad = True
        tensor._grad_fn = node
        tensor.output_nr = number
    return tensor
