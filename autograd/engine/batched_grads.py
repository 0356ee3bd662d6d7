"""Batched gradients of `autograd.grad(..., is_grads_batched=True)`: one backward pass inside vmap for all of them
(EN-17).

Checks the batch and unpacks the results; vmap batches the gradients on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raygrad.errors import AutogradError

from ..core.batched_data import VmapLevel, open_vmap_level, unwrap_batched
from ..core.pytree import tree_map
from ..tensor.tensor import Tensor
from ..vmap import along, batched


def grads_of_batch(roots: Sequence[Any], grads: Sequence[Any], run: Callable[[list[Any]], Any]) -> Any:
    """Return the results of `run(gradients)` for each of a batch of gradients, stacked in front.

    Args:
        roots: what is differentiated.
        grads: per root, its gradients stacked along a first dimension; None for what has one element.
        run: runs a pass for one gradient per root; it returns tensors and None in a container.

    Raises:
        RuntimeError: a root is a GradientEdge; a gradient has another shape than its root behind the first dimension;
            no gradient is given.
        ValueError: the first dimensions differ.
    """
    for index, (root, grad) in enumerate(zip(roots, grads, strict=True)):
        if not isinstance(root, Tensor):
            raise AutogradError("Batched grads are not supported with GradientEdge: pass the tensors as outputs")
        if isinstance(grad, Tensor) and (not grad.ndim or grad.shape[1:] != root.shape):
            raise AutogradError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{index}] has a shape of {list(grad.shape)} and "
                f"output[{index}] has a shape of {list(root.shape)}. If is_grads_batched=True is "
                "meant for some of them only, use vmap"
            )
    sizes = [grad.shape[0] for grad in grads if isinstance(grad, Tensor)]
    if not sizes:
        raise AutogradError("is_grads_batched=True needs grad_outputs, whose first dimension is the batch")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(f"grad_outputs have batches of different size: {sizes}")
    level = VmapLevel(sizes[0])
    with open_vmap_level(level):
        found = run([batched(grad, 0, level) if isinstance(grad, Tensor) else grad for grad in grads])
        return tree_map(
            lambda grad: None if grad is None else along(*unwrap_batched(grad, level), 0, level.size), found
        )
