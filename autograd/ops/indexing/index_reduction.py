"""`index_reduce`: reduction of slices into the places that an index vector names.

Composed of `scatter_reduce`, whose index is that vector expanded over the slices.
"""

from __future__ import annotations

from typing import Any

from raygrad.errors import AutogradError

from ...registry.define_op import axis_of
from ...registry.dtype_constraints import real_numbers, takes
from ..layout.shape import clone, expand, reshape
from .gathering import check_slices
from .selecting import scatter_reduce

PUBLIC = ["index_reduce"]

_KINDS = ("prod", "mean", "amax", "amin")


@takes(real_numbers)
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Return `input` with the slices of `source` along `dim` reduced into those that `index`, a vector, names.

    Args:
        reduce: "prod", "mean", "amax" or "amin".
        include_self: count what `input` has at these places, too.

    Raises:
        RuntimeError: another reduction, two dtypes, or shapes that do not fit.
    """
    if reduce not in _KINDS:
        raise AutogradError(f"index_reduce(): Expected reduce to be one of {', '.join(_KINDS)} but got {reduce}.")
    if source.dtype != input.dtype:
        raise AutogradError(
            f"index_reduce(): self and source expected to have the same dtype, but got {input.dtype} and {source.dtype}"
        )
    axis = axis_of(dim, input.ndim)
    check_slices("index_reduce", input.shape, axis, index, source.shape)
    if not input.ndim:
        made = index_reduce(
            reshape(clone(input), (1,)), 0, index, reshape(source, (-1,)), reduce, include_self=include_self
        )
        return reshape(made, ())
    if not source.ndim:
        source = reshape(source, (1,))
    places = reshape(index, [-1 if d == axis else 1 for d in range(input.ndim)])
    places = expand(places, tuple(source.shape))
    return scatter_reduce(input, axis, places, source, reduce, include_self=include_self)
