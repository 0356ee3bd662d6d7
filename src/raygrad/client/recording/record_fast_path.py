"""Recording again what was recorded before: built-in ops over equal specs, and their derivatives.

Rules of this file: the paths of `SessionRecorder.op` and `op_vjp` that a training loop takes, in as few steps as Python
allows; every case that is not as nearly always gives None, and is the recorder's.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raygrad.autograd.core.recorder import Data, Pending
from raygrad.autograd.nodes.op_node import OpNode
from raygrad.autograd.registry.registry import Op

from .records import Constant, NodeRecord, Template, first_output, record_of_op
from .source_locations import user_site

if TYPE_CHECKING:
    from ..session.recorder import SessionRecorder

_ONE = (1,)
_PLAIN_MARSHAL = 2
"""The version that gives equal bytes for equal values, whoever else refers to them."""

_DEPTH = 5
"""The least number of frames from `user_site` to the user's: this file's, `repeated`, what called it, and the op."""


def exact(params: tuple[Any, ...]) -> Any:
    """Return what params are told apart by: 1, 1.0 and True are not the same."""
    if not params:
        return params
    try:
        return marshal.dumps(params, _PLAIN_MARSHAL)
    except ValueError:
        return params


def op_again(self: SessionRecorder, op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> Pending | None:
    """See `Recorder.repeat_op`."""
    self.lock.acquire()
    try:
        if self.trace is not None or self._closed:
            return None
        template: Template | None
        if len(operands) == 1 and not params:
            operand = operands[0]
            record: Any = operand.record
            if record.recorder is not self or operand.defined is not True:
                return None
            template = operand.spec.unary.get(op.name)
            if template is None:
                return None
            if type(record) is NodeRecord:
                sources: Any = ((record, operand.index, operand if record.run >= 0 else None),)
            else:
                sources = (record.constant,)
        else:
            key: list[Any] = [op.name, exact(params) if params else params]
            sources = []
            for operand in operands:
                if type(operand) is Pending:
                    record = operand.record
                    if record.recorder is not self or operand.defined is not True:
                        return None
                    key.append(operand.spec)
                    if type(record) is NodeRecord:
                        sources.append((record, operand.index, operand if record.run >= 0 else None))
                    else:
                        sources.append(record.constant)
                else:
                    key.append(type(operand) if op.weak_numbers else (type(operand), operand))
                    sources.append(Constant(operand))
            template = self._memo.get(tuple(key))
            if template is None or not template.again:
                return None
        outputs = template.outputs
        made = record_of_op(self, template.call, sources, outputs, user_site(_DEPTH), template, template.kind)
        self.records.append(made)
        return first_output(made, outputs[0])
    finally:
        self.lock.release()


def vjp_again(
    self: SessionRecorder, node: OpNode, saved: Sequence[Data], grads: Sequence[Data | None]
) -> Sequence[Pending | None] | None:
    """See `Recorder.vjp_again`."""
    origin: Any = node._origin
    edges = node._edges
    if len(edges) != 1 or type(origin) is not NodeRecord or origin.recorder is not self:
        return None
    template: Template | None = origin.template
    edge = edges[0]
    if template is None or edge is None or edge[0] is None:
        return None
    found = template.vjps.get(_ONE)
    if found is None:
        return None
    self.lock.acquire()
    try:
        if self._closed:
            return None
        sources: list[Any] = []
        for data in saved:
            if type(data) is not Pending:
                return None
            record: Any = data.record
            if record.recorder is not self:
                return None
            if type(record) is NodeRecord:
                sources.append((record, data.index, data if record.run >= 0 else None))
            else:
                sources.append(record.constant)
        for data in grads:
            if type(data) is not Pending or data.defined is not True:
                return None
            record = data.record
            if record.recorder is not self:
                return None
            if type(record) is NodeRecord:
                sources.append((record, data.index, data if record.run >= 0 else None))
            else:
                sources.append(record.constant)
        vjp, outputs, kind = found
        made = record_of_op(self, vjp, sources, outputs, origin.site, None, kind)
        self.records.append(made)
        return (first_output(made, outputs[0]),)
    finally:
        self.lock.release()
