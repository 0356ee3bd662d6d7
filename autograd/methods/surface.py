"""The combined class of all tensor methods that are built on ops: operators, conversions, graph methods.

`assembly` copies its members to `Tensor` once ops exist; to type checkers it is a base class of `Tensor`. Methods that
are functions of the package have for them the signatures of the generated stub, with NumPy's spellings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .conversions import Conversions
from .graph_methods import GraphMethods
from .memory_facts import MemoryFacts
from .op_methods import TensorMethods
from .random_fills import RandomFills

if TYPE_CHECKING:
    from raygrad.stubs.methods import FunctionsAsMethods
else:

    class FunctionsAsMethods:
        """Nothing at run time."""


class Surface(  # pyright: ignore[reportIncompatibleMethodOverride]
    FunctionsAsMethods, GraphMethods, Conversions, MemoryFacts, RandomFills, TensorMethods
):
    """The methods of `Tensor` that are not its own."""
