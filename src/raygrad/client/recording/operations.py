"""Operation recorder: records built-in ops and their derivatives, sums of gradients, and checks of a value.

Autograd comes here when the fast path has no template, which this makes. The specs of results are inferred here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from .record_inputs import InputRecorder, refuse_mixing
from .records import Constant, NodeRecord, SpecEntry, Template, spec_of_array
from .source_locations import user_site

MAX_TEMPLATES = 65_536
"""Templates kept per session: slice bounds that never repeat must not fill the memory."""

_GRAD_SUM, _CHECK_DEFINED = GradSum(*UNPLACED), CheckDefined(*UNPLACED)

_ONE = (1,)
"""The wanted operands of an op of one operand, nearly always."""


class OperationRecorder:
    """Records built-in ops, their derivatives, sums of gradients, and checks of a value."""

    def __init__(self, inputs: InputRecorder) -> None:
        self.templates: dict[Any, Template] = {}
        """By op, params and operand specs; shared with the fast path."""
        self.inputs = inputs
        self._source, self._sources = inputs.source, inputs.sources
        self._log = inputs.log
        self._specs = inputs.log.specs
        self._check_kinds: dict[tuple[str, SpecEntry], int] = {}
        """`NodeRecord.kind` of sums and checks of gradients, by function and spec."""

    def op(self, op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> list[Pending]:
        """See `Recorder.op`."""
        with self._log.lock:
            # the shape depends on the values: reading them submits what makes them, so that comes first
            found = self._infer_specs(op, operands, params) if op.infer is None else None
            sources: list[Any] = []
            key: list[Any] = [op.name, exact(params)]
            defined: bool | None = True
            assumed = True
            for operand in operands:
                if type(operand) is Pending:
                    if operand.record.recorder is not self._log.recorder:
                        refuse_mixing(operand)
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
                    source = self._source(operand)
                    key.append(source.spec)
                    sources.append(source)
                elif is_device_array(operand):
                    operand = self.inputs.leaf_on_device(operand)
                    key.append(operand.spec)
                    sources.append(self._source(operand))
                else:
                    key.append(type(operand) if op.weak_numbers else (type(operand), operand))
                    sources.append(Constant(operand))
            memo = tuple(key)
            template = self.templates.get(memo) if found is None else Template(_call_of(op, params), found, 0)
            if template is None:
                outputs = self._infer_specs(op, operands, params)
                if len(self.templates) >= MAX_TEMPLATES:
                    self._forget_templates()
                template = self.templates[memo] = Template(_call_of(op, params), outputs, next(self._log.kinds))
                if template.again and len(memo) == 3 and not params and type(memo[2]) is SpecEntry:
                    memo[2].unary[op.name] = template
            outputs = template.outputs
            made = NodeRecord(self._log, template.call, sources, outputs, user_site())
            made.template = template
            made.kind = template.kind
            if op.name == TO_DEVICE and isinstance(sources[0], Constant):
                made.leaf = sources[0]
            self._log.add(made)
            if len(outputs) == 1:
                return [made.output(0, defined, assumed)]
            return [made.output(i, defined, assumed) for i in range(len(outputs))]

    def _forget_templates(self) -> None:
        self.templates.clear()
        self._specs.forget_templates()

    def _infer_specs(self, op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> list[SpecEntry]:
        """Return the specs of an op's outputs, by its shape rule; without one, by running its kernel on operands
        that are read, and moved to the host for that."""
        device = _device_of(op, operands, params)
        if device.type != "cpu" and op.result_device is None and not op.has_kernel(device.type, _dtype_of(operands)):
            raise missing(op, device.type)
        if op.infer is not None:
            result = op.infer(params, *operands)
            metas = [result] if op.outputs == 1 else list(result)
        else:
            arrays = [self._log.recorder.read(self.on_host(o)) if type(o) is Pending else o for o in operands]
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
            self._specs.entry(
                spec_of_array(tuple(shape), np.dtype(dtype).name, (order, ()) if rowwise else None, str(device))
            )
            for (shape, dtype), order in zip(metas, natural, strict=True)
        ]

    def on_host(self, value: Pending) -> Pending:
        """Return a value moved to the host, if it is on a device."""
        if value.device is CPU:
            return value
        return self.op(get_op("to_device"), (value,), ("cpu", str(value.device)))[0]

    def op_vjp(self, node: OpNode, saved: Sequence[Data], grads: Sequence[Data | None]) -> list[Pending | None]:
        """See `Recorder.op_vjp`."""
        with self._log.lock:
            sources = self._sources((*saved, *grads))
            edges = node._edges
            if len(edges) == 1 and edges[0] is not None and edges[0][0] is not None:
                needs = _ONE
            else:
                needs = tuple([0 if edge is None or edge[0] is None else 1 for edge in edges])
            alike: Any = (needs, tuple(node.inputs)) if node._converts else needs
            origin = node._origin
            template = origin.template if type(origin) is NodeRecord and origin.recorder is self._log.recorder else None
            found = None if template is None else template.vjps.get(alike)
            if found is None:
                found = (
                    *self._vjp_shape(node, needs, grads),
                    0 if template is None or not template.kind else next(self._log.kinds),
                )
                if template is not None:
                    template.vjps[alike] = found
            vjp, wanted, kind = found
            site = origin.site if type(origin) is NodeRecord else None
            made = NodeRecord(self._log, vjp, sources, wanted, site)
            made.kind = kind
            if state.anomaly is not None:
                made.story = describe_origin(node)
            self._log.add(made)
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
        self, node: OpNode, needs: tuple[int, ...], grads: Sequence[Data | None]
    ) -> tuple[OpVjp, list[SpecEntry]]:
        """Return an op's vjp and its outputs."""
        made = next((device_of(grad) for grad in grads if grad is not None), CPU)
        read = read_by(node, made)
        inputs = [None if meta is None else self._specs.of_meta(meta, read) for meta in node.inputs]
        results: Any = tuple([self._specs.of_meta(meta, made) for meta in node._metas if meta is not None])
        wanted = [entry for entry, need in zip(inputs, needs, strict=True) if need and entry is not None]
        operands: Any = tuple(inputs)  # entries, until it is part of a graph
        vjp = OpVjp(
            *UNPLACED, fn=node.op.name, params=node.params, wanted=needs, operand_specs=operands, result_specs=results
        )
        return vjp, wanted

    def add(self, left: Data, right: Data) -> Pending:
        """See `Recorder.add`."""
        with self._log.lock:
            device = device_of(left)
            if device is not CPU or is_on_device(right):
                check_same_device(left, right)
            entry = self._specs.of_meta((left.shape, left.dtype), device)
            made = NodeRecord(self._log, _GRAD_SUM, self._sources((left, right)), (entry,), None)
            made.kind = self._kind_of(_GRAD_SUM, entry)
            self._log.add(made)
            return made.output(0, *definedness((left, right)))

    def _kind_of(self, work: GradSum | CheckDefined, entry: SpecEntry) -> int:
        """Return `NodeRecord.kind` of records of such a node on values of one spec."""
        found = self._check_kinds.get((work.fn, entry))
        if found is None:
            found = self._check_kinds[work.fn, entry] = next(self._log.kinds)
        return found

    def with_dependencies(self, value: Pending, awaited: Sequence[Data]) -> Pending:
        """See `Recorder.with_dependencies`."""
        sources = [self._source(value), *map(self._source, awaited)]
        made = NodeRecord(self._log, ControlDependency(*UNPLACED), sources, (value.spec,), user_site())
        self._log.add(made)
        return made.output(0)

    def require(self, value: Pending) -> Pending:
        """See `Recorder.require`."""
        with self._log.lock:
            made = NodeRecord(self._log, _CHECK_DEFINED, (self._source(value),), (value.spec,), user_site())
            made.kind = self._kind_of(_CHECK_DEFINED, value.spec)
            made.effects = True
            self._log.add(made)
            return made.output(0)

    def refuse_nan(self, value: Pending, message: str, story: str) -> None:
        """See `Recorder.refuse_nan`."""
        with self._log.lock:
            record: Any = value.record
            site = record.site if type(record) is NodeRecord and record.site is not None else user_site()
            check = CheckNotNan(*UNPLACED, message=message)
            made = NodeRecord(self._log, check, (self._source(value),), (value.spec,), site)
            made.effects = True
            made.story = story
            self._log.add(made)


def _call_of(op: Op, params: tuple[Any, ...]) -> OpCall:
    return OpCall(*UNPLACED, fn=op.name, params=params)


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
