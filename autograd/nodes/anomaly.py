"""Anomaly detection: where nodes were made, and which of them first returns NaN (MD-05, MD-06).

Dispatch notes the origin of nodes while the mode is on. A pass that begins under the mode runs each node through
`AnomalyWatcher`.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from raygrad.errors import AutogradError
from raygrad.tracebacks import add_note

from ..core.modes import state
from ..core.recorder import Pending
from ..tensor.tensor import Tensor
from .node import for_tensor_inputs

if TYPE_CHECKING:
    from .node import Node

STACK, PARENT = "traceback_", "parent_"
"""Under which names a node's metadata says where it was made, and by which node's backward."""


class AnomalyMode(NamedTuple):
    """The settings of anomaly detection."""

    check_nan: bool


def is_anomaly_enabled() -> bool:
    """Tell whether anomaly detection is on."""
    return state.anomaly is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Tell whether anomaly detection, where it is on, looks for NaN."""
    return state.anomaly is None or state.anomaly.check_nan


class set_detect_anomaly:
    """Switch anomaly detection on or off at once; as a context manager, restore it on leaving.

    Nodes made while it is on remember the stack of the call that made them. In a pass, a NaN in what a node returns
    raises unless `check_nan` is False; and whatever a node raises is told together with its stack.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = state.anomaly
        _switch(AnomalyMode(check_nan) if mode else None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _switch(self._before)


class detect_anomaly:
    """Detect anomalies in a block; see `set_detect_anomaly`. It warns, since all that it runs becomes slower."""

    def __init__(self, check_nan: bool = True) -> None:
        self._mode = AnomalyMode(check_nan)
        self._before: list[AnomalyMode | None] = []
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._before.append(state.anomaly)
        _switch(self._mode)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _switch(self._before.pop())


def _switch(anomaly: AnomalyMode | None) -> None:
    state.anomaly = anomaly
    state.changed()


def note_origin(node: Node) -> None:
    """Note on a node where it is being made, and which node's backward makes it."""
    if node._notes is None:
        node._notes = {}
    notes = node._notes
    notes[STACK] = traceback.format_stack()[:-2]
    if state.task is not None and state.task.node is not None:
        notes[PARENT] = state.task.node


class AnomalyWatcher:
    """The checks of a pass around its nodes while anomaly detection is on."""

    def __init__(self, anomaly: AnomalyMode) -> None:
        self._check_nan = anomaly.check_nan

    def ran(self, node: Node, results: Sequence[Any] | None) -> None:
        """Look at what a node returned.

        Raises:
            RuntimeError: there is a NaN in it.
        """
        for number, grad in enumerate(for_tensor_inputs(node, results or ())):
            made = grad.grad_fn if isinstance(grad, Tensor) else None
            if made is not None and made._sequence > node._sequence and STACK not in (made._notes or {}):
                made._notes = {**(made._notes or {}), STACK: traceback.format_stack()[:-2], PARENT: node}
            if not self._check_nan:
                continue
            message = f"Function '{node._title()}' returned nan values in its {number}th output."
            data = grad._data if isinstance(grad, Tensor) else grad
            if type(data) is Pending:
                data.record.recorder.refuse_nan(data, message, describe_origin(node))
            elif _is_nan(data):
                raise AutogradError(message)

    def failed(self, node: Node, error: BaseException) -> None:
        """Tell where a node that raised was made: in a warning, and in a note on the exception."""
        warn_of_origin(describe_origin(node), error)


def describe_origin(node: Node) -> str:
    """Return where a node was made, and the node whose backward made it, and so on."""
    story = f"Error detected in {node._title()}. {_origin(node)}"
    parent: Node | None = (node._notes or {}).get(PARENT)
    while parent is not None:
        story += f"\n\nIt was made by the backward of {parent._title()}, of which this is known. {_origin(parent)}"
        parent = (parent._notes or {}).get(PARENT)
    return story


def warn_of_origin(story: str, error: BaseException) -> None:
    """Tell where a node that raised was made: in a warning, and in a note on the exception."""
    add_note(error, story)
    warnings.warn(story, stacklevel=2)


def _origin(node: Node) -> str:
    stack: Any = (node._notes or {}).get(STACK)
    if stack is None:
        return "No forward pass information available: enable anomaly detection during the forward pass, too."
    return "Traceback of the forward call that made it:\n" + "".join(stack)


def _is_nan(data: Any) -> bool:
    if data is None or data.dtype.kind not in "fc":
        return False
    return bool(np.isnan(data).any())
