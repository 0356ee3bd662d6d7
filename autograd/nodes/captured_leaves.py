"""Captured tensors on a worker: tensors that user code captures, without the graph that made them (H16).

A captured tensor is on the worker what it is at the client (a leaf that requires grad, say), so that passes inside user
code reach as far as eagerly. A gradient that such a pass adds to a borrowed leaf is returned with the step that runs.
Other gradients do not leave the worker through it, and a pass that would lose one raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from raygrad.errors import AutogradError

from ..core.catalogue import ops
from ..core.modes import state
from ..core.recorder import Data, Pending, Recorder
from ..devices import Device
from ..tensor.tensor import Tensor
from .accumulator import AccumulateGrad
from .node import Node, next_sequence

PLAIN, LEAF, INNER = 1, 2, 3
"""Kinds of captured tensor: without grad, a leaf that requires grad, one with a producer. (0 is an array.)"""


def kind_of_capture(tensor: Tensor) -> int:
    """Return the kind of a tensor: `PLAIN`, `LEAF` or `INNER`."""
    return INNER if tensor.grad_fn is not None else LEAF if tensor._requires_grad else PLAIN


def captured_tensor(data: Any, kind: int) -> Tensor:
    """Return the tensor by which a worker represents a captured one of some kind."""
    tensor = Tensor.made(data)
    if kind == LEAF:
        tensor._requires_grad = True
        accumulator = CapturedLeafAccumulator(tensor)
        tensor._accumulator = lambda: accumulator
    elif kind == INNER:
        tensor._requires_grad = True
        tensor.grad_fn = DetachedHistory(tensor)
    return tensor


def set_captured_gradient(leaf: Tensor, grad: Pending, recorder: Recorder, *, out_of_place: bool) -> None:
    """Make `grad` the `.grad` of a borrowed leaf: its next version if it has one; a new tensor if `out_of_place`."""
    old = leaf._grad
    if old is None or out_of_place:
        recorder.write(leaf, "_grad", leaf.made(grad))
    else:
        old._next_value(grad, recorder)


class CapturedLeafAccumulator(AccumulateGrad):
    """The accumulator, on a worker, of a leaf of the client: it refuses gradients unless `.grad` is borrowed."""

    borrowed = False
    """Whether the leaf's `.grad` is on this worker now, to be returned to the client."""

    def _device(self, number: int) -> Device:
        return self.variable.device

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        if self.borrowed:
            return super()._run(grads, create_graph, recorder)
        if grads[0] is not None:
            raise AutogradError(
                f"backward() inside code that a worker runs would add to the .grad of a captured leaf of shape "
                f"{list(self.variable.shape)}, which is the client's and would not get it (the leaf has hooks, or the "
                f"code runs in a forward, or is not seen to call backward): {REMEDY}"
            )
        return ()


class CollectingAccumulator(AccumulateGrad):
    """The accumulator, on a worker, of a leaf of the client whose `.grad` is not there: it collects what passes add, in
    their order."""

    def __init__(self, variable: Tensor) -> None:
        super().__init__(variable)
        self.added: list[Data] = []
        """Gradients that are to be added, in the leaf's axis order, each in memory of its own."""
        self.history = False
        """One of them has a history (create_graph=True)."""

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        (grad,) = grads
        if grad is not None and self.variable._requires_grad:
            if create_graph:
                self.history |= state.here.grad and grad._requires_grad
                grad = grad._data
            self.added.append(ops.copy_in_order(grad, self.variable.axis_order_at_hand()))
        return ()


class UnreadGradient:
    """The record of a `.grad` that stays at the client while code on a worker adds to it: reading it raises."""

    live, run = 0, -1

    def __init__(self, leaf: Tensor) -> None:
        self.recorder = self
        self._leaf = leaf

    def is_defined(self, value: Pending) -> bool:
        """Refuse to tell, where user code asks for the `.grad`.

        Raises:
            AutogradError: always.
        """
        raise AutogradError(
            f"code that a worker runs read the .grad of a captured leaf of shape {list(self._leaf.shape)}, to which it "
            "adds, and is not seen to read it: read it by its name, `leaf.grad`, in the code of the Function or hook "
            "itself, so that it is sent along"
        )


def collect_gradient(leaf: Tensor) -> None:
    """Collect from now on what passes add to the `.grad` of a leaf of the client, which is not here."""
    accumulator = CollectingAccumulator(leaf)
    leaf._accumulator = lambda: accumulator
    record: Any = UnreadGradient(leaf)
    leaf._grad = leaf.made(Pending(record, 0, leaf.shape, leaf.dtype, None, None))


def collected_gradients(leaf: Tensor) -> tuple[Sequence[Data], bool]:
    """Return what was added to the `.grad` of a leaf, in order, since `collect_gradient`, and whether some of that has
    a history. Ends the collection."""
    accumulator = None if leaf._accumulator is None else leaf._accumulator()
    leaf._grad = leaf._accumulator = None
    if not isinstance(accumulator, CollectingAccumulator):  # the leaf's data was set
        return (), False
    return accumulator.added, accumulator.history


def lend_gradient(leaf: Tensor, borrowed: bool) -> None:
    """Say whether the `.grad` of a leaf of the client's is here, and goes home from here."""
    accumulator = None if leaf._accumulator is None else leaf._accumulator()
    if isinstance(accumulator, CapturedLeafAccumulator):
        accumulator.borrowed = borrowed


class DetachedHistory(Node):
    """The node that represents the outer graph of a captured tensor, which stays at the client."""

    def __init__(self, tensor: Tensor) -> None:
        self._shape = list(tensor.shape)
        self._metas = ((tensor.shape, tensor.dtype),)
        self._place = tensor.device
        self._sequence = next_sequence()

    def name(self) -> str:
        """Return what messages call it."""
        return "CapturedBackward"

    def _device(self, number: int) -> Device:
        return self._place

    def refusal(self) -> AutogradError:
        """Return the error of a pass that would go further back."""
        return AutogradError(
            f"code that a worker runs differentiates through a captured tensor of shape {self._shape} into "
            f"the graph that made it, which is at the client: {REMEDY}"
        )

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        raise self.refusal()


REMEDY: Final = (
    "register a hook with client=True, which runs it in your process; pass what a Function differentiates by as an "
    "argument, and return its gradient (allow for it in backward by autograd.grad instead of backward()); or use "
    "raygrad.checkpoint, if it is to compute a region again"
)
"""What to do instead."""
