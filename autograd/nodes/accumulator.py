"""Gradient accumulator of a leaf: the node at which a gradient ends, and the addition to `.grad`.

The engine runs it as soon as it is ready. Only here is `.grad` accumulated, of leaves and of other tensors that retain
theirs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from raygrad.errors import AutogradError

from ..core.catalogue import ops
from ..core.modes import state
from ..core.random_streams import Path, UnopenedStream, path_of_pass
from ..core.recorder import Data, Pending, Recorder, resolve_gradient
from ..tensor.tensor import Tensor
from .node import Edge, Node, call_node

ACCUMULATOR_RANK = 1 << 62
"""Accumulators rank above all other nodes: they run as soon as they are ready (EN-20)."""


class AccumulateGrad(Node):
    """The accumulator of one leaf: adds what arrives into its `.grad` (ND-04), then tells who asked to know (HK-17)."""

    _sequence = ACCUMULATOR_RANK

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable
        data = variable._data
        self._metas = ((data.shape, data.dtype),)

    def name(self) -> str:
        """Return what PyTorch calls it, with the namespace of a node that is no function's."""
        return "torch::autograd::AccumulateGrad"

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        (grad,) = grads
        variable = self.variable
        if grad is not None and variable._grad_fn is not None:
            raise AutogradError(
                f"leaf variable has been moved into the graph interior: a tensor of shape {list(variable.shape)} was a "
                "leaf when it was used, and was changed in place since; use the out-of-place operation"
            )
        if grad is not None and variable._requires_grad:  # the flag may have been cleared since
            recording = create_graph and state.here.grad
            data = grad._data if create_graph and not recording else grad  # `.grad` carries no tangents then
            accumulate(variable, data, recording, recorder)
        if variable._after_accumulation is not None:
            for hook, path in variable._after_accumulation.with_paths():
                if self._call(hook, path) is not None:
                    raise AutogradError(
                        "a hook that runs after a leaf's gradient was accumulated should return None: to change the "
                        "gradient, assign to the leaf's `.grad` in the hook"
                    )
        return ()

    def _call(self, hook: Callable[[Tensor], Any], path: Path) -> Any:
        here = state.here
        outer = here.stream
        here.stream = UnopenedStream(path, path_of_pass(here, within=True))
        try:
            return hook(self.variable)
        finally:
            here.stream = outer

    def __call__(self, *grads: Tensor | None) -> Any:
        """Add a gradient to the leaf's `.grad`, as at the end of a pass."""
        return call_node(self, grads)


class DiscardGrad(AccumulateGrad):
    """The accumulator of a view that has no node, and requires grad only as its base does: it discards the gradient."""

    _reached = False

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        return ()


def leads_to_producer(edge: Edge | None) -> bool:
    """Tell whether an edge leads to a producer: not to a leaf's accumulator, nor nowhere."""
    return edge is not None and edge[0] is not None and not isinstance(edge[0], AccumulateGrad)


def describe_saved_value(data: Data, made_by: Edge | None, keeper: Node) -> str:
    """Return how the message for a stale saved value names it (CX-13)."""
    what = f"[{data.dtype} {list(data.shape)}], "
    if made_by is not None and made_by[0] is not None and leads_to_producer(made_by):
        what += f"which is output {made_by[1]} of {made_by[0]._title()}, "
    return what + f"saved by {keeper._title()},"


_LOCKS = [threading.RLock() for _ in range(16)]
"""Passes on several threads may accumulate into one leaf (EN-25); leaves share locks, since one each would cost memory.
What runs under one of these takes no other lock."""

_RECORDED_LOCK = threading.RLock()
"""The same while a pass is recorded: then the recorder's lock is taken under it, and never the other way round."""


def accumulate(
    variable: Tensor, grad: Data, create_graph: bool, recorder: Recorder | None, *, out_of_place: bool = False
) -> None:
    """Add `grad` to `variable.grad`: stored the first time, then added in place, or anew with `create_graph` (EN-07)
    and where a non-leaf retains its gradient.

    The first gradient takes the leaf's axis order (EN-32) and memory of its own (BW-16).
    """
    with _LOCKS[id(variable) >> 4 & 15] if recorder is None else _RECORDED_LOCK:
        _add_to_grad(variable, grad, create_graph, recorder, out_of_place)


def _add_to_grad(
    variable: Tensor, grad: Data, create_graph: bool, recorder: Recorder | None, out_of_place: bool
) -> None:
    old = variable._grad
    if create_graph:
        if old is not None and resolve_gradient(old._data) is None:
            old = None
        # a clone: neither the caller's gradient nor another leaf's may share its memory (pending ones are immutable)
        fresh = grad if type(grad._data) is Pending else grad.clone()
        new = variable.made(fresh._data, fresh.grad_fn, fresh.output_nr) if old is None else old + grad
        _set_grad(variable, new, recorder)
        return
    if recorder is not None:
        laid = ops.in_order_data(grad, variable.axis_order(), variable._data, recorder)
        if old is None:
            _set_grad(variable, variable.made(laid), recorder)
        elif out_of_place:
            _set_grad(variable, variable.made(recorder.add(old._data, laid)), recorder)
        else:
            old._next_value(recorder.add(old._data, laid), recorder)
    elif old is None:
        _set_grad(variable, variable.made(ops.copy_in_order(grad, variable.axis_order_at_hand())), None)
    elif out_of_place:
        _set_grad(variable, variable.made(ops.add(old._read(), grad)), None)
    else:
        old.add_in_place(grad)


def _set_grad(variable: Tensor, value: Tensor, recorder: Recorder | None) -> None:
    if recorder is None:
        variable._grad = value
    else:
        recorder.write(variable, "_grad", value)
