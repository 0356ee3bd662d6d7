"""Borrowed leaf gradients: the `.grad` of client leaves while a step on a worker reads or changes it (H16).

A leaf comes with the gradient that it had when the step was recorded. User code may read it, accumulate into it or
assign it; the final gradient returns to the client as an output of the node. Code that is only seen to accumulate goes
without: what it adds returns, and a sum adds it to the gradient, so that no step waits for that of another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from raygrad.autograd.devices.serving import device_guard, is_device_array
from raygrad.autograd.nodes.captured_leaves import (
    LEAF,
    PLAIN,
    REMEDY,
    collect_gradient,
    collected_gradients,
    lend_gradient,
)
from raygrad.autograd.tensor.tensor import Tensor
from raygrad.errors import AutogradError
from raygrad.proto.ir.nodes import UNDEFINED, FunctionCall, FunctionVjp, HookCall
from raygrad.proto.ir.program import Step

from ..code.unpickling import opened_value
from ..values.slots import Slots

CAPTURED, ARGUMENT, HELD = 0, 1, 2
"""Where a step reaches a leaf: a value that its code captures, an argument of its Function, or a tensor nested in an
argument of forward; each by its number."""

Entry = tuple[tuple[int, int], ...]
"""All places of one leaf: (CAPTURED, ARGUMENT or HELD, number), one or more."""


REFUSED, HOME, DISCARDED, ADDED = 0, 1, 2, 3
"""The fate of a gradient that user code changed: an error; returned to the client; discarded, since the run replays
forward for its derivatives and must have no effects; what was added is returned, as `AddedGradients`."""

RETURNED = (HOME, ADDED)
"""Fates with an output of the node for each leaf."""


class AddedGradients(list[Any]):
    """What a step has added to the `.grad` of a leaf: one or more arrays, in order."""

    def added_to(self, grad: Any) -> Any:
        """Return an array with a gradient, None for none, and these, by the additions of an eager pass."""
        if grad is None:
            grad, *rest = self
        else:
            rest = self
        total = grad.copy(order="K")
        for one in rest:
            total += one
        return total


class BorrowedLeaves:
    """The leaves whose `.grad` a step borrows. Their gradients are the last inputs of the step and, if they return to
    the client, its last outputs."""

    __slots__ = ("_entries", "_fate", "_sources", "_targets")

    def __init__(self, entries: Sequence[Entry], fate: int, sources: Sequence[int], targets: Sequence[int]) -> None:
        self._entries = entries
        self._fate = fate
        self._sources = sources
        self._targets = targets
        """The output slots of the gradients, -1 for one that is not requested."""

    @staticmethod
    def of(node: FunctionCall | FunctionVjp | HookCall, outputs: Sequence[int]) -> BorrowedLeaves | None:
        """Return the leaves of a node with these output slots; None if it has none."""
        if node.leaves is None:
            return None
        entries, fate = node.leaves
        targets = outputs[-len(entries) :] if fate in RETURNED else [-1] * len(entries)
        return BorrowedLeaves(entries, fate, node.inputs[-len(entries) :], targets)

    @staticmethod
    def inputs_before(step: Step, leaves: BorrowedLeaves | None) -> tuple[int, ...]:
        """Return the inputs of a step before the gradients of its leaves."""
        return step.node.inputs if leaves is None else step.node.inputs[: -len(leaves)]

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def returned(self) -> int:
        """The number of outputs that are gradients of leaves."""
        return len(self._entries) if self._fate in RETURNED else 0

    def lend(
        self, slots: Slots, read: list[Any], arguments: list[Any], held: Mapping[int, Tensor] | None
    ) -> list[Tensor]:
        """Borrow the gradients: put one tensor at all places of each leaf, set its `.grad`, and return these tensors.

        Args:
            slots: the values of the run.
            read: the captured values; leaves replace theirs.
            arguments: the arguments of the Function; leaves replace theirs.
            held: by number, the tensors nested in arguments of forward.
        """
        borrowed: list[Tensor] = []
        for entry, source in zip(self._entries, self._sources, strict=True):
            tensor = self._tensor_of(entry, read, arguments, held)
            for where, number in entry:
                if where == CAPTURED:
                    read[number] = tensor
                elif where == ARGUMENT:
                    arguments[number] = tensor
            borrowed.append(tensor)
            if self._fate == ADDED:
                collect_gradient(tensor)
                continue
            lend_gradient(tensor, self._fate != REFUSED)
            value = None if source == UNDEFINED else slots[source]
            if value is None:
                tensor._grad = None
            elif self._fate == REFUSED:
                tensor._grad = opened_value(value, PLAIN)
            else:
                with device_guard(value) if is_device_array(value) else nullcontext():
                    tensor._grad = Tensor.made(value.copy(order="K"))
        return borrowed

    @staticmethod
    def _tensor_of(
        entry: Entry, read: Sequence[Any], arguments: Sequence[Any], held: Mapping[int, Tensor] | None
    ) -> Tensor:
        """Return the tensor of a leaf: the nested one, that on the tape, or a new one."""
        where, number = entry[0]
        if where == HELD:
            assert held is not None
            return held[number]
        if where == ARGUMENT:
            return arguments[number]
        return read[number] if isinstance(read[number], Tensor) else opened_value(read[number], LEAF)

    def take_back(self, slots: Slots, borrowed: Sequence[Tensor], title: str) -> None:
        """Return the gradients: move the leaves' `.grad` to their output slots.

        Raises:
            AutogradError: a gradient has a history, or was changed where it is refused; names the code by its `title`.
        """
        grads = [tensor._grad for tensor in borrowed]
        for tensor in borrowed:
            tensor._grad = None
        for tensor, source, target, grad in zip(borrowed, self._sources, self._targets, grads, strict=True):
            if self._fate == REFUSED and (grad is None) != (source == UNDEFINED or slots[source] is None):
                raise refused(title, tensor)
            if self._fate == ADDED:
                added, history = collected_gradients(tensor)
                value = AddedGradients(added) if added else None
            else:
                history = self._fate == HOME and grad is not None and grad._requires_grad
                value = None if grad is None else grad._data
            if history:
                raise AutogradError(
                    f"{title}: the .grad of a captured leaf of shape {list(tensor.shape)} got a history "
                    "(create_graph=True), which cannot leave the worker: use autograd.grad with create_graph=True, "
                    "and return the gradient"
                )
            if target >= 0:
                slots[target] = value


def refused(title: str, leaf: Tensor) -> AutogradError:
    """Return the error for user code that changed the `.grad` of a leaf where the change would be lost."""
    return AutogradError(
        f"{title} changed the .grad of a leaf of shape {list(leaf.shape)}, which is the client's and would not get it: "
        f"{REMEDY}"
    )
