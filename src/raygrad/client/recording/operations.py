"""Recording built-in ops and their derivatives, sums of gradients, and what is only asked of a value.

Rules of this file: the methods of `SessionRecorder` that record what is no user code; what a training loop does again
and again goes by `repeats`, this is for the first time and for the rare. Which specs the results have is found here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from raygrad.autograd.core.array_layout import is_array
from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import Data, Pending
from raygrad.autograd.devices import Device
from raygrad.autograd.devices.defined_sums import check_same_device
from raygrad.autograd.devices.serving import CPU, device_named, device_of, is_device_array, is_on_device
from raygrad.autograd.dispatch.device_dispatch import missing
from raygrad.autograd.nodes.anomaly import describe_origin
from raygrad.autograd.nodes.op_node import OpNode
from raygrad.autograd.registry.registry import Op, get_op
from raygrad.proto.ir.nodes import (
    TO_DEVICE,
    UNPLACED,
    CheckDefined,
    CheckNotNan,
    ControlDependency,
    GradSum,
    OpCall,
    OpVjp,
)

from .record_fast_path import exact
from .record_inputs import leaf_on_device, refuse_mixing
from .records import Constant, NodeRecord, SpecEntry, Template, spec_of_array
from .source_locations import user_site

if TYPE_CHECKING:
    from ..session.recorder import SessionRecorder

MEMO_LIMIT = 65_536
"""Shape rules remembered per session; slice bounds that never repeat must not grow it without end."""

_GRAD_SUM, _CHECK_DEFINED = GradSum(*UNPLACED), CheckDefined(*UNPLACED)

_ONE = (1,)
"""Of an op of one operand, nearly always, which are wanted."""


def record_op(self: SessionRecorder, op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> list[Pending]:
    with self.lock:
        # the shape depends on the values: reading them submits what makes them, so that comes first
        found = _inferred(self, op, operands, params) if op.infer is None else None
        sources: list[Any] = []
        key: list[Any] = [op.name, exact(params)]
        defined: bool | None = True
        assumed = True
        for operand in operands:
            if type(operand) is Pending:
                if operand.record.recorder is not self:
                    refuse_mixing(self, operand)
                key.append(operand.spec)
                if operand.defined is not True:  # an op of an undefined gradient is undefined
                    defined, assumed = None, assumed and operand.assumed
                record: Any = operand.record
                if type(record) is NodeRecord:
                    sources.append((record, operand.index, operand if record.run >= 0 else None))
                else:
                    sources.append(record.constant)
            elif operand is None:
                key.append(None)
                sources.append(None)
            elif is_array(operand):
                source = self.source(operand)
                key.append(source.spec)
                sources.append(source)
            elif is_device_array(operand):
                operand = leaf_on_device(self, operand)
                key.append(operand.spec)
                sources.append(self.source(operand))
            else:
                key.append(type(operand) if op.weak_numbers else (type(operand), operand))
                sources.append(Constant(operand))
        memo = tuple(key)
        template = self._memo.get(memo) if found is None else Template(_call_of(op, params), found, 0)
        if template is None:
            outputs = _inferred(self, op, operands, params)
            if len(self._memo) >= MEMO_LIMIT:
                _forget_templates(self)
            template = self._memo[memo] = Template(_call_of(op, params), outputs, next(self.kinds))
            if template.again and len(memo) == 3 and not params and type(memo[2]) is SpecEntry:
                memo[2].unary[op.name] = template
        outputs = template.outputs
        made = NodeRecord(self, template.call, sources, outputs, user_site())
        made.template = template
        made.kind = template.kind
        if op.name == TO_DEVICE and isinstance(sources[0], Constant):
            made.leaf = sources[0]
        self.add_record(made)
        if len(outputs) == 1:
            return [made.output(0, defined, assumed)]
        return [made.output(i, defined, assumed) for i in range(len(outputs))]


def _call_of(op: Op, params: tuple[Any, ...]) -> OpCall:
    return OpCall(*UNPLACED, fn=op.name, params=params)


def _forget_templates(self: SessionRecorder) -> None:
    self._memo.clear()
    for entry in self._specs.values():
        entry.unary.clear()


def _inferred(self: SessionRecorder, op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> list[SpecEntry]:
    """Return the specs of an op's outputs, by its shape rule; where it has none, by reading the operands: on the
    host, so that those of a device are moved."""
    device = _device_of(op, operands, params)
    if device.type != "cpu" and op.result_device is None and not op.has_kernel(device.type, _dtype_of(operands)):
        raise missing(op, device.type)
    if op.infer is not None:
        result = op.infer(params, *operands)
        metas = [result] if op.outputs == 1 else list(result)
    else:
        arrays = [self.read(on_host(self, o)) if type(o) is Pending else o for o in operands]
        dtype = next((a.dtype for a in arrays if is_array(a)), None)
        result = op.kernel("cpu", dtype)(*arrays, *params)
        metas = [(a.shape, a.dtype) for a in ((result,) if op.outputs == 1 else result)]
    natural = [tuple(range(len(shape))) for shape, _ in metas]
    rowwise = op.promotes is not None and all(
        o.spec.spec.layout == (tuple(range(o.ndim)), ()) for o in operands if type(o) is Pending
    )
    if op.name == TO_DEVICE:  # what arrives is dense, in its own axis order
        (held,) = operands
        layout = held.spec.spec.layout
        natural, rowwise = [tuple(range(held.ndim)) if layout is None else layout[0]], layout is not None
    return [
        self.entry(spec_of_array(tuple(shape), np.dtype(dtype).name, (order, ()) if rowwise else None, str(device)))
        for (shape, dtype), order in zip(metas, natural, strict=True)
    ]


def on_host(self: SessionRecorder, value: Pending) -> Pending:
    """Return a value as it is to be read on the host."""
    if value.device is CPU:
        return value
    return self.op(get_op("to_device"), (value,), ("cpu", str(value.device)))[0]


def record_op_vjp(
    self: SessionRecorder, node: OpNode, saved: Sequence[Data], grads: Sequence[Data | None]
) -> list[Pending | None]:
    with self.lock:
        source = self.source
        sources = [source(data) for data in (*saved, *grads)]
        edges = node._edges
        if len(edges) == 1 and edges[0] is not None and edges[0][0] is not None:
            needs = _ONE
        else:
            needs = tuple([0 if edge is None or edge[0] is None else 1 for edge in edges])
        alike: Any = (needs, tuple(node.inputs)) if node._converts else needs
        origin = node._origin
        template = origin.template if type(origin) is NodeRecord and origin.recorder is self else None
        found = None if template is None else template.vjps.get(alike)
        if found is None:
            found = (
                *_vjp_shape(self, node, needs, grads),
                0 if template is None or not template.kind else next(self.kinds),
            )
            if template is not None:
                template.vjps[alike] = found
        vjp, wanted, kind = found
        site = origin.site if type(origin) is NodeRecord else None
        made = NodeRecord(self, vjp, sources, wanted, site)
        made.kind = kind
        if state.anomaly is not None:
            made.story = describe_origin(node)
        self.add_record(made)
        defined, assumed = definedness(grads)
        if needs is _ONE:
            return [made.output(0, defined, assumed)]
        results: list[Pending | None] = []
        position = 0
        for need in needs:
            results.append(made.output(position, defined, assumed) if need else None)
            position += need
        return results


def _vjp_shape(
    self: SessionRecorder, node: OpNode, needs: tuple[int, ...], grads: Sequence[Data | None]
) -> tuple[OpVjp, list[SpecEntry]]:
    """Return an op's vjp and its outputs."""
    made = next((device_of(grad) for grad in grads if grad is not None), CPU)
    read = read_by(node, made)
    inputs = [None if meta is None else self.plain_on(meta, read) for meta in node.inputs]
    results: Any = tuple([self.plain_on(meta, made) for meta in node._metas if meta is not None])
    wanted = [entry for entry, need in zip(inputs, needs, strict=True) if need and entry is not None]
    operands: Any = tuple(inputs)  # entries, until it is part of a graph
    vjp = OpVjp(
        *UNPLACED, fn=node.op.name, params=node.params, wanted=needs, operand_specs=operands, result_specs=results
    )
    return vjp, wanted


