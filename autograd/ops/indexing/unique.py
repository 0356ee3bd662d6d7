"""Distinct elements and counts: unique, unique_consecutive, isin, bincount.

Composed of other ops. Their number depends on values, so a session waits for it; they carry no gradient, as in PyTorch.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ...dispatch.creation import zeros
from ...dispatch.dispatch import call
from ...registry.define_op import axis_of, define, xp
from ...registry.dtype_constraints import no_bools, no_complex, real_numbers, takes
from ..elementwise.where import nonzero
from ..layout.axis_order import to_dtype, zeros_as
from ..layout.joining import cat
from ..layout.shape import movedim, reshape, unsqueeze
from ..reduction.minmax import any as _any
from ..reduction.reduce import cumsum
from ..reduction.sort import argsort
from .gathering import index_select, put_along_dim, scatter_add

PUBLIC = "bincount isin unique unique_consecutive".split()


_ROW_ORDER = define(
    "row_order",
    ("a",),
    lambda a: xp.lexsort(a.T[::-1]) if a.shape[1] else xp.arange(a.shape[0]),
    lambda params, a: (a.shape[:1], np.dtype(np.int64)),
    host_only=True,
)


def _differs_from_previous(rows: Any) -> Any:
    """Return where a row differs from the one before it; True for the first."""
    differ = rows[1:] != rows[:-1]
    differ = _any(reshape(differ, (differ.shape[0], math.prod(differ.shape[1:]))), 1) if differ.ndim > 1 else differ
    first = zeros_as(to_dtype(reshape(rows, (rows.shape[0], math.prod(rows.shape[1:])))[:1, 0], np.int64)) == 0
    return cat((first, differ))


def _counted(rows: Any, order: Any, shape: Any) -> tuple[Any, Any, Any]:
    """Return the rows that differ from the row before, the group number of each row, and the size of each group."""
    if not rows.shape[0]:
        empty = zeros_as(order)
        return rows, reshape(empty, shape), empty
    apart = _differs_from_previous(rows)
    number = cumsum(to_dtype(apart, np.int64), 0) - 1
    at = nonzero(apart)[:, 0]
    values = index_select(rows, 0, at)
    counts = scatter_add(zeros_as(at), 0, number, zeros_as(number) + 1)
    inverse = number if order is None else put_along_dim(zeros_as(number), 0, order, number)
    return values, reshape(inverse, shape), counts


def _requested_results(found: tuple[Any, Any, Any], return_inverse: bool, return_counts: bool) -> Any:
    values, inverse, counts = found
    wanted = (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))
    return wanted if len(wanted) > 1 else values


@takes(no_complex)
def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the distinct elements in order, or with `dim` the distinct slices along it; in a session, waits for their
    number.

    Args:
        sorted: they are in order in any case.
        return_inverse: also return, in the shape of `input`, the number of each element among the distinct ones.
        return_counts: also return how many there are of each.
    """
    given: Any = input.detach()
    if dim is None:
        rows = reshape(given, (-1,))
        order = argsort(rows)
        return _requested_results(
            _counted(index_select(rows, 0, order), order, input.shape), return_inverse, return_counts
        )
    axis = axis_of(dim, input.ndim)
    rows = movedim(given, axis, 0) if input.ndim else reshape(given, (1,))
    order = call(_ROW_ORDER, (reshape(rows, (rows.shape[0], math.prod(rows.shape[1:]))),))
    values, inverse, counts = _counted(index_select(rows, 0, order), order, (rows.shape[0],))
    return _requested_results(
        (movedim(values, 0, axis) if input.ndim else values, inverse, counts), return_inverse, return_counts
    )


@takes(no_complex)
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the first of each run of equal elements, or with `dim` of equal slices; see `unique`."""
    given: Any = input.detach()
    if dim is None:
        return _requested_results(_counted(reshape(given, (-1,)), None, input.shape), return_inverse, return_counts)
    axis = axis_of(dim, input.ndim)
    rows = movedim(given, axis, 0)
    values, inverse, counts = _counted(rows, None, (rows.shape[0],))
    return _requested_results((movedim(values, 0, axis), inverse, counts), return_inverse, return_counts)


@takes(real_numbers, 2)
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    """Return where an element is among `test_elements`; one of the two may be a number.

    Args:
        assume_unique: nothing is gained by it here.
        invert: where it is not.
    """
    if not hasattr(elements, "dtype"):
        found = _any(test_elements == elements)
    elif not hasattr(test_elements, "dtype"):
        found = elements == test_elements
    else:
        found = _any(unsqueeze(elements, -1) == reshape(test_elements, (-1,)), -1)
    return ~found if invert else found


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """Return how often each number from 0 on occurs in a vector, or the sum of its `weights`; in a session, waits for
    the greatest.

    Raises:
        RuntimeError: it is no vector of integers from 0 on.
    """
    no_bools("bincount", (), input.dtype)
    if input.ndim != 1 or input.dtype.kind not in "iu":
        raise AutogradError("bincount only supports 1-d non-negative integral inputs.")
    minlength = operator.index(minlength)
    if minlength < 0:
        raise AutogradError("minlength should be >= 0")
    extent = minlength
    if input.shape[0]:
        least, most = input.min(), input.max()
        if int(least) < 0:
            raise AutogradError("bincount only supports 1-d non-negative integral inputs.")
        extent = max(int(most) + 1, minlength)
    ones = zeros_as(input) + 1 if weights is None else weights.detach()
    ones = to_dtype(ones, np.int64 if weights is None else np.float32 if ones.dtype == np.float32 else np.float64)
    return scatter_add(zeros(extent, dtype=ones.dtype, device=input.device), 0, to_dtype(input, np.int64), ones)
