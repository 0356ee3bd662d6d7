"""The names of `torch.autograd.graph` that raygrad has: the virtual base of every kind of node (ND-01)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import node

if TYPE_CHECKING:
    from .node import Node as Node
else:

    class _Virtual(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, node.Node)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, node.Node)

    class Node(metaclass=_Virtual):
        """What `isinstance(tensor.grad_fn, Node)` asks: a node of a Function or a built-in op, or an accumulator.

        No node inherits from it, and it makes none.
        """

        def __new__(cls) -> Node:
            raise TypeError("nodes are made by operations; Node is there to ask what is one")
