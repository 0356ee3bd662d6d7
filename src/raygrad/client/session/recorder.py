"""Session recorder: the implementation of autograd's `Recorder`, composed of one recorder per kind of node.

While a session is ambient, autograd calls it for whatever is done to pending values. It appends to the record log; the
session's submitter makes graphs of that. No user code runs here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from raygrad.autograd.core.modes import state
from raygrad.autograd.core.recorder import Data, Pending, Recorder
from raygrad.autograd.devices import Device
from raygrad.autograd.nodes.node import Node
from raygrad.autograd.nodes.op_node import OpNode
from raygrad.autograd.registry.registry import Op
from raygrad.autograd.registry.vjp_rules import Meta
from raygrad.autograd.storage.view import LostData
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.proto.ir.array_layout import Layout, strides_of

from ..functions.functions import FunctionRecorder
from ..functions.hooks import HookRecorder
from ..functions.vjps import vjp_of_eager
from ..recording.deferred_operations import defer
from ..recording.operations import OperationRecorder
from ..recording.record_fast_path import RecordFastPath
from ..recording.records import LeafRecord, NodeRecord

if TYPE_CHECKING:
    from ..functions.observations import Observations
    from ..functions.user_code import UserCode
    from ..recording.record_inputs import InputRecorder
    from .execution import SessionExecution
    from .session import Session


class SessionRecorder(Recorder):
    """Records for one session. What autograd calls per node is bound in `__init__` to the collaborator that does it, so
    that recording costs no call in between; the methods of the same names satisfy the interface."""

    def __init__(
        self,
        session: Session,
        inputs: InputRecorder,
        code: UserCode,
        observed: Observations,
        execution: SessionExecution,
        device_of: Callable[[Device], Device],
    ) -> None:
        """`device_of` resolves a device to one of the session's workers, or raises DeviceError."""
        self.session = session
        """For `ambient`; not used here."""
        self.log = inputs.log
        self.log.recorder = self
        self.dropped, self.residual_bit = self.log.dropped, self.log.residual_bit
        self.inputs = inputs
        self.code = code
        code.settle = self._settle
        self.observed = observed
        self.execution = execution
        self.operations = OperationRecorder(inputs)
        self.functions = FunctionRecorder(code, inputs, observed, execution)
        self.hooks = HookRecorder(self.operations, code)
        self._device_of = device_of
        fast = RecordFastPath(self.log, self.operations.templates)
        bound: Any = vars(self)
        bound |= {
            "repeat_op": fast.repeat_op,
            "repeat_op_vjp": fast.repeat_op_vjp,
            "op": self.operations.op,
            "op_vjp": self.operations.op_vjp,
            "add": self.operations.add,
            "leaf": inputs.leaf,
            "function": self.functions.apply,
        }

    # ---- what is recorded -------------------------------------------------------------------------------------------

    def op(self, op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> list[Pending]:
        return self.operations.op(op, operands, params)

    def defer(self, name: str, operands: Sequence[Any]) -> Tensor | None:
        return defer(self.log, name, operands)

    def op_vjp(self, node: OpNode, saved: Sequence[Data], grads: Sequence[Data | None]) -> list[Pending | None]:
        return self.operations.op_vjp(node, saved, grads)

    def add(self, left: Data, right: Data) -> Pending:
        return self.operations.add(left, right)

    def with_dependencies(self, value: Pending, awaited: Sequence[Data]) -> Pending:
        return self.operations.with_dependencies(value, awaited)

    def require(self, value: Pending) -> Pending:
        return self.operations.require(value)

    def refuse_nan(self, value: Pending, message: str, story: str) -> None:
        self.operations.refuse_nan(value, message, story)

    def leaf(self, tensor: Tensor) -> Pending:
        return self.inputs.leaf(tensor)

    def function(self, cls: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return self.functions.apply(cls, args, named)

    def function_vjp(self, node: Node, grads: Sequence[Data | None]) -> list[Data | None]:
        return vjp_of_eager(self.functions, node, grads)

    def hook(
        self,
        kind: str,
        hook: Any,
        owner: Node,
        values: Sequence[Data | None],
        metas: Sequence[Meta | None],
        extra_inputs: Sequence[Data | None] = (),
    ) -> list[Data | None]:
        return self.hooks.hook(kind, hook, owner, values, metas, extra_inputs)

    def emit(self, name: str, value: Any) -> None:
        self.hooks.emit(name, value)

    def write(self, variable: Any, attribute: str, value: Any) -> None:
        if attribute == "_data" and self.log.calls:
            self.log.await_calls()
        if attribute == "_data" and type(value) not in (Pending, LostData):
            value = self.inputs.leaf(Tensor.made(value))
        self.log.variables.write(variable, attribute, value)
        if self.code.waits and attribute == "_grad" and variable._after_accumulation is not None:
            self._settle()  # the hooks that are called next run here

    def note_change(self, tensor: Tensor) -> None:
        self.log.shared.note_change(tensor)
        if type(tensor._data) is np.ndarray:
            self.inputs.watched.release(tensor._data)

    def note_view(self, value: Pending, op: Op, operands: Sequence[Any], params: tuple[Any, ...]) -> None:
        rest = operands[1:]
        if self.log.trace is None and not any([isinstance(one, Tensor) for one in rest]):
            self.inputs.watched.note_view(value, op, (self.inputs.leaf(operands[0]), *rest), params)

    def begin_pass(self, *, alone: bool) -> None:
        self.inputs.renew_snapshots()
        if alone:
            self.code.begin_pass()

    def end_pass(self) -> None:
        self.code.end_pass()

    # ---- what is noted ----------------------------------------------------------------------------------------------

    def drawn(self, made: Tensor | None, again: Callable[[], Any] | None) -> None:
        if self.log.trace is not None:
            self.log.trace.draw(made, again)

    def check_hook(self, kind: str, hook: Any) -> Any:
        self.code.ship(hook)
        return hook

    def called_here(self, name: str) -> None:
        calls = self.observed.client_hooks
        calls[name] = calls.get(name, 0) + 1
        self.code.end_pass()  # the hook may change what code reads
        if self.code.waits:
            self._settle()

    # ---- queries of values ------------------------------------------------------------------------------------------

    def place(self, device: Device) -> Device:
        return self._device_of(device)

    def strides(self, value: Pending) -> tuple[int, ...] | None:
        layout: Layout | None = value.spec.spec.layout
        if value.size <= 1:  # then no stride matters
            layout = tuple(range(value.ndim)), ()
        return None if layout is None else strides_of(value.shape, layout[0], layout[1], value.dtype.itemsize)

    def may_wait(self) -> bool:
        return self.log.trace is None

    def is_defined(self, value: Pending) -> bool:
        if self.log.trace is not None:
            if value.assumed:  # as for an optimiser: earlier runs showed it, and this one checks it
                self.require(value)
                return True
            self.log.trace.interrupt("whether a gradient is defined had to be found out")
        return self.execution.is_defined(cast(NodeRecord, value.record), value.index)

    def read(self, value: Pending) -> np.ndarray[Any, Any] | None:
        if self.log.trace is not None:
            self.log.trace.refuse_read(value)
        record = value.record
        if type(record) is LeafRecord:
            return record.constant.value
        return self.execution.read(cast(NodeRecord, record), value.index)

    def peek(self, value: Pending) -> np.ndarray[Any, Any] | None:
        record = value.record
        if self.log.trace is not None:  # each call of what is compiled will have another
            return None
        if type(record) is LeafRecord:
            return record.constant.value
        return self.execution.peek(cast(NodeRecord, record), value.index)

    # ---- submission points ------------------------------------------------------------------------------------------

    def submit(self) -> None:
        task = state.here.task
        if task is not None and task.recorder is self:
            return  # an optimiser's step in a hook: the pass submits when it ends, and fails or holds as a whole (H8)
        if self.log.trace is not None or self.log.deferred:
            return  # all that a compiled function does is one submission; see `Session.deferred` for the other
        self.execution.submit()
        if state.here.anomaly is not None:  # so that the pass itself raises, as it does eagerly (MD-06)
            self.execution.wait_for_everything()
        if self.code.waits:
            self._settle()

    def _settle(self) -> None:
        """Run what is recorded, and wait for it: code is among it that changes what it captures, and what comes next
        reads that as it is then."""
        self.code.settled()
        if self.log.trace is None:
            self.execution.submit()
            self.execution.wait_for_everything()
