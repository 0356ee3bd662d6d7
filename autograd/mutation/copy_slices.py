"""Backward nodes of in-place changes of a part of a tensor, and of views regenerated after them.

`inplace.py` gives nodes these classes. They differ from the nodes of the ops that they stand for in what they free and
in the history of their zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..core.recorder import Data, Recorder, resolve_gradient
from ..nodes.op_node import OpNode


class CopySlices(OpNode):
    """The node of a tensor a part of which was changed in place. A pass that does not retain the graph frees it in any
    case, also where nothing is saved (CX-10)."""

    def name(self) -> str:
        """Return PyTorch's name for it."""
        return "CopySlices"

    def _ready(self, grads: Sequence[Data | None]) -> bool:
        if self.saved_tensors is None:  # that matters where there is a gradient to pass only
            grads = [resolve_gradient(grad) for grad in grads]
        return any(grad is not None for grad in grads) and super()._ready(grads)

    def _release(self) -> None:
        self.saved_tensors = None

    def _holds(self) -> bool:
        return self.saved_tensors is not None


class ViewChange(OpNode):
    """The node of what a view was changed to in place. What is overwritten has a gradient of zeros: of a view they have
    the history that its base's gradient has elsewhere (EN-08)."""

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        results = super()._run(grads, create_graph, recorder)
        zeros, arrived = results[0], grads[0]
        if create_graph and zeros is not None and arrived is not None and not zeros._requires_grad:
            return [ops.zeros_as(arrived), *results[1:]] if arrived._requires_grad else results
        return results


class EmptyView(OpNode):
    """The node of a view without elements that was made again: the zeros that it passes on have no history."""

    def _run(self, grads: list[Data | None], create_graph: bool, recorder: Recorder | None) -> Sequence[Data | None]:
        results = super()._run(grads, create_graph, recorder)
        return [None if grad is None else grad.detach() for grad in results] if create_graph else results
