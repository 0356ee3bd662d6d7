"""Multi-grad hooks: one hook over the gradients of several tensors (HK-18 to HK-21).

It is registered as an entry among the hooks of each tensor. The gradients seen so far belong to the pass, so that
passes on other threads, nested or failed ones do not interfere. Nodes are referred to weakly, since a graph has to die
by reference counting alone (ND-18).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from raygrad.errors import AutogradError

from ..core.hooks import RemovableHandle
from ..core.modes import state
from ..core.random_streams import path_of_registration
from ..tensor.tensor import Tensor
from .node import Node, prepare_hook

if TYPE_CHECKING:
    from ..engine.traversal import BackwardPass

MODES = ("all", "any")


class MultiGradHook:
    """One function that watches several tensors."""

    def __init__(self, fn: Callable[..., Any], mode: str, tensors: Sequence[Tensor]) -> None:
        self._fn = fn
        self._mode = mode
        self._path = path_of_registration(state.here)
        self._places: list[Callable[[], Node | None]] = [_place_of(tensor) for tensor in tensors]

    def saw(self, task: BackwardPass, position: int, node: Node, grad: Any) -> None:
        """Note the gradient of one of the tensors in a pass, and call the function once it is complete."""
        seen: dict[int, Any] = task.seen.setdefault(self, {})
        if self._mode == "any":
            if not seen:
                seen[position] = None
                task.show("any", self._fn, self._path, node, [grad])
            return
        seen[position] = grad
        if len(seen) == self._expected(task):
            task.show("all", self._fn, self._path, node, [seen.get(i) for i in range(len(self._places))])

    def _expected(self, task: BackwardPass) -> int:
        """Return how many of the gradients the pass will produce."""
        nodes = [place() for place in self._places]
        return sum(node is not None and task.will_reach(node) for node in nodes)


class MultiGradHookEntry:
    """The entry among the hooks of one tensor: it changes nothing and notifies the `MultiGradHook`."""

    __slots__ = ("hook", "position")

    def __init__(self, hook: MultiGradHook, position: int) -> None:
        self.hook = hook
        self.position = position


class MultiHandle:
    """Removes a hook from all of its tensors: `handle.remove()`, or at the end of a `with` block."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Remove the hook; a pass that is under way is not affected."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> MultiHandle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all", client: bool = False
) -> MultiHandle:
    """Call `fn` in each pass that produces gradients of some of `tensors`.

    Args:
        tensors: the tensors; all require grad.
        fn: what is called; its result is not used.
        mode: "all": once all gradients that the pass will produce are ready, with a list aligned with `tensors` and
            None for the others; "any": with the first that is ready.
        client: in a session, call it in this process; see `Tensor.register_hook`.

    Raises:
        ValueError: another mode.
        RuntimeError: one of the tensors does not require grad.
    """
    if mode not in MODES:
        raise ValueError(f"Expects mode to be one of {MODES} but got {mode}")
    for index, tensor in enumerate(tensors):
        if not tensor.requires_grad:
            raise AutogradError(f"expected tensors that require grad, but tensor {index} does not: it gets no gradient")
    hook = MultiGradHook(prepare_hook(fn, mode, client), mode, tensors)
    return MultiHandle(
        [RemovableHandle(t.hooks_of_gradient(), MultiGradHookEntry(hook, i)) for i, t in enumerate(tensors)]
    )


def _place_of(tensor: Tensor) -> Callable[[], Node | None]:
    """Return a weak reference to where a tensor's gradient goes: a leaf's accumulator may come and go."""
    if tensor.grad_fn is not None:
        return weakref.ref(tensor.grad_fn)
    leaf = weakref.ref(tensor)

    def accumulator() -> Node | None:
        living = leaf()
        return None if living is None else living.edge()[0]

    return accumulator
