"""Sorting along a dimension: argsort, sort, topk, msort.

Medians, quantiles and searches in sorted tensors, composed of these, are in `order_statistics`.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from raygrad.errors import AutogradError

from ...core import dtypes
from ...dispatch.dispatch import call
from ...registry.define_op import axis_of, define, space_of
from ...registry.dtype_constraints import no_complex, real_numbers, takes
from ..indexing.gathering import gather
from .minmax import ValuesIndices

PUBLIC = "argsort msort sort topk".split()


def _argsort(a: Any, axis: int, descending: bool) -> Any:
    if not a.ndim:
        return space_of(a).zeros((), np.int64)
    if not descending:
        return np.argsort(a, axis, kind="stable")
    backwards = np.argsort(np.flip(a, axis), axis, kind="stable")  # equal ones keep their order, too
    return np.flip(a.shape[axis] - 1 - backwards, axis).copy()


_ARGSORT = define(
    "argsort", ("a",), _argsort, lambda params, a: (a.shape, dtypes.int64), promotes="arith", admits=no_complex
)


def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Return the indices that sort `input` along `dim`; equal elements keep their order, `stable` or not."""
    return call(_ARGSORT, (input,), (axis_of(dim, input.ndim), descending))


@takes(no_complex)
def sort(input: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Any:
    """Return the elements sorted along `dim`, and where they were; equal ones keep their order, `stable` or not."""
    places = argsort(input, dim, descending)
    return ValuesIndices(gather(input, dim, places), places)


@takes(real_numbers)
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the `k` greatest elements along `dim` (or the smallest) and where they were, in order, `sorted` or not."""
    axis, k = axis_of(dim, input.ndim), operator.index(k)
    if not 0 <= k <= (input.shape[axis] if input.ndim else 1):
        raise AutogradError("selected index k out of range")
    order = argsort(input, dim, largest)
    places = order[(*[slice(None)] * axis, slice(0, k))] if input.ndim else order
    return ValuesIndices(gather(input, dim, places), places)


@takes(no_complex)
def msort(input: Any) -> Any:
    """Return the elements sorted along the first dimension."""
    return sort(input, 0)[0]
