"""Fast path of recording: built-in ops and their derivatives over specs that were recorded before.

A training loop takes it for nearly every node. For what it does not cover it returns None, and autograd calls
`OperationRecorder` instead; a property test holds the two equal.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from typing import Any

from raygrad.autograd.core.recorder import Data, Pending
from raygrad.autograd.nodes.op_node import OpNode
from raygrad.autograd.registry.registry import Op

from .record_log import RecordLog
from .records import Constant, NodeRecord, Template, record_of_op
from .source_locations import user_site

_ONE = (1,)
_PLAIN_MARSHAL = 2
"""The version that gives equal bytes for equal values, whoever else refers to them."""

_DEPTH = 5
"""The least number of frames from `user_site` to the user's: `again`, autograd's fast path, its caller, and the op."""


def exact(params: tuple[Any, ...]) -> Any:
    """Return a key of params in which 1, 1.0 and True differ."""
    if not params:
        return params
    try:
        return marshal.dumps(params, _PLAIN_MARSHAL)
    except ValueError:
        return params


def _op_path(log: RecordLog, templates: dict[Any, Template]) -> Callable[..., Pending | None]:
    """Return `RecordFastPath.repeat_op`, as a closure: most nodes of a loop take it, and it loads fewer attributes."""
    recorder: Any = log.recorder
    acquire, release, append = log.lock.acquire, log.lock.release, log.records.append

    def repeat_op(op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> Pending | None:
        """See `Recorder.repeat_op`."""
        acquire()
        try:
            if log.trace is not None or log.closed:
                return None
            template: Template | None
            if len(operands) == 1 and not params:
                operand = operands[0]
                record: Any = operand.record
                if record.recorder is not recorder or operand.defined is not True:
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
                        if record.recorder is not recorder or operand.defined is not True:
                            return None
                        key.append(operand.spec)
                        if type(record) is NodeRecord:
                            sources.append((record, operand.index, operand if record.run >= 0 else None))
                        else:
                            sources.append(record.constant)
                    else:
                        key.append(type(operand) if op.weak_numbers else (type(operand), operand))
                        sources.append(Constant(operand))
                template = templates.get(tuple(key))
                if template is None or not template.again:
                    return None
            outputs = template.outputs
            made = record_of_op(
                log, recorder, template.call, sources, outputs, user_site(_DEPTH), template, template.kind
            )
            append(made)
            return made.output(0)
        finally:
            release()

    return repeat_op


class RecordFastPath:
    """Records ops whose template is known, in as few steps as Python allows; binds what it needs once."""

    __slots__ = ("_acquire", "_append", "_log", "_recorder", "_release", "repeat_op")

    def __init__(self, log: RecordLog, templates: dict[Any, Template]) -> None:
        self._log = log
        self._recorder: Any = log.recorder
        self._acquire, self._release = log.lock.acquire, log.lock.release
        self._append = log.records.append
        self.repeat_op = _op_path(log, templates)

    def repeat_op_vjp(
        self, node: OpNode, saved: Sequence[Data], grads: Sequence[Data | None]
    ) -> Sequence[Pending | None] | None:
        """See `Recorder.repeat_op_vjp`."""
        recorder = self._recorder
        origin: Any = node._origin
        edges = node._edges
        if len(edges) != 1 or type(origin) is not NodeRecord or origin.recorder is not recorder:
            return None
        template: Template | None = origin.template
        edge = edges[0]
        if template is None or edge is None or edge[0] is None:
            return None
        found = template.vjps.get(_ONE)
        if found is None:
            return None
        self._acquire()
        try:
            log = self._log
            if log.closed:
                return None
            sources: list[Any] = []
            for data in saved:
                if type(data) is not Pending:
                    return None
                record: Any = data.record
                if record.recorder is not recorder:
                    return None
                if type(record) is NodeRecord:
                    sources.append((record, data.index, data if record.run >= 0 else None))
                else:
                    sources.append(record.constant)
            for data in grads:
                if type(data) is not Pending or data.defined is not True:
                    return None
                record = data.record
                if record.recorder is not recorder:
                    return None
                if type(record) is NodeRecord:
                    sources.append((record, data.index, data if record.run >= 0 else None))
                else:
                    sources.append(record.constant)
            vjp, outputs, kind = found
            made = record_of_op(log, recorder, vjp, sources, outputs, origin.site, None, kind)
            self._append(made)
            return (made.output(0),)
        finally:
            self._release()
