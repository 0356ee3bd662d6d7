"""The names of `torch.autograd.graph`, re-exported, and the virtual base class `Node` (ND-01) and gradient edges
(EN-27).

All but those two are defined elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from raygrad.errors import AutogradError
from raygrad.tracebacks import public

from .nodes import node
from .nodes.current_pass import current_node, current_pass_id, is_graph_retained, will_run
from .nodes.multi_hooks import register_multi_grad_hook
from .saved.allow_mutation import allow_mutation_on_saved_tensors
from .saved.saved_tensor_hooks import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from .saved.saved_tensors import SavedTensor
from .storage.version_counter import bump
from .tensor.tensor import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "SavedTensor",
    "allow_mutation_on_saved_tensors",
    "current_node",
    "current_pass_id",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "is_graph_retained",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "will_run",
]

if TYPE_CHECKING:
    from .nodes.node import Node
else:

    class _Virtual(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, node.Node)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, node.Node)

    class Node(metaclass=_Virtual):
        """The virtual base class of nodes, for `isinstance(tensor.grad_fn, Node)`: of a Function, a built-in op, or an
        accumulator.

        No node inherits from it, and it makes none.
        """

        def __new__(cls) -> Node:
            raise TypeError("nodes are made by operations; Node is there to ask what is one")


class GradientEdge(NamedTuple):
    """The edge along which a tensor's gradient flows, without the tensor: a root or an input of `backward` and `grad`.

    It keeps the graph alive, and stands for the tensor's value of when it was made.
    """

    node: node.Node
    output_nr: int
    ownership_token: node.Node | None = None
    """An object kept alive with the edge; raygrad needs none, since `node` is a strong reference."""


@public
def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Increment the version counter of a tensor, or of each of several: how a write to a raw array is declared."""
    for changed in (tensor,) if isinstance(tensor, Tensor) else tensor:
        bump(changed.counter())


@public
def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge along which the gradient of a tensor flows now.

    Raises:
        RuntimeError: the tensor does not require grad.
    """
    if not tensor.requires_grad:
        raise AutogradError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    producer, number = tensor.edge()
    assert producer is not None
    return GradientEdge(producer, number)
