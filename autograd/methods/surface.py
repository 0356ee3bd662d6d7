"""The combined class of all tensor methods that are built on ops: operators, conversions, graph methods.

`assembly` copies its members to `Tensor` once ops exist; to type checkers it is a base class of `Tensor`.
"""

from __future__ import annotations

from .conversions import Conversions
from .graph_methods import GraphMethods
from .memory_facts import MemoryFacts
from .op_methods import TensorMethods
from .random_fills import RandomFills


class Surface(GraphMethods, Conversions, MemoryFacts, RandomFills, TensorMethods):
    """The methods of `Tensor` that are not its own."""
