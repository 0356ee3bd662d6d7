"""Nodes of the backward graph whose outputs are on a device.

Dispatch chooses these classes for outputs on a GPU. Each runs with that device as the current one and refuses gradients
of other devices. Nodes of the host do none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, cast

from raygrad.errors import AutogradError

from ..core.batched_data import innermost_data
from ..core.recorder import Data, Recorder
from ..devices import Device
from ..devices.backends.device_memory import with_memory_retry
from ..devices.serving import CPU, backend_for_kind, device_guard, device_of, needs_device_guard
from .accumulator import AccumulateGrad
from .node import Node
from .op_node import OpNode


class OnDevice:
    """Mixed into the nodes of ops on a device: the rule runs with that device as the current one."""

    _places: Sequence[Device]
    """Per output, the device that holds it."""

    def _device(self, number: int) -> Device:
        return self._places[number]

    _repeats: ClassVar[bool] = True
    """Its rule may run a second time where memory has run out: it calls no user code."""

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Any:
        node: Any = self
        run = cast("Any", super())._run
        with _on_its_device(node, grads):
            if recorder is not None:  # nothing is made here, where the device need not be served
                return run(grads, create_graph, recorder)
            return self._within(lambda: run(grads, create_graph, recorder))

    def _run_on_arrays(self, grads: list[Data | None]) -> Any:
        node: Any = self
        run = cast("Any", super())._run_on_arrays
        with _on_its_device(node, grads):
            return self._within(lambda: run(grads))

    def _within(self, run: Callable[[], Any]) -> Any:
        place = self._places[0]
        if place is CPU or not self._repeats:
            return run()
        node: Any = self
        return with_memory_retry(backend_for_kind(place.type), place.index or 0, lambda: f"in {node._title()}", run)

    def _run_recorded(self, grads: list[Data | None], recorder: Recorder) -> Any:
        return self._run(grads, False, recorder)


class DeviceOpNode(OnDevice, OpNode):
    """The node of an op on a device."""


def _on_its_device(node: Node, grads: Sequence[Data | None]) -> Any:
    held = None
    for number, grad in enumerate(grads):
        if grad is not None:
            held = innermost_data(getattr(grad, "_data", grad))  # of a tensor, its data
            check_place(node, number, held)
    return device_guard(held) if needs_device_guard(held) else nullcontext()


class DeviceAccumulateGrad(AccumulateGrad):
    """The accumulator of a leaf on a device."""

    def _device(self, number: int) -> Device:
        return self.variable.device

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        (grad,) = grads
        if grad is None:
            return super()._run(grads, create_graph, recorder)
        with _on_its_device(self, grads):
            return super()._run(grads, create_graph, recorder)


def check_place(node: Node, number: int, data: Any) -> None:
    """Check that a gradient that reaches a node is where the node's output was.

    Raises:
        RuntimeError: it is on another device.
    """
    expected, found = node._device(number), device_of(data)
    if found != expected:
        raise AutogradError(
            f"a gradient that reached {node._title()} is invalid: expected device {expected} but got {found}; the "
            f"backward that made it must return it on the device of its input: grad.to('{expected}')"
        )
