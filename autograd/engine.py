"""backward() and grad(): what they accept, the pass that they run, and what they return (SEMANTICS EN).

Rules of this file: arguments and results; the pass itself is in `traversal`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from raygrad.errors import AutogradError

from .modes import state
from .node import Edge
from .recording import Pending, Recorder
from .tensor import Tensor
from .traversal import Pass
from .traversal import call_hook as call_hook

TensorOrTensors = Tensor | Sequence[Tensor]


def backward(
    tensors: TensorOrTensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of `tensors` into the `.grad` of the leaves, or of `inputs` only.

    Args:
        tensors: the roots.
        grad_tensors: their gradients; None for a root with one element means one.
        retain_graph: keep what was saved for another pass; by default as `create_graph`.
        create_graph: record the pass itself, so that its results can be differentiated.
        inputs: accumulate only into these.

    Raises:
        RuntimeError: a root that does not require grad, a gradient of the wrong shape, freed buffers.
    """
    if state.transforms:
        raise AutogradError(
            f"backward() called inside a function that {state.transforms[-1]} transforms. This is not supported: "
            "use raygrad.func.grad or vjp, or autograd.grad, or call backward() outside of the transform"
        )
    roots = _as_tuple(tensors)
    grads = _grads_of(grad_tensors, len(roots))
    edges: list[Edge] | None = None
    if inputs is not None:
        wanted = _wanted(inputs, "backward")
        edges = [tensor.edge() for tensor in wanted]
        for tensor in wanted:
            tensor.retain_grad()  # how a non-leaf among them accumulates (EN-12)
    task = Pass(_recorder_of(roots), retain_graph, create_graph)
    task.run(_seeds(roots, grads, task.on_tensors), edges)
    if task.recorder is not None:
        task.recorder.submit()


def grad(
    outputs: TensorOrTensors,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of `outputs` with respect to `inputs`, leaving every `.grad` as it is.

    Returns:
        A tuple aligned with `inputs`, or a dict with the same keys if `inputs` is a dict.

    Raises:
        RuntimeError: an input that does not require grad, or is unused and `allow_unused` is not set (EN-14).
        ValueError: `materialize_grads` together with `allow_unused=False`.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    roots = _as_tuple(outputs)
    wanted = _wanted(inputs, "grad")
    task = Pass(_recorder_of(roots), retain_graph, create_graph)
    edges = [tensor.edge() for tensor in wanted]
    task.run(_seeds(roots, _grads_of(grad_outputs, len(roots)), task.on_tensors), edges, into_leaves=False)
    if task.recorder is not None:
        task.recorder.submit()
    found: dict[Edge, Tensor | None] = {}
    for index, (edge, tensor) in enumerate(zip(edges, wanted, strict=True)):
        if edge in found:
            continue
        result = found[edge] = _known(task.captured.get(edge))
        if result is None and materialize_grads:
            found[edge] = result = Tensor.made(np.zeros(tensor.shape, tensor.dtype))
            result._requires_grad = create_graph
        elif result is None and not allow_unused:
            raise AutogradError(
                f"The differentiated tensor at index {index} appears to not have been used in the graph. "
                "Set allow_unused=True if this is the desired behavior."
            )
    results = [found[edge] for edge in edges]
    return (
        dict(zip(cast("dict[Any, Any]", inputs), results, strict=True)) if isinstance(inputs, dict) else tuple(results)
    )


def pulled_back(
    outputs: Sequence[Tensor], grads: Sequence[Tensor], inputs: Sequence[Tensor], create_graph: bool
) -> list[Tensor | None]:
    """Return the gradients of `outputs` by `inputs` on a tape of the library's own: in a session nothing is submitted,
    and what is undefined need not be known yet. The tape is kept."""
    task = Pass(_recorder_of(outputs), True, create_graph)
    edges = [tensor.edge() for tensor in inputs]
    task.run(_seeds(outputs, grads, task.on_tensors), edges, into_leaves=False)
    found = [task.captured.get(edge) for edge in edges]
    return [data if data is None or isinstance(data, Tensor) else Tensor.made(data) for data in found]


def _known(captured: Any) -> Tensor | None:
    """Return a captured gradient as a tensor, None if it is undefined; waits where only running tells (H5)."""
    if captured is None:
        return None
    result: Tensor = captured if isinstance(captured, Tensor) else Tensor.made(captured)
    data = result._data
    if type(data) is Pending and data.defined is None and data.record.recorder.read(data) is None:
        return None
    return result


def _recorder_of(roots: Sequence[Tensor]) -> Recorder | None:
    for root in roots:
        if type(root._data) is Pending:
            return root._data.record.recorder
    return state.recorder


def _as_tuple(tensors: Any) -> tuple[Tensor, ...]:
    items: tuple[Any, ...] = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    for item in items:
        if not isinstance(item, Tensor):
            raise TypeError(f"expected tensors, got {type(item).__name__}")
    return items


def _wanted(inputs: Any, caller: str) -> tuple[Tensor, ...]:
    """Return the tensors whose gradients are asked for (EN-11, EN-15)."""
    if isinstance(inputs, dict):
        inputs = tuple(cast("dict[Any, Any]", inputs).values())
    elif isinstance(inputs, Mapping):
        raise TypeError(f"inputs must be a tensor, a sequence of tensors or a dict, got {type(inputs).__name__}")  # pyright: ignore[reportUnknownArgumentType]
    wanted = _as_tuple(inputs)
    if not wanted:
        raise AutogradError(f"`inputs` argument to `{caller}()` cannot be empty.")
    for index, tensor in enumerate(wanted):
        if not tensor._requires_grad:
            raise AutogradError(f"One of the differentiated Tensors does not require grad (input {index})")
    return wanted


def _grads_of(grads: Any, count: int) -> list[Any]:
    if grads is None:
        return [None] * count
    items = [grads] if isinstance(grads, Tensor) else list(grads)
    if len(items) != count:
        raise AutogradError(f"got {count} tensors and {len(items)} gradients")
    return items


def _seeds(roots: Sequence[Tensor], grads: Sequence[Any], on_tensors: bool) -> list[tuple[Edge, Any]]:
    """Return each root's edge with its checked gradient (EN-01 to EN-05)."""
    from . import ops

    seeds: list[tuple[Edge, Any]] = []
    for index, (root, grad) in enumerate(zip(roots, grads, strict=True)):
        if not root._requires_grad:
            raise AutogradError(f"element {index} of tensors does not require grad and does not have a grad_fn")
        if grad is None:
            if root._data.size != 1:
                raise AutogradError("grad can be implicitly created only for scalar outputs")
            if root.dtype.kind != "f":
                raise AutogradError(f"grad can be implicitly created only for real scalar outputs but got {root.dtype}")
            grad = ops.ones_as(root)
        else:
            if not isinstance(grad, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
            if grad.shape != root.shape:
                raise AutogradError(
                    f"Mismatch in shape: grad_output[{index}] has a shape of {list(grad.shape)} and output[{index}] "
                    f"has a shape of {list(root.shape)}."
                )
            if (grad.dtype.kind == "c") != (root.dtype.kind == "c"):
                raise AutogradError(
                    "For complex Tensors, both grad_output and output are required to have the same dtype: "
                    f"{grad.dtype} and {root.dtype}."
                )
            if grad.dtype != root.dtype:
                grad = ops.to_dtype(grad, root.dtype)
        seeds.append((root.edge(), grad if on_tensors else grad._data))
    return seeds
