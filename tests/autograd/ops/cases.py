"""The table of cases: per family, uses of each op in several shapes, 0-dimensional and broadcast ones among them."""

from __future__ import annotations

from .inputs import FAMILIES as FAMILIES
from .tables import (
    bends as bends,
    decompositions as decompositions,
    elementwise as elementwise,
    fft as fft,
    images as images,
    matrices as matrices,
    more as more,
    networks as networks,
    pointwise as pointwise,
    reductions as reductions,
    samples as samples,
    selecting as selecting,
    shapes as shapes,
    special as special,
    special_functions as special_functions,
)
