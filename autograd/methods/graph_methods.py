"""Tensor methods about the backward graph: `requires_grad`, `register_hook`, `backward`, `detach_`, `data`.

Apart from `tensor` since they need accumulators, views and the engine, which are built on tensors. `surface` adds them
to `Tensor`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from raygrad.errors import AutogradError
from raygrad.tracebacks import leave

from ..core import dtypes
from ..core.batched_data import Batched, innermost_data
from ..core.hooks import RemovableHandle
from ..core.modes import state
from ..core.recorder import Data, Recorder
from ..core.transform_scopes import SCOPES
from ..devices.serving import is_on_device
from ..engine import engine
from ..mutation.captured import check_not_captured
from ..mutation.inplace import set_next_value
from ..mutation.rebase_history import read_grad_fn
from ..mutation.set_data import exchange_data
from ..nodes.accumulator import AccumulateGrad, DiscardGrad
from ..nodes.device_nodes import DeviceAccumulateGrad
from ..nodes.node import Edge, Node, prepare_hook
from ..storage.storage import has_views
from ..storage.version_counter import note_detached, note_requires_grad
from ..storage.view import has_node, owns_grad, record_alias, update_views
from ..tensor.inference import REMEDY
from ..tensor.tensor import Tensor

_ARRAY: type[np.ndarray[Any, Any]] = np.ndarray


class GraphMethods:
    """Methods of `Tensor` about its place in the graph. Each `self` is a tensor; to type checkers this is a base class
    of it."""

    @property
    def grad_fn(self: Any) -> Node | None:
        """The node that made it, None for leaves. That of a view is made again when it is read, after a change of its
        memory.

        Raises:
            RuntimeError: a change of its memory has ended its history (OU-12, OU-15).
        """
        node: Node | None = self._grad_fn
        return node if node is not None or self._view is None else read_grad_fn(self, self._view)

    @grad_fn.setter
    def grad_fn(self: Any, node: Node | None) -> None:
        self._grad_fn = node

    @property
    def requires_grad(self: Any) -> bool:
        """Whether gradients flow to it.

        Raises (on setting):
            RuntimeError: an integer or bool tensor cannot; that of a non-leaf is its node's.
        """
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self: Any, value: bool) -> None:
        if value and not dtypes.is_differentiable(self.dtype):
            raise AutogradError("only Tensors of floating point and complex dtype can require gradients")
        if value and self._inference is not None and not state.here.inference:
            raise AutogradError(
                f"Setting requires_grad=True on inference tensor outside InferenceMode is not allowed: {REMEDY}"
            )
        if has_node(self):
            raise AutogradError(
                "you can only change requires_grad flags of leaf variables; y = x.detach() is a value without history"
            )
        if value and not self._requires_grad and self._counter is not None:
            note_requires_grad(self._counter, self)
        view = self._view
        self._requires_grad = bool(value)
        if view is None:
            self._grad_fn = None  # found sooner by the ops to come
        elif view.base is not None:
            view.owns_grad = bool(value)
            self._requires_grad = view.owns_grad or view.base._requires_grad
        update_views(self)

    def requires_grad_(self: Any, requires_grad: bool = True) -> Tensor:
        """Set `requires_grad` and return the tensor.

        Raises:
            RuntimeError: inside a function that is being transformed (FT-07).
        """
        self._refuse_in_transform("requires_grad_")
        if not has_node(self) or not requires_grad:
            self.requires_grad = requires_grad
        return self

    def edge(self: Any) -> Edge:
        """Return the edge along which its gradient flows: to its producer, or its accumulator."""
        view = self._view
        node = self._grad_fn if view is None else self.grad_fn
        if node is not None:
            return node, self.output_nr
        if view is not None and not owns_grad(self):
            return DiscardGrad(self), 0
        known = self._accumulator
        if known is None or (accumulator := known()) is None:
            accumulator = AccumulateGrad(self) if type(self._data) is _ARRAY else accumulator_of(self)
            if self._hooks is not None:
                accumulator._tensor_hooks = {0: self._hooks}
                accumulator._hooked = True
            self._accumulator = weakref.ref(accumulator)
        return accumulator, 0

    def register_hook(self: Any, hook: Callable[[Tensor], Tensor | None], *, client: bool = False) -> RemovableHandle:
        """Call `hook(grad)` when this tensor's gradient is summed; a result other than None replaces it.

        In a session it is called on the worker that has the gradient, or, with `client`, in this process while the pass
        is recorded: then it may change what it captures, `grad` is pending, and reading it waits.

        Raises:
            RuntimeError: the tensor does not require grad.
        """
        if not self._requires_grad:
            raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
        return RemovableHandle(self.hooks_of_gradient(), prepare_hook(hook, "tensor", client))

    def backward(
        self: Any,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Compute the gradients of this tensor by the leaves, into their `.grad`; see `autograd.backward`."""
        try:
            engine.backward(self, gradient, retain_graph, create_graph, inputs=inputs)
        except BaseException as error:  # of any kind: it goes on as it is
            leave(error)
            raise

    def detach_(self: Any) -> Tensor:
        """Drop this tensor's history.

        Raises:
            RuntimeError: it is a view.
        """
        if SCOPES:
            check_not_captured(self)
        if self._base is not None:
            raise AutogradError("Can't detach views in-place. Use detach() instead")
        if self.grad_fn is not None and self._counter is not None:
            note_detached(self._counter, self.grad_fn, self.output_nr)
        self._grad_fn = None
        self.output_nr = 0
        self._requires_grad = False
        update_views(self)
        self._tangents = None
        return self

    @property
    def data(self: Any) -> Tensor:
        """A tensor of the same memory, with a version counter of its own."""
        other = Tensor.made(self._data)
        if type(self._data) is not Batched:
            record_alias(other, self)
        return other

    @data.setter
    def data(self: Any, value: Tensor) -> None:
        if not isinstance(value, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        exchange_data(self, value)

    # ---- in a session ------------------------------------------------------------------------------------------------

    def _next_value(self: Any, data: Data, recorder: Recorder) -> None:
        """Set a stored gradient's next value in a session, also for tensors that share its memory."""
        if self._view is None and not has_views(self):
            if self._shares_memory:
                recorder.note_change(self)
            recorder.write(self, "_data", data)
        else:
            set_next_value(self, data, recorder)


def accumulator_of(tensor: Tensor) -> AccumulateGrad:
    """Return a new accumulator for a leaf that is on another device or pending."""
    if is_on_device(innermost_data(tensor._data)):
        return DeviceAccumulateGrad(tensor)
    return AccumulateGrad(tensor)