def record_sum(self: SessionRecorder, left: Data, right: Data) -> Pending:
    with self.lock:
        sources = [self.source(left), self.source(right)]
        if is_on_device(left) or is_on_device(right):
            check_same_device(left, right)
        entry = self.plain_on((left.shape, left.dtype), device_of(left))
        made = NodeRecord(self, _GRAD_SUM, sources, (entry,), None)
        made.kind = _kind_of(self, _GRAD_SUM, entry)
        self.add_record(made)
        return made.output(0, *definedness((left, right)))


def _kind_of(self: SessionRecorder, work: GradSum | CheckDefined, entry: SpecEntry) -> int:
    """Return `NodeRecord.kind` of a record that does such work on values of one spec."""
    found = self._sums.get((work.fn, entry))
    if found is None:
        found = self._sums[work.fn, entry] = next(self.kinds)
    return found


def definedness(grads: Sequence[Data | None]) -> tuple[bool | None, bool]:
    """Return whether a result of these gradients is defined (None: only running tells), and is assumed to be."""
    assumed = False
    for grad in grads:
        if grad is not None:
            if type(grad) is not Pending or grad.defined:
                return True, False
            assumed = assumed or grad.assumed
    return None, assumed


def _device_of(op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> Device:
    """Return the device of an op's results: that which its params name, or that of its operands."""
    if op.result_device is not None:
        return device_named(op.result_device(params))
    return next((operand.device for operand in operands if type(operand) is Pending and is_on_device(operand)), CPU)


def read_by(node: OpNode, made: Device) -> Device:
    """Return the device of the operands of an op whose results are on one."""
    if node.op.name != TO_DEVICE:
        return made
    _, source = node.params
    return device_named(source)


def _dtype_of(operands: Sequence[Data]) -> Any:
    return next((operand.dtype for operand in operands if type(operand) is Pending), None)


def record_after(self: SessionRecorder, value: Pending, awaited: Sequence[Data]) -> Pending:
    sources = [self.source(value), *map(self.source, awaited)]
    made = NodeRecord(self, ControlDependency(*UNPLACED), sources, (value.spec,), user_site())
    self.add_record(made)
    return made.output(0)


def record_required(self: SessionRecorder, value: Pending) -> Pending:
    with self.lock:
        made = NodeRecord(self, _CHECK_DEFINED, (self.source(value),), (value.spec,), user_site())
        made.kind = _kind_of(self, _CHECK_DEFINED, value.spec)
        made.effects = True
        self.add_record(made)
        return made.output(0)


def record_refusal_of_nan(self: SessionRecorder, value: Pending, message: str, story: str) -> None:
    with self.lock:
        record: Any = value.record
        site = record.site if type(record) is NodeRecord and record.site is not None else user_site()
        check = CheckNotNan(*UNPLACED, message=message)
        made = NodeRecord(self, check, (self.source(value),), (value.spec,), site)
        made.effects = True
        made.story = story
        self.add_record(made)
