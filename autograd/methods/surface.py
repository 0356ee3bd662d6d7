"""What tensors offer beyond their data: the methods that are ops, operators, ways out and places in the graph.

All of these are built on tensors, so `assembly` gives them to `Tensor` once they are complete. Type checkers are told
that it inherits them.
"""

from __future__ import annotations

from .conversions import Conversions
from .graph_methods import GraphMethods
from .op_methods import TensorMethods


class Surface(GraphMethods, Conversions, TensorMethods):
    """The methods of `Tensor` that are not its own."""
