"""The backward of a user's Function inside vmap: run once on batched tensors, or once for each example.

Called by a Function's node when a gradient or a saved tensor is batched; the node runs the method itself.
`derived.function_vmap` handles the forward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from raygrad.errors import NoSingleValue

from .. import ops
from ..core.batched_data import (
    Batched,
    BatchedDraw,
    VmapLevel,
    innermost_vmap_level,
    open_vmap_levels_of,
    outside_vmap_level,
    unwrap_batched,
)
from ..core.modes import state
from ..core.random_streams import EXAMPLES, REFUSED, PassStream, path_for_example, running_with
from ..core.recorder import Pending
from ..saved.saved_slots import PACKED, UNSHARED, VALUE, SavedSlot
from ..tensor.tensor import Tensor
from . import batched
from .batched_call import example_of, stacked_examples

if TYPE_CHECKING:
    from ..functions.context import FunctionNode


def backward_batched(
    node: FunctionNode, grads: Sequence[Tensor | None], create_graph: bool, *, generated: bool = False
) -> list[Tensor | None]:
    """Run a user's backward on batched gradients or saved tensors: once, or once for each example if it draws random
    numbers, or works on arrays and vmap may generate rules for the Function. A `generated` rule runs it, to whose
    application those to the examples belong."""
    here = state.here
    outer: Any = here.stream
    grads = _one_for_each(node, grads)
    try:
        with running_with(here, outer.marked(EXAMPLES)):
            return node._run_backward(grads, create_graph)
    except NoSingleValue as error:
        drawn = isinstance(error, BatchedDraw)
        if not drawn and not node._function.generate_vmap_rule:
            raise
        saved = node.saved_tensors
        level = innermost_vmap_level([*grads, *saved, *node._attributes().values()])
        if level is None:
            if drawn:  # it reads nothing that differs between examples
                return node._run_backward(grads, create_graph)
            raise
    found: list[list[Tensor | None]] = []
    with outside_vmap_level(level):
        for number in range(max(level.size, 1)):  # of no examples, one of zeros, for the shape of what comes out
            one = picked_node(node, saved, level, number)
            given = [picked_example(g, level, number) for g in grads]
            with running_with(here, _stream_of_example(outer, number, level.randomness, generated)):
                run = partial(backward_batched, one) if here.batches else one._run_backward
                found.append(run(given, create_graph))
    return [stack_gradients(parts, level) for parts in zip(*found, strict=True)]


def _one_for_each(node: FunctionNode, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return gradients batched like what the node has saved: what a backward makes like its gradient, and then fills
    from saved values, has to have room for each example."""
    slots: Any = node._saved if type(node._saved) in (list, tuple) else ()
    saved = [slot.value for slot in slots if slot is not None and slot.kind is not PACKED]
    beside = [Tensor.made(one) if type(one) is Batched else one for one in (*saved, *node._attributes().values())]
    levels = {level for one in beside if isinstance(one, Tensor) for level in open_vmap_levels_of(one)}
    out = list(grads)
    for level in levels:
        out = [grad if grad is None else _with_examples(grad, level) for grad in out]
    return out


def _with_examples(tensor: Tensor, level: VmapLevel) -> Tensor:
    """Return a tensor batched at a level, too, below the levels inside of that."""
    data = tensor._data
    if type(data) is Batched and data.level.entered:
        if data.level is level:
            return tensor
        if data.level.depth > level.depth:
            return batched(_with_examples(data.value, level), data.dim, data.level)
    return batched(ops.expand(tensor, (level.size, *tensor.shape)), 0, level)


def _stream_of_example(outer: PassStream, number: int, randomness: str, generated: bool) -> PassStream:
    if not generated:
        return outer.for_example(number, randomness)
    made = outer.marked(*([REFUSED] if randomness == "error" else ()))
    assert made.application is not None
    made.application = path_for_example(made.application, number, randomness)
    return made


def picked_example(value: Any, level: VmapLevel, number: int) -> Any:
    """Return one example of a value that may be batched at a level."""
    whole, dim = unwrap_batched(value, level)
    return whole if dim is None else example_of(whole, dim, number, level.size)


def stack_gradients(parts: Sequence[Tensor | None], level: VmapLevel) -> Tensor | None:
    """Return the gradients of all examples as a batched one, zeros for undefined ones; None if all are undefined."""
    some = next((part for part in parts if part is not None), None)
    if some is None:
        return None
    return batched(stacked_examples([ops.zeros_as(some) if p is None else p for p in parts], level.size), 0, level)


def picked_node(node: FunctionNode, saved: Sequence[Any], level: VmapLevel, number: int) -> FunctionNode:
    """Return a context for one example."""
    one = object.__new__(type(node))
    one.__dict__.update(node.__dict__)
    one._saved = [
        None if t is None else SavedSlot(VALUE, -1, picked_example(t, level, number), UNSHARED, 0) for t in saved
    ]
    for name, value in node._attributes().items():
        if isinstance(value, Tensor):
            setattr(one, name, picked_example(value, level, number))
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
    here = state.here
    stream: Any = here.stream
    with outside_vmap_level(level):
        for number in range(max(level.size, 1)):  # of no examples, one of zeros, for the shape of what comes out
            one = [picked_example(tensor, level, number) for tensor in tensors]
            with running_with(here, stream.for_example(number, level.randomness)):
                given = run(one if as_tensors else [None if t is None else t._data for t in one])
            found.append([_gradient_tensor(grad) for grad in given])
        out = [stack_gradients(parts, level) for parts in zip(*found, strict=True)]
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
