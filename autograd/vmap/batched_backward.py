"""The backward of a user's Function inside vmap: run once on batched tensors, or once for each example.

Called by a Function's node when a gradient or a saved tensor is batched; the node runs the method itself.
`derived.function_vmap` handles the forward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from raygrad.errors import NoSingleValue

from .. import ops
from ..core.batched_data import VmapLevel, innermost_vmap_level, outside_vmap_level, unwrap_batched
from ..core.recorder import Pending
from ..saved.saved_slots import UNSHARED, VALUE, SavedSlot
from ..tensor.tensor import Tensor
from . import batched
from .batched_call import example_of, stacked_examples

if TYPE_CHECKING:
    from ..functions.context import FunctionNode


def backward_batched(node: FunctionNode, grads: Sequence[Tensor | None], create_graph: bool) -> list[Tensor | None]:
    """Run a user's backward on batched gradients or saved tensors: once, or once for each example if it works on arrays
    and vmap may generate rules for the Function."""
    try:
        return node._run_backward(grads, create_graph)
    except NoSingleValue:
        if not node._function.generate_vmap_rule:
            raise
        saved = node.saved_tensors
        level = innermost_vmap_level([*grads, *saved, *node._attributes().values()])
        if level is None:
            raise
    found: list[list[Tensor | None]] = []
    with outside_vmap_level(level):
        for number in range(max(level.size, 1)):  # of no examples, one of zeros, for the shape of what comes out
            one = _picked_node(node, saved, level, number)
            found.append(one._run_backward([_picked(g, level, number) for g in grads], create_graph))
    return [_stacked(parts, level) for parts in zip(*found, strict=True)]


def _picked(value: Any, level: VmapLevel, number: int) -> Any:
    whole, dim = unwrap_batched(value, level)
    return whole if dim is None else example_of(whole, dim, number, level.size)


def _stacked(parts: Sequence[Tensor | None], level: VmapLevel) -> Tensor | None:
    """Return the gradients of all examples as a batched one, zeros for undefined ones; None if all are undefined."""
    some = next((part for part in parts if part is not None), None)
    if some is None:
        return None
    return batched(stacked_examples([ops.zeros_as(some) if p is None else p for p in parts], level.size), 0, level)


def _picked_node(node: FunctionNode, saved: Sequence[Any], level: VmapLevel, number: int) -> FunctionNode:
    """Return a context for one example."""
    one = object.__new__(type(node))
    one.__dict__.update(node.__dict__)
    one._saved = [None if t is None else SavedSlot(VALUE, -1, _picked(t, level, number), UNSHARED, 0) for t in saved]
    for name, value in node._attributes().items():
        if isinstance(value, Tensor):
            setattr(one, name, _picked(value, level, number))
    return one


def for_each_example(
    run: Callable[[list[Any]], Sequence[Any]], grads: Sequence[Any], as_tensors: bool
) -> list[Any] | None:
    """Return the results of `run(gradients)` for each example, stacked; None if no gradient is batched.

    Nodes of a session run this way: each example is an application of its own, which can be placed on any worker.
    `as_tensors` says whether gradients are tensors or their data.
    """
    tensors = [grad if grad is None or isinstance(grad, Tensor) else Tensor.made(grad) for grad in grads]
    level = innermost_vmap_level(tensors)
    if level is None:
        return None
    found: list[list[Tensor | None]] = []
    with outside_vmap_level(level):
        for number in range(max(level.size, 1)):  # of no examples, one of zeros, for the shape of what comes out
            one = [_picked(tensor, level, number) for tensor in tensors]
            given = run(one if as_tensors else [None if t is None else t._data for t in one])
            found.append([_gradient_tensor(grad) for grad in given])
        out = [_stacked(parts, level) for parts in zip(*found, strict=True)]
    return out if as_tensors else [None if t is None else t._data for t in out]


def _gradient_tensor(grad: Any) -> Tensor | None:
    """Return a gradient as a tensor, None if it is undefined; wait for a pending value (H5)."""
    if grad is None:
        return None
    tensor: Tensor = grad if isinstance(grad, Tensor) else Tensor.made(grad)
    data = tensor._data
    if type(data) is Pending and data.defined is None and not data.record.recorder.is_defined(data):
        return None
    return tensor
