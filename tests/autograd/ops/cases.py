"""The table of cases: per family, uses of each op in several shapes, 0-dimensional and broadcast ones among them."""

from __future__ import annotations

from .inputs import FAMILIES as FAMILIES
from .tables import bends as bends
from .tables import elementwise as elementwise
from .tables import fft as fft
from .tables import images as images
from .tables import matrices as matrices
from .tables import networks as networks
from .tables import pointwise as pointwise
from .tables import reductions as reductions
from .tables import selecting as selecting
from .tables import shapes as shapes
from .tables import special as special
