"""The public entry points of reverse mode, `backward()` and `grad()`: their arguments, checks and results (EN-01 to
EN-18).

They prepare roots, seeds and requested inputs; `traversal` runs the pass and decides the order of nodes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, cast

import numpy as np

from raygrad.errors import AutogradError
from raygrad.tracebacks import leave

from .. import ops
from ..core.array_layout import is_array
from ..core.batched_data import Batched
from ..core.collector_pause import collector_paused
from ..core.modes import state
from ..core.random_streams import path_of_pass
from ..core.recorder import Pending, Recorder, resolve_gradient
from ..devices import Device
from ..dispatch.device_dispatch import zeros_on
from ..graph import GradientEdge
from ..nodes.captured_leaves import DetachedHistory
from ..nodes.closed_session import settle
from ..nodes.node import Edge, Node
from ..registry.vjp_rules import Meta
from ..storage.view import owns_grad
from ..tensor.tangent_levels import share_tangents
from ..tensor.tensor import Tensor
from .batched_grads import grads_of_batch
from .batched_pass import BatchedPassRecorder
from .hook_calls import call_hook as call_hook
from .traversal import BackwardPass

TensorOrEdge = Tensor | GradientEdge
"""A root or an input of a pass."""


def backward(
    tensors: TensorOrEdge | Sequence[TensorOrEdge],
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of `tensors` into the `.grad` of the leaves, or of `inputs` only.

    Args:
        tensors: the roots.
        grad_tensors: their gradients; None for a root with one element means one.
        retain_graph: keep what was saved for another pass; by default as `create_graph`.
        create_graph: record the pass itself, so that its results can be differentiated.
        grad_variables: the old name of `grad_tensors`.
        inputs: accumulate only into these: a tensor, a gradient edge, a sequence of them, or a dict of them.

    Raises:
        RuntimeError: a root that does not require grad, a gradient of the wrong shape, freed buffers.
    """
    try:
        if state.here.transforms:
            raise AutogradError(
                f"backward() called inside a function that {state.here.transforms[-1]} transforms. This is not "
                "supported: use raygrad.func.grad or vjp, or autograd.grad, or call backward() outside of the transform"
            )
        if grad_variables is not None:
            if grad_tensors is not None:
                raise AutogradError(
                    "both grad_tensors and grad_variables, its old name, are given: pass grad_tensors only"
                )
            warnings.warn("grad_variables is deprecated: call it grad_tensors", FutureWarning, stacklevel=2)
            grad_tensors = grad_variables
        if create_graph:
            warnings.warn(
                "Using backward() with create_graph=True makes a reference cycle of each leaf and its gradient, which "
                "may leak memory: use autograd.grad when making a graph of gradients, or set the .grad of the leaves "
                "to None after use",
                UserWarning,
                stacklevel=2,
            )
        roots = _as_tuple(tensors)
        grads = _grads_of(grad_tensors, len(roots))
        edges: list[Edge] | None = None
        if inputs is not None:
            wanted = _requested_inputs(inputs, "backward")
            edges = [_edge_of(place) for place in wanted]
            for place in wanted:
                if isinstance(place, Tensor):
                    place.retain_grad()  # how a non-leaf among them accumulates (EN-12)
        task = BackwardPass(_recorder_of(roots), retain_graph, create_graph)
        _run_and_submit(task, lambda: task.run(_seeds(roots, grads, task), edges))  # nobody holds a seed at submission
    except BaseException as error:  # of any kind: it goes on as it is
        leave(error)
        raise


