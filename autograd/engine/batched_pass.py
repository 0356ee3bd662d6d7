"""The recorder of a backward pass inside vmap: it runs each node's rule at once, on batched tensors instead of arrays.

To the engine it is a `Recorder`, since both replace running a rule on bare arrays. It applies ops, which record
themselves where a value below is pending in a session.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.modes import state
from ..core.recorder import Data, Pending, Recorder
from ..devices.serving import as_device
from ..dispatch.dispatch import call
from ..registry.vjp_rules import Meta, OpContext, vjp_tensors
from ..tensor.tensor import Tensor
from ..vmap.batched_backward import backward_batched
from .hook_calls import call_hook

if TYPE_CHECKING:
    from ..devices import Device
    from ..functions.function import Function
    from ..nodes.node import Node
    from ..nodes.op_node import OpNode
    from ..registry.registry import Op


def _tensor(data: Data | None) -> Tensor | None:
    return None if data is None else Tensor.made(data)


def _data(tensor: Tensor | None) -> Data | None:
    return None if tensor is None else tensor._data


class BatchedPassRecorder(Recorder):
    """The recorder of a pass inside vmap: it applies every operation at once, on tensors, with gradient mode off."""

    def op(self, op: Op, operands: Sequence[Data], params: tuple[Any, ...]) -> list[Any]:
        """Apply an op."""
        made = call(op, [_tensor(operand) for operand in operands], params)
        return [_data(one) if isinstance(one, Tensor) else one for one in ((made,) if op.outputs == 1 else made)]

    def op_vjp(self, node: OpNode, saved: Sequence[Data], grads: Sequence[Data | None]) -> list[Any]:
        """Run the derivative of a built-in op."""
        assert node.rule is not None
        residuals = [
            data if data is None or (position >= 0 and node._edges[position] is None) else Tensor.made(data)
            for position, data in zip(node.rule.saves, saved, strict=True)
        ]
        context = OpContext(residuals, node.params, node.needs(), node.inputs, node._metas)  # type: ignore[arg-type]
        return [_data(grad) for grad in vjp_tensors(node.op, node.rule, context, [_tensor(grad) for grad in grads])]

    def function(self, cls: type[Function], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Apply a Function."""
        return cls.apply(*args, **named)

    def function_vjp(self, node: Any, grads: Sequence[Data | None]) -> list[Data | None]:
        """Run the backward of a Function."""
        return [_data(grad) for grad in backward_batched(node, [_tensor(grad) for grad in grads], False)]

    def hook(
        self,
        kind: str,
        hook: Any,
        owner: Node,
        values: Sequence[Data | None],
        metas: Sequence[Meta | None],
        extra_inputs: Sequence[Data | None] = (),
    ) -> list[Data | None]:
        """Call a user's hook."""
        after = call_hook(kind, hook, [_tensor(v) for v in values], [_tensor(v) for v in extra_inputs])
        return [_data(tensor) for tensor in after]

    def check_hook(self, kind: str, hook: Any) -> Any:
        """Return the hook unchanged, since it runs in this process."""
        return hook

    def place(self, device: Device) -> Device:
        """Forward to the ambient session, if there is one."""
        return as_device(device)

    def leaf(self, tensor: Tensor) -> Any:
        """Return the tensor's data."""
        return tensor._data

    @property
    def closed(self) -> bool:
        """Always False."""
        return False

    def add(self, left: Data, right: Data) -> Any:
        """Add two gradients."""
        return (Tensor.made(left) + Tensor.made(right))._data

    def strides(self, value: Pending) -> tuple[int, ...] | None:
        return None

    def read(self, value: Pending) -> np.ndarray[Any, Any] | None:
        """Wait for a pending value."""
        return value.record.recorder.read(value)

    def require(self, value: Pending) -> Pending:
        """Let the session of a pending gradient check it."""
        return value.record.recorder.require(value)

    def refuse_nan(self, value: Pending, message: str, story: str) -> None:
        """Let the session of a pending gradient check it for NaN."""
        value.record.recorder.refuse_nan(value, message, story)

    def called_here(self, name: str) -> None:
        """Note a call of user code with the ambient session, if there is one."""
        if state.recorder is not None:
            state.recorder.called_here(name)

    def emit(self, name: str, value: Any) -> None:
        """Record an emit with the ambient session, if there is one."""
        if state.recorder is not None:
            state.recorder.emit(name, value)

    def write(self, variable: Any, attribute: str, value: Any) -> None:
        """Write to a variable, in the ambient session if there is one."""
        if state.recorder is not None:
            state.recorder.write(variable, attribute, value)
        else:
            setattr(variable, attribute, value)

    def during_pass(self, retain: bool) -> AbstractContextManager[None]:
        """Return the ambient session's context manager for a pass that records into it."""
        if state.recorder is None:
            return contextlib.nullcontext()
        return state.recorder.during_pass(retain)

    def submit(self) -> None:
        """Let the ambient session submit."""
        if state.recorder is not None:
            state.recorder.submit()