def grad(
    outputs: TensorOrEdge | Sequence[TensorOrEdge],
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of `outputs` with respect to `inputs`, leaving every `.grad` as it is.

    With `is_grads_batched` the first dimension of each of `grad_outputs` is a batch, and so is that of each result
    (EN-17): the whole pass runs inside vmap.

    Returns:
        A tuple aligned with `inputs`, or a dict with the same keys if `inputs` is a dict.

    Raises:
        RuntimeError: an input that does not require grad, or is unused and `allow_unused` is not set (EN-14).
        ValueError: `materialize_grads` together with `allow_unused=False`.
    """
    try:
        if not only_inputs:
            warnings.warn(
                "only_inputs=False is deprecated and changes nothing: gradients of other leaves are accumulated by "
                "backward()",
                FutureWarning,
                stacklevel=2,
            )
        if materialize_grads and allow_unused is False:
            raise ValueError(
                "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
                "allow_unused=False."
            )
        roots = _as_tuple(outputs)
        if is_grads_batched:

            def for_one(grads: list[Any]) -> Any:
                return grad(
                    roots, inputs, grads, retain_graph, create_graph,
                    allow_unused=allow_unused, materialize_grads=materialize_grads,
                )  # fmt: skip

            return grads_of_batch(roots, _grads_of(grad_outputs, len(roots)), for_one)
        wanted = _requested_inputs(inputs, "grad")
        task = BackwardPass(_recorder_of(roots), retain_graph, create_graph)
        results = _captured_by(task, wanted, roots, _grads_of(grad_outputs, len(roots)))
        for index, result in enumerate(results):
            if result is None and not (materialize_grads or allow_unused):
                raise AutogradError(
                    f"The differentiated tensor at index {index} appears to not have been used in the graph. "
                    "Set allow_unused=True if this is the desired behavior."
                )
        if materialize_grads:  # nobody else holds a zero that never arrived
            results = [_zeros(p, create_graph) if r is None else r for r, p in zip(results, wanted, strict=True)]
        return (
            dict(zip(cast("dict[Any, Any]", inputs), results, strict=True))
            if isinstance(inputs, dict)
            else tuple(results)
        )
    except BaseException as error:  # of any kind: it goes on as it is
        leave(error)
        raise


def gradients(
    outputs: Sequence[Tensor],
    inputs: Sequence[TensorOrEdge],
    grads: Sequence[Tensor],
    create_graph: bool,
    outer_nodes: frozenset[Node],
) -> list[Tensor | None]:
    """Return the gradients of `outputs` with respect to `inputs`, None where one is undefined, for a tape that may lead
    to `outer_nodes` of another graph. The tape is kept."""
    task = BackwardPass(_recorder_of(outputs), True, create_graph)
    task.path = path_of_pass(state.here, within=True)
    return _captured_by(task, inputs, outputs, grads, outer_nodes)


def _captured_by(
    task: BackwardPass,
    places: Sequence[TensorOrEdge],
    roots: Sequence[TensorOrEdge],
    grads: Sequence[Any],
    outer_nodes: frozenset[Node] = frozenset(),
) -> list[Tensor | None]:
    """Run a pass, and return the gradients that arrived at `places`, one tensor for each edge; None for undefined
    ones."""
    edges = [_edge_of(place) for place in places]
    seeds = _seeds(roots, grads, task)
    _run_and_submit(task, lambda: task.run(seeds, edges, into_leaves=False, outer_nodes=outer_nodes))
    given = {id(value) for _, value in seeds}
    found: dict[Edge, Tensor | None] = {}
    for edge in edges:
        if edge not in found:
            found[edge] = _captured(task, edge, given)
    return [found[edge] for edge in edges]


def _run_and_submit(task: BackwardPass, run: Callable[[], None]) -> None:
    """Run a pass, and submit what it has recorded, if it has a recorder."""
    if task.recorder is None:
        run()
        return
    with collector_paused():
        run()
        task.recorder.submit()


def _captured(task: BackwardPass, edge: Edge, given: Collection[int]) -> Tensor | None:
    """Return the gradient that arrived at an edge, in memory of its own unless it is one of the seeds; `given` holds
    the seeds' ids."""
    result = _tensor_or_none(task.captured.get(edge))
    if result is not None and result._base is not None and id(result) not in given:
        return _owning_memory(result)
    return result


def pull_back(
    outputs: Sequence[Tensor], grads: Sequence[Tensor], inputs: Sequence[Tensor], create_graph: bool
) -> list[Tensor | None]:
    """Return the gradients of `outputs` by `inputs` on a local tape, None where one is undefined. The tape is kept, and
    in a session nothing is submitted."""
    task = BackwardPass(_recorder_of(outputs), True, create_graph)
    task.path = path_of_pass(state.here, within=True)
    edges = [tensor.edge() for tensor in inputs]
    with nullcontext() if task.recorder is None else collector_paused():
        task.run(_seeds(outputs, grads, task), edges, into_leaves=False)
    return [_tensor_or_none(task.captured.get(edge)) for edge in edges]


def _zeros(place: TensorOrEdge, requires_grad: bool) -> Tensor:
    """Return zeros in place of an undefined gradient (EN-14)."""
    if not isinstance(place, Tensor):
        raise AutogradError(
            "materialize_grads cannot be used when the given input is a GradientEdge whose gradient is missing: pass "
            "the tensor, or allow_unused=True"
        )
    zeros = zeros_on(place.device, place.shape, place.dtype)
    zeros._requires_grad = requires_grad
    return zeros


def _tensor_or_none(captured: Any) -> Tensor | None:
    """Return a captured gradient as a tensor, or None if it is undefined; wait for a pending value (H5)."""
    if captured is None:
        return None
    result: Tensor = captured if isinstance(captured, Tensor) else Tensor.made(captured)
    return None if resolve_gradient(result._data) is None else result


def _owning_memory(gradient: Tensor) -> Tensor:
    """Return a gradient that is a view as a tensor with memory of its own (BW-16)."""
    data = gradient._data
    if type(data) is Batched:
        return gradient
    own = Tensor.made(data.copy(order="K") if is_array(data) else data, gradient.grad_fn, gradient.output_nr)
    own._requires_grad = owns_grad(gradient)
    return share_tangents(gradient, own)


def _recorder_of(roots: Sequence[TensorOrEdge]) -> Recorder | None:
    if state.here.batches:
        return BatchedPassRecorder()
    for root in roots:
        if not isinstance(root, Tensor):
            owner = root.node._recorder_of()
            if owner is not None and not owner.closed:
                return owner
        elif type(root._data) is Pending and type(settle(root)._data) is Pending:
            return root._data.record.recorder
    return state.here.recorder


def _edge_of(place: TensorOrEdge) -> Edge:
    return place.edge() if isinstance(place, Tensor) else (place.node, place.output_nr)


def _meta_of(place: TensorOrEdge) -> Meta:
    if isinstance(place, Tensor):
        return place.shape, place.dtype
    meta = place.node._metas[place.output_nr]
    if meta is None:
        raise AutogradError(
            f"output {place.output_nr} of {place.node._title()} has no gradient: it does not require grad"
        )
    return meta


def _device_of(place: TensorOrEdge) -> Device:
    return place.device if isinstance(place, Tensor) else place.node._device(place.output_nr)


def _as_tuple(places: Any) -> tuple[TensorOrEdge, ...]:
    items: tuple[Any, ...] = (places,) if isinstance(places, Tensor | GradientEdge) else tuple(places)
    for item in items:
        if not isinstance(item, Tensor | GradientEdge):
            raise TypeError(f"expected tensors or gradient edges, got {type(item).__name__}")
    return items


def _requested_inputs(inputs: Any, caller: str) -> tuple[TensorOrEdge, ...]:
    """Return the checked inputs of a pass: tensors and gradient edges (EN-11, EN-15)."""
    if isinstance(inputs, dict):
        inputs = tuple(cast("dict[Any, Any]", inputs).values())
    elif isinstance(inputs, Mapping):
        raise TypeError(f"inputs must be a tensor, a sequence of tensors or a dict, got {type(inputs).__name__}")  # pyright: ignore[reportUnknownArgumentType]
    wanted = _as_tuple(inputs)
    if not wanted:
        raise AutogradError(f"`inputs` argument to `{caller}()` cannot be empty.")
    for index, place in enumerate(wanted):
        if isinstance(place, Tensor) and not place._requires_grad:
            raise AutogradError(f"One of the differentiated Tensors does not require grad (input {index})")
    return wanted


def _grads_of(grads: Any, count: int) -> list[Any]:
    if grads is None:
        return [None] * count
    one = isinstance(grads, Tensor | np.ndarray) or not isinstance(grads, Iterable)
    items: list[Any] = [grads] if one else list(cast("Iterable[Any]", grads))
    if len(items) != count:
        raise AutogradError(f"got {count} tensors and {len(items)} gradients")
    return items


def _seeds(roots: Sequence[TensorOrEdge], grads: Sequence[Any], task: BackwardPass) -> list[tuple[Edge, Any]]:
    """Return each root's edge with its checked gradient (EN-01 to EN-05)."""
    seeds: list[tuple[Edge, Any]] = []
    for index, (root, grad) in enumerate(zip(roots, grads, strict=True)):
        if isinstance(root, Tensor):
            node = root.grad_fn
            if not owns_grad(root):
                raise AutogradError(f"element {index} of tensors does not require grad and does not have a grad_fn")
            if type(node) is DetachedHistory:
                raise node.refusal()
        shape, dtype = _meta_of(root)
        if grad is None:
            if math.prod(shape) != 1:
                raise AutogradError("grad can be implicitly created only for scalar outputs")
            if dtype.kind != "f":
                raise AutogradError(f"grad can be implicitly created only for real scalar outputs but got {dtype}")
            grad = ops.ones_of(shape, dtype, task.recorder, _device_of(root))
        else:
            if not isinstance(grad, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
            settle(grad)
            if grad.shape != shape:
                raise AutogradError(
                    f"Mismatch in shape: grad_output[{index}] has a shape of {list(grad.shape)} and output[{index}] "
                    f"has a shape of {list(shape)}."
                )
            if (grad.dtype.kind == "c") != (dtype.kind == "c"):
                raise AutogradError(
                    "For complex Tensors, both grad_output and output are required to have the same dtype: "
                    f"{grad.dtype} and {dtype}."
                )
            if grad.device != _device_of(root):
                raise AutogradError(
                    f"Mismatch in device: grad_output[{index}] is on {grad.device} and output[{index}] on "
                    f"{_device_of(root)}."
                )
            if grad.dtype != dtype:
                grad = ops.to_dtype(grad, dtype)
        seeds.append((_edge_of(root), grad if task.on_tensors else grad._data))
    return seeds
